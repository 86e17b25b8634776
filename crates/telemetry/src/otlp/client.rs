//! Blocking HTTP client of the OTLP exporters, over the agent that alerts use: the same certificates and proxies.
//!
//! The SDK encodes the request and decides whether it is sent again: after 429, 502, 503, 504 or no answer.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response};
use opentelemetry_proto::tonic::collector::logs::v1::ExportLogsServiceResponse;
use opentelemetry_proto::tonic::collector::metrics::v1::ExportMetricsServiceResponse;
use prost::Message as _;
use ureq::Agent;
use ureq::http::header::CONTENT_TYPE;

use super::delivery::DeliveryCounts;
use super::settings::{Signal, Target};
use crate::http_client;

/// Maximum size of a response body, which has a count and one sentence.
const MAX_RESPONSE_BYTES: u64 = 64 << 10;

/// HTTP client of one signal. Address and headers may hold secrets: `Debug` does not show them.
pub(super) struct Client {
    signal: Signal,
    target: Target,
    agent: Agent,
    counts: Arc<DeliveryCounts>,
    has_warned: AtomicBool,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("signal", &self.signal).field("target", &self.target).finish_non_exhaustive()
    }
}

impl Client {
    pub(super) fn new(signal: Signal, target: Target, counts: Arc<DeliveryCounts>) -> Self {
        Self { signal, target, agent: http_client::agent(), counts, has_warned: AtomicBool::new(false) }
    }

    /// Sends a request and reads the response. The headers are those of the settings, which have been validated.
    fn send(&self, request: Request<Bytes>) -> Result<Response<Bytes>, ureq::Error> {
        let (head, body) = request.into_parts();
        let mut post = self.agent.post(head.uri);
        if let Some(content_type) = head.headers.get(CONTENT_TYPE) {
            post = post.header(CONTENT_TYPE, content_type);
        }
        for (name, value) in &self.target.headers {
            post = post.header(name, value);
        }
        let post = post.config().timeout_global(Some(self.target.timeout)).build();
        let (head, mut body) = post.send(&body[..])?.into_parts();
        // A response that cannot be read counts as one without rejections.
        let body = body.with_config().limit(MAX_RESPONSE_BYTES).read_to_vec().unwrap_or_default();
        Ok(Response::from_parts(head, body.into()))
    }

    /// Returns how many log records or data points a successful response rejects.
    fn rejected(&self, body: &[u8]) -> u64 {
        let rejected = match self.signal {
            Signal::Metrics => ExportMetricsServiceResponse::decode(body)
                .ok()
                .and_then(|response| response.partial_success)
                .map(|partial| partial.rejected_data_points),
            Signal::Logs => ExportLogsServiceResponse::decode(body)
                .ok()
                .and_then(|response| response.partial_success)
                .map(|partial| partial.rejected_log_records),
        };
        rejected.and_then(|rejected| u64::try_from(rejected).ok()).unwrap_or(0)
    }

    /// Logs the first failure of the signal.
    fn warn(&self, reason: &str) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let label = self.signal.label();
            tracing::warn!(
                "{label} do not reach the OpenTelemetry collector: {reason}; the work continues, and later failures are not logged"
            );
        }
    }
}

#[async_trait::async_trait]
impl HttpClient for Client {
    // The SDK calls it on the signal's own thread, which may block.
    async fn send_bytes(&self, request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        let response = self.send(request).map_err(|error| {
            let reason = http_client::error_text(&error);
            self.warn(&reason);
            reason
        })?;
        let status = response.status();
        if !status.is_success() {
            self.warn(&format!("the collector answered with status {}", status.as_u16()));
            return Ok(response);
        }
        let rejected = self.rejected(response.body());
        if rejected > 0 {
            self.warn(&format!("the collector rejected {rejected} of them"));
            if self.signal == Signal::Logs {
                self.counts.reject(rejected);
            }
        }
        Ok(response)
    }
}
