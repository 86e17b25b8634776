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
const ATTEMPTS_MAX: u32 = 20;
const PAUSE: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(2);

/// Calls in all where the device itself fails: some disks read at the sixth time what they did not at the first, within a
/// fifth of a second; one that is broken is named as soon.
const DEVICE_ATTEMPTS_MAX: u32 = 6;

impl Default for Retries {
    fn default() -> Self {
        Self { attempts_max: ATTEMPTS_MAX, pause: PAUSE, pause_max: PAUSE_MAX }
    }
}

/// Which failures a call is made again after.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum After {
    /// Those that pass by themselves. It continues where it was: after a flush that failed a disk may have forgotten what it
    /// was given, and the next flush succeeds nevertheless.
    Passing,
    /// Those of the device too: it begins from nothing each time.
    Any,
    /// Those of the device alone: what is in it looks after the others.
    Device,
}

impl Retries {
    /// Calls until the answer is not one that passes by itself. The call hears whether it is asked again.
    pub(crate) fn until_answered<T>(&self, after: After, mut call: impl FnMut(bool) -> io::Result<T>) -> io::Result<T> {
        let mut pause = self.pause.min(self.pause_max);
        for attempt in 1.. {
            match call(attempt > 1) {
                Err(error) if attempt < self.attempts(&error, after) => {
                    debug!(attempt, %error, "the store did not answer, asking again");
                    thread::sleep(pause);
                    pause = (pause * 2).min(self.pause_max);
                }
                Err(error) if attempt > 1 && self.attempts(&error, after) > 1 => {
                    return Err(io::Error::new(error.kind(), format!("{error} ({attempt} times in a row)")));
                }
                answer => return answer,
            }
        }
        unreachable!("the loop ends with its last attempt")
    }

    /// How many calls an error is worth, the first included.
    fn attempts(&self, error: &io::Error, after: After) -> u32 {
        match after {
            After::Passing | After::Any if passes(error.kind()) => self.attempts_max,
            After::Any | After::Device if error.raw_os_error() == Some(libc::EIO) => {
                self.attempts_max.min(DEVICE_ATTEMPTS_MAX)
            }
            After::Passing | After::Any | After::Device => 1,
        }
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
            let answer = retries.until_answered(After::Passing, |again| {
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

    #[test]
    fn a_device_that_fails_is_asked_a_few_times_but_never_to_flush_again() {
        let (pause, pause_max) = (Duration::ZERO, Duration::ZERO);
        let retries = Retries { pause, pause_max, ..Retries::default() };
        for (after, expected) in [(After::Any, DEVICE_ATTEMPTS_MAX), (After::Passing, 1)] {
            let mut calls = 0;
            let answer: io::Result<()> = retries.until_answered(after, |_| {
                calls += 1;
                Err(io::Error::from_raw_os_error(libc::EIO))
            });
            let error = answer.expect_err("a broken disk").to_string();
            assert_eq!((calls, error.contains("(6 times in a row)")), (expected, after == After::Any), "{error}");
        }
    }
}
