//! Cancellation: a channel that only closes.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, TryRecvError, bounded};

/// Sending end of a cancellation. Any thread can use it, usually the signal handler.
#[derive(Clone, Debug)]
pub struct CancelSource(Arc<Mutex<Option<Sender<()>>>>);

/// Receiving end of a cancellation, which also interrupts waits.
#[derive(Clone, Debug)]
pub struct CancelToken(pub(crate) Receiver<()>);

/// Creates a connected source and token. The channel carries no message. It closes when [`CancelSource::cancel`] is
/// called or the last source is dropped.
#[must_use]
pub fn cancel_pair() -> (CancelSource, CancelToken) {
    let (sender, receiver) = bounded(1);
    (CancelSource(Arc::new(Mutex::new(Some(sender)))), CancelToken(receiver))
}

impl CancelSource {
    /// Requests the cancellation. Further calls have no effect.
    pub fn cancel(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }
}

impl CancelToken {
    /// Whether a cancellation was requested.
    pub fn is_cancelled(&self) -> bool {
        matches!(self.0.try_recv(), Err(TryRecvError::Disconnected))
    }

    /// Waits for `timeout` or for a cancellation; returns whether one was requested.
    pub fn is_cancelled_within(&self, timeout: Duration) -> bool {
        self.0.recv_timeout(timeout) == Err(RecvTimeoutError::Disconnected)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_cancelled_by_a_request_and_by_dropping_the_last_source() {
        let (source, token) = cancel_pair();
        assert!(!token.is_cancelled() && !token.is_cancelled_within(Duration::from_millis(1)));
        let other = source.clone();
        drop(source);
        assert!(!token.is_cancelled(), "one source is left");
        other.cancel();
        assert!(token.is_cancelled() && token.clone().is_cancelled_within(Duration::from_secs(60)));
        let (source, token) = cancel_pair();
        drop(source);
        assert!(token.is_cancelled());
    }
}
