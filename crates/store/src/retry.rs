//! Retries of calls without an answer: a bounded number of times, with growing pauses.
//!
//! # Definition
//! The n-th pause is drawn uniformly from the upper half of `(0, pause · 2^(n-1)]`, with the upper limit of a pause in
//! place of larger values. Clients that failed together so do not return together. The draw depends on the process, on
//! the number of the call that is repeated and on n. A longer pause that a server [asks for](RetryAfter) is kept, up to
//! twice [`Retries::within`].

use std::error::Error;
use std::fmt::{self, Display, Formatter};
use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tracing::{debug, warn};

use crate::fault_config::draws;
use crate::notice;

/// Number of retries, the pauses between them, and the time for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Maximum number of calls, including the first.
    pub attempts_max: u32,
    /// Longest pause after the first call. The bound of each following pause is twice as large.
    pub pause: Duration,
    /// Upper limit of a pause.
    pub pause_max: Duration,
    /// Longest time from the first failure to the beginning of the last call, without pauses that a server asks for.
    /// It bounds calls that fail slowly, because a store accepts them and does not answer.
    pub within: Duration,
}

/// Cause of an error after which the server asks for a pause before the next call.
#[derive(Debug)]
pub struct RetryAfter {
    message: String,
    pause: Duration,
}

impl RetryAfter {
    /// Creates an error of that kind whose message is `message`.
    pub fn error(kind: ErrorKind, message: String, pause: Duration) -> io::Error {
        io::Error::new(kind, Self { message, pause })
    }

    /// Returns the pause that an error asks for.
    fn of(error: &io::Error) -> Duration {
        let asked = error.get_ref().and_then(|cause| cause.downcast_ref::<Self>());
        asked.map_or(Duration::ZERO, |asked| asked.pause)
    }
}

impl Display for RetryAfter {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl Error for RetryAfter {}

/// Twenty calls within half a minute. A server restarts in that time. At three failures in ten calls, twenty failures
/// in a row have a probability below 10^-10.
const ATTEMPTS_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(2);
const WITHIN: Duration = Duration::from_secs(30);

/// Maximum calls after a device error. Some disks succeed at the sixth read, within a fifth of a second. A broken disk
/// is reported as fast.
const DEVICE_ATTEMPTS_MAX: u32 = 6;

impl Default for Retries {
    fn default() -> Self {
        Self { attempts_max: ATTEMPTS_MAX, pause: PAUSE, pause_max: PAUSE_MAX, within: WITHIN }
    }
}

/// Classes of errors after which a call is repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RetryOn {
    /// Transient errors. The call continues where it was. A device error is final: after a failed flush a disk may have
    /// dropped the data, and the next flush still succeeds.
    Transient,
    /// Transient and device errors: the call starts over each time.
    Any,
    /// Device errors only: the call handles the others itself.
    Device,
}

impl Retries {
    /// Repeats the call until its error is not transient or a device error. The argument tells the call whether it is a
    /// repetition.
    pub fn repeat<T>(&self, call: impl FnMut(bool) -> io::Result<T>) -> io::Result<T> {
        self.retry_request(RetryOn::Any, call)
    }

    /// Repeats the call until its error is not transient. The argument tells the call whether it is a repetition.
    pub(crate) fn retry_request<T>(
        &self,
        after: RetryOn,
        mut call: impl FnMut(bool) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut pause = self.pause.min(self.pause_max);
        let mut number = None;
        let mut failing: Option<FailingSince> = None;
        for attempt in 1.. {
            let error = match call(attempt > 1) {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            let attempts = self.attempts(&error, after);
            if attempts == 1 {
                return Err(error);
            }
            let number = *number.get_or_insert_with(|| REPEATED.fetch_add(1, Ordering::Relaxed));
            let own = with_jitter(pause, &format!("{} {number} {attempt}", std::process::id()));
            let asked = RetryAfter::of(&error).min(self.within * 2);
            let failing = failing.get_or_insert_with(FailingSince::now);
            if attempt >= attempts || failing.without_asked() + own > self.within {
                let times = if attempt > 1 { format!(" ({attempt} times in a row)") } else { String::new() };
                return Err(io::Error::new(error.kind(), format!("{error}{times}")));
            }
            debug!(attempt, %error, "the store did not answer, asking again");
            failing.warn_once(own.max(asked), &error);
            failing.asked += asked;
            thread::sleep(own.max(asked));
            pause = (pause * 2).min(self.pause_max);
        }
        unreachable!("the loop ends with its last attempt")
    }

    /// Returns the maximum number of calls for an error, including the first.
    fn attempts(&self, error: &io::Error, after: RetryOn) -> u32 {
        match after {
            RetryOn::Transient | RetryOn::Any if passes(error.kind()) => self.attempts_max,
            RetryOn::Any | RetryOn::Device if error.raw_os_error() == Some(libc::EIO) => {
                self.attempts_max.min(DEVICE_ATTEMPTS_MAX)
            }
            RetryOn::Transient | RetryOn::Any | RetryOn::Device => 1,
        }
    }
}

/// Time since the first failure of a call.
struct FailingSince {
    first: Instant,
    /// Pauses that the server asked for.
    asked: Duration,
    has_warned: bool,
}

impl FailingSince {
    fn now() -> Self {
        Self { first: Instant::now(), asked: Duration::ZERO, has_warned: false }
    }

    fn without_asked(&self) -> Duration {
        self.first.elapsed().saturating_sub(self.asked)
    }

    /// Warns before a pause if the user waits for long, once.
    fn warn_once(&mut self, pause: Duration, error: &io::Error) {
        if !self.has_warned && self.first.elapsed() + pause >= notice::AFTER && notice::is_due() {
            self.has_warned = true;
            let seconds = pause.as_secs_f32().ceil();
            warn!(%error, "store: no usable answer yet, asking again in {seconds} s");
        }
    }
}

/// Calls of this process that were repeated.
static REPEATED: AtomicU64 = AtomicU64::new(0);

/// Returns a pause between half of `pause` and `pause`, determined by an address.
fn with_jitter(pause: Duration, address: &str) -> Duration {
    let [draw, _] = draws(address);
    pause.mul_f64(1.0 - draw / 2.0)
}

/// Returns true if the error means that the answer was lost, not that the request failed.
pub(crate) fn passes(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::Interrupted
            | ErrorKind::TimedOut
            | ErrorKind::WouldBlock
            | ErrorKind::ConnectionReset
            | ErrorKind::ConnectionAborted
            | ErrorKind::StaleNetworkFileHandle
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_bounded_and_only_what_passes_is_asked_again() {
        let retries =
            Retries { attempts_max: 3, pause: Duration::ZERO, pause_max: Duration::ZERO, ..Retries::default() };
        let calls_for = |kind: ErrorKind, failures: u32| {
            let mut calls = 0;
            let answer = retries.retry_request(RetryOn::Transient, |again| {
                assert_eq!(again, calls > 0);
                calls += 1;
                if calls > failures { Ok(()) } else { Err(kind.into()) }
            });
            (calls, answer.map_err(|error| error.kind()))
        };
        assert_eq!(calls_for(ErrorKind::TimedOut, 0), (1, Ok(())));
        assert_eq!(calls_for(ErrorKind::TimedOut, 2), (3, Ok(())));
        assert_eq!(calls_for(ErrorKind::TimedOut, 9), (3, Err(ErrorKind::TimedOut)));
        assert_eq!(calls_for(ErrorKind::NotFound, 9), (1, Err(ErrorKind::NotFound)));
    }

    /// Calls that fail slowly: attempts would allow twenty of them.
    #[test]
    fn no_call_begins_after_the_time_for_repetitions() {
        let within = Duration::from_millis(100);
        let retries = Retries { pause: Duration::ZERO, within, ..Retries::default() };
        let mut calls = 0;
        let answer: io::Result<()> = retries.retry_request(RetryOn::Any, |_| {
            calls += 1;
            thread::sleep(Duration::from_millis(80));
            Err(ErrorKind::TimedOut.into())
        });
        // They end at 80, 160 and 240 ms at the earliest; the third begins within 100 ms after 80 ms.
        let error = answer.expect_err("it never answers").to_string();
        assert!((2..=3).contains(&calls) && error.contains(&format!("({calls} times in a row)")), "{calls}: {error}");
    }

    #[test]
    fn a_pause_that_a_server_asks_for_is_kept_with_a_bound() {
        let within = Duration::from_millis(50);
        let retries = Retries { attempts_max: 4, pause: Duration::ZERO, within, ..Retries::default() };
        for (asked, expected) in [(40, 40), (60_000, 100)] {
            let begun = Instant::now();
            let mut calls = 0;
            let answer: io::Result<()> = retries.retry_request(RetryOn::Any, |_| {
                calls += 1;
                Err(RetryAfter::error(ErrorKind::WouldBlock, "busy".to_owned(), Duration::from_millis(asked)))
            });
            assert_eq!(calls, 4, "pauses that are asked for do not use up the time for repetitions");
            assert!(answer.expect_err("busy").to_string().contains("busy (4 times in a row)"));
            assert!(begun.elapsed() >= 3 * Duration::from_millis(expected), "{:?}", begun.elapsed());
        }
    }

    #[test]
    fn pauses_differ_between_calls_and_stay_in_the_upper_half() {
        let pause = Duration::from_millis(80);
        let pauses: Vec<_> = (0..1000).map(|call| with_jitter(pause, &format!("7 {call} 1"))).collect();
        assert!(pauses.iter().all(|found| (pause / 2..=pause).contains(found)), "{pauses:?}");
        let mean = pauses.iter().sum::<Duration>() / 1000;
        // Uniform on [40, 80] ms: the mean of a thousand is within five standard errors of 60 ms.
        assert!((Duration::from_millis(58)..Duration::from_millis(62)).contains(&mean), "{mean:?}");
        assert_eq!(with_jitter(pause, "7 1 1"), pauses[1], "the same address has the same pause");
        assert_eq!(with_jitter(Duration::ZERO, "7 1 1"), Duration::ZERO);
    }

    #[test]
    fn a_device_that_fails_is_asked_a_few_times_but_never_to_flush_again() {
        let pause = Duration::ZERO;
        let pause_max = Duration::ZERO;
        let retries = Retries { pause, pause_max, ..Retries::default() };
        for (after, expected) in [(RetryOn::Any, DEVICE_ATTEMPTS_MAX), (RetryOn::Transient, 1)] {
            let mut calls = 0;
            let answer: io::Result<()> = retries.retry_request(after, |_| {
                calls += 1;
                Err(io::Error::from_raw_os_error(libc::EIO))
            });
            let error = answer.expect_err("a broken disk").to_string();
            assert_eq!((calls, error.contains("(6 times in a row)")), (expected, after == RetryOn::Any), "{error}");
        }
    }
}
