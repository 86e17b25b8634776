//! Time limits of requests, and warnings of long waits.
//!
//! # Definition
//! A request fails if its answer does not begin within the limit, or if less than [`MIN_BYTES`] of it arrive within the
//! limit and it is not complete. A server that sends a byte each second so ends a request too.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::pin;
use std::time::Duration;

use store::notice;
use tokio::time::{Instant, timeout};
use tracing::warn;

use crate::failure;

/// Least part of an answer that is progress.
const MIN_BYTES: u64 = 32 << 10;

/// Waits for a request with a time limit. Warns of a long wait for `place`.
pub(crate) async fn limited<T>(place: &str, limit: Duration, request: impl Future<Output = T>) -> io::Result<T> {
    let mut request = pin!(request);
    let Some(rest) = limit.checked_sub(notice::AFTER).filter(|rest| !rest.is_zero()) else {
        return timeout(limit, request).await.map_err(|_| failure::stalled(limit));
    };
    if let Ok(answer) = timeout(notice::AFTER, &mut request).await {
        return Ok(answer);
    }
    if notice::is_due() {
        let seconds = notice::AFTER.as_secs();
        warn!(place, "store: no progress for {seconds} s; the request ends after {} s", limit.as_secs());
    }
    timeout(rest, request).await.map_err(|_| failure::stalled(limit))
}

/// Answer that arrives in pieces.
pub(crate) struct Transfer<'a> {
    place: &'a str,
    limit: Duration,
    /// End of the current period.
    until: Instant,
    /// Bytes that arrived within it.
    bytes: u64,
}

impl<'a> Transfer<'a> {
    pub(crate) fn new(place: &'a str, limit: Duration) -> Self {
        Self { place, limit, until: Instant::now() + limit, bytes: 0 }
    }

    /// Waits for the next piece.
    pub(crate) async fn next<T>(&mut self, piece: impl Future<Output = T>) -> io::Result<T> {
        let left = self.until.saturating_duration_since(Instant::now());
        limited(self.place, left, piece).await.map_err(|_| self.stalled())
    }

    /// Counts a piece.
    pub(crate) fn add(&mut self, bytes: usize) {
        self.bytes += bytes as u64;
        if self.bytes >= MIN_BYTES {
            *self = Self::new(self.place, self.limit);
        }
    }

    fn stalled(&self) -> io::Error {
        if self.bytes == 0 {
            return failure::stalled(self.limit);
        }
        let message = format!("only {} bytes arrived within {} s", self.bytes, self.limit.as_secs_f32());
        io::Error::new(ErrorKind::TimedOut, message)
    }
}

#[cfg(test)]
mod tests {
    use testkit::LogRecords;

    use super::*;

    /// Takes ten seconds.
    #[test]
    fn a_long_wait_is_reported_once() {
        let records = LogRecords::default();
        let writer = records.clone();
        let subscriber = tracing_subscriber::fmt().with_writer(move || writer.clone()).with_ansi(false).finish();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("started");
        let limit = notice::AFTER + Duration::from_millis(200);
        let wait = |place: &'static str| async move { limited(place, limit, std::future::pending::<()>()).await };
        let outcomes = tracing::subscriber::with_default(subscriber, || {
            runtime.block_on(async { tokio::join!(wait("s3://bucket/a"), wait("s3://bucket/b")) })
        });
        for outcome in [outcomes.0, outcomes.1] {
            assert_eq!(outcome.expect_err("it never ends").kind(), ErrorKind::TimedOut);
        }
        let log = records.text();
        assert_eq!(log.lines().count(), 1, "{log}");
        assert!(log.contains("WARN") && log.contains("no progress for 10 s") && log.contains("s3://bucket/"), "{log}");
    }
}
