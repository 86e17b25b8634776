//! One way to the collector: when the next post may go, and what became of the last.
//!
//! # Definition
//! - A post that was not taken goes again where that may help: after 429, 502, 503 and 504, and where there was no answer.
//!   Between two tries there is twice the time of before, or what `Retry-After` asks for in seconds; neither is longer than
//!   `Pace::longest`. Anything else is an answer: the post is given up.
//! - After [`TRIES_MAX`] tries it is given up too.
//!
//! # Reference
//! opentelemetry.io, specification of OTLP: "OTLP/HTTP Response", "OTLP/HTTP Throttling".

use std::time::{Duration, Instant};

use prost::Message as _;
use ureq::Agent;
use ureq::http::StatusCode;
use ureq::http::header::RETRY_AFTER;

use super::settings::{Signal, Target};
use super::wire::Response;
use crate::http_client;

/// With the pauses between them, three minutes: a collector that is started anew is back by then.
const TRIES_MAX: u32 = 9;

/// What is read of an answer: it is a count and a sentence.
const ANSWER_BYTES_MAX: u64 = 64 << 10;

/// How often.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pace {
    /// Between two posts that were taken.
    pub(super) every: Duration,
    /// Between the first try and the second.
    pub(super) first: Duration,
    /// Between two tries, at the most.
    pub(super) longest: Duration,
}

impl Pace {
    pub(super) const USUAL: Self =
        Self { every: Duration::from_secs(5), first: Duration::from_secs(1), longest: Duration::from_secs(60) };
}

/// What became of a post.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sent {
    /// The collector has it, but for so many of it that it rejected.
    Taken { rejected: u64 },
    /// It may go again.
    Later,
    /// It goes no more.
    GivenUp,
}

/// Why a post was not taken.
struct Failure {
    why: String,
    may_help: bool,
    after: Option<Duration>,
}

/// One way.
#[derive(Debug)]
pub(super) struct Way {
    signal: Signal,
    target: Target,
    agent: Agent,
    pace: Pace,
    /// When the next post may go.
    next: Instant,
    /// Posts in a row that were not taken: how long the pause is.
    failures: u32,
    /// How often the same was tried.
    tries: u32,
    is_said: bool,
}

impl Way {
    /// There, at that pace, from now on.
    pub(super) fn new(signal: Signal, target: Target, pace: Pace) -> Self {
        let (agent, next) = (http_client::agent(), Instant::now());
        Self { signal, target, agent, pace, next, failures: 0, tries: 0, is_said: false }
    }

    /// When the next post may go.
    pub(super) fn next(&self) -> Instant {
        self.next
    }

    /// The end is near: a last one goes at once. Where none was taken before, the pause behind it is as long as ever.
    pub(super) fn hurry(&mut self) {
        self.next = Instant::now();
    }

    /// Posts it and waits for the answer, until `end` at the latest.
    pub(super) fn send(&mut self, body: &[u8], end: Option<Instant>) -> Sent {
        self.tries += 1;
        let sent = self.post(body, end);
        let now = Instant::now();
        let Failure { why, may_help, after } = match sent {
            Ok(rejected) => {
                (self.next, self.failures, self.tries) = (now + self.pace.every, 0, 0);
                if rejected > 0 {
                    self.say(&format!("it rejected {rejected} of them"));
                }
                return Sent::Taken { rejected };
            }
            Err(failure) => failure,
        };
        self.say(&why);
        let doubled = self.pace.first.saturating_mul(1 << self.failures.min(16));
        self.failures += 1;
        self.next = now + doubled.max(after.unwrap_or_default()).min(self.pace.longest);
        if may_help && self.tries < TRIES_MAX {
            return Sent::Later;
        }
        self.tries = 0;
        Sent::GivenUp
    }

    /// How many were rejected, or why nothing was taken.
    fn post(&self, body: &[u8], end: Option<Instant>) -> Result<u64, Failure> {
        let left = end.map(|end| end.saturating_duration_since(Instant::now()));
        let timeout = self.target.timeout.min(left.unwrap_or(Duration::MAX)).max(Duration::from_millis(1));
        let mut post = self.agent.post(self.target.uri.clone()).content_type("application/x-protobuf");
        for (name, value) in &self.target.headers {
            post = post.header(name, value);
        }
        let post = post.config().timeout_global(Some(timeout)).build();
        let unanswered = |error: ureq::Error| Failure { why: http_client::why(&error), may_help: true, after: None };
        let mut answer = post.send(body).map_err(unanswered)?;
        let status = answer.status();
        if !status.is_success() {
            let seconds = answer.headers().get(RETRY_AFTER).and_then(|after| after.to_str().ok()?.trim().parse().ok());
            let may_help = [
                StatusCode::TOO_MANY_REQUESTS,
                StatusCode::BAD_GATEWAY,
                StatusCode::SERVICE_UNAVAILABLE,
                StatusCode::GATEWAY_TIMEOUT,
            ];
            let (why, may_help) = (format!("it answered {}", status.as_u16()), may_help.contains(&status));
            return Err(Failure { why, may_help, after: seconds.map(Duration::from_secs) });
        }
        // An answer that cannot be read is a yes all the same.
        let bytes = answer.body_mut().with_config().limit(ANSWER_BYTES_MAX).read_to_vec().unwrap_or_default();
        let partial = Response::decode(bytes.as_slice()).ok().and_then(|response| response.partial);
        Ok(partial.map_or(0, |partial| u64::try_from(partial.rejected).unwrap_or(0)))
    }

    fn say(&mut self, why: &str) {
        if !std::mem::replace(&mut self.is_said, true) {
            let what = self.signal.name();
            tracing::warn!(
                "{what} do not reach the OpenTelemetry collector: {why}; the work goes on, and this is said once"
            );
        }
    }
}
