//! What did not answer is asked again: a bounded number of times, with growing pauses.

use std::io::{self, ErrorKind};
use std::thread;
use std::time::Duration;

use tracing::debug;

/// How often, and how long apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retries {
    /// Calls in all, the first included.
    pub attempts_max: u32,
    /// The pause after the first; each that follows is twice as long.
    pub pause: Duration,
    /// No pause is longer.
    pub pause_max: Duration,
}

/// Twenty calls within half a minute: a server restarts in that time, and at three failures of ten calls twenty in a
/// row are rarer than 10^-10.
impl Default for Retries {
    fn default() -> Self {
        Self { attempts_max: 20, pause: Duration::from_millis(5), pause_max: Duration::from_secs(2) }
    }
}

impl Retries {
    /// Calls until the answer is not one that passes by itself. The call hears whether it is asked again.
    pub(crate) fn until_answered<T>(&self, mut call: impl FnMut(bool) -> io::Result<T>) -> io::Result<T> {
        let mut pause = self.pause.min(self.pause_max);
        for attempt in 1.. {
            match call(attempt > 1) {
                Err(error) if passes(error.kind()) && attempt < self.attempts_max => {
                    debug!(attempt, %error, "the store did not answer, asking again");
                    thread::sleep(pause);
                    pause = (pause * 2).min(self.pause_max);
                }
                Err(error) if passes(error.kind()) && attempt > 1 => {
                    return Err(io::Error::new(error.kind(), format!("{error} ({attempt} times in a row)")));
                }
                answer => return answer,
            }
        }
        unreachable!("the loop ends with its last attempt")
    }
}

/// Whether an error says that the answer was lost, not that there is none.
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
        let retries = Retries { attempts_max: 3, pause: Duration::ZERO, pause_max: Duration::ZERO };
        let calls_for = |kind: ErrorKind, failures: u32| {
            let mut calls = 0;
            let answer = retries.until_answered(|again| {
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
}
