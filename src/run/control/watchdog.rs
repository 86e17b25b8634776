//! Watchdog thread: polls every half second for files that request a stop or a profile, for the end of the shutdown
//! timeout and for stalled workers. It also sends heartbeats to the service manager.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use store::Store;

use super::profile_file;
use super::signal::Signal;
use super::signal_state::{DeferredLog, SignalState};
use super::stop_file::is_requested;

/// Time between two polls. It bounds the delay of a request by a file; one poll costs a system call.
const POLL_INTERVAL: Duration = Duration::from_millis(500);

/// Timeouts of a run.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// The run's folder.
    pub folder: Store,
    /// Maximum time of a stop; `None` disables the limit.
    pub shutdown_timeout: Option<Duration>,
    /// Time without progress before a warning; `None` disables the check.
    pub stall_timeout: Option<Duration>,
}

/// Polls until the process ends.
pub(super) fn watch(state: &Arc<SignalState>, timeouts: &Timeouts) {
    let mut backoff = WarnBackoff::new(timeouts.stall_timeout);
    let mut is_reported = false;
    let mut reported = None;
    loop {
        if state.signal().is_none() {
            match is_requested(&timeouts.folder) {
                Ok(true) => {
                    // Same effect as SIGTERM.
                    state.stop(Signal::Terminate);
                }
                Err(found) if !is_reported => {
                    is_reported = true;
                    state.log(DeferredLog::InvalidStopFile(found));
                }
                Ok(false) | Err(_) => {}
            }
        }
        if let Some(found) = profile_file::take_request(&timeouts.folder) {
            let by = found.as_ref().ok().and_then(|request| request.by.clone());
            if let Err(problem) = found.and_then(|request| state.requests.measure(request)) {
                if let Some(by) = by {
                    // The sender waits for the answer. If it cannot be written, the log below has the problem.
                    let _ = profile_file::decline(&timeouts.folder, &by, &problem);
                }
                if reported.as_ref() != Some(&problem) {
                    reported = Some(problem.clone());
                    state.log(DeferredLog::InvalidProfileRequest(problem));
                }
            }
        }
        if let (Some(signal), Some(waited)) = (state.signal(), state.waited())
            && timeouts.shutdown_timeout.is_some_and(|shutdown_timeout| waited >= shutdown_timeout)
        {
            state.log(DeferredLog::ShutdownTimeout(signal));
            state.exit_unsaved(signal);
        }
        let progress = state.check_progress();
        state.notify.beat(state.board.phase().name(), progress.is_ok());
        if let Some(found) = backoff.next_warning(progress.err()) {
            state.log(DeferredLog::Stalled(found));
        }
        if let Some(trouble) = state.notify.complaint() {
            state.log(DeferredLog::NotifyFailed(trouble));
        }
        sleep(POLL_INTERVAL);
    }
}

/// Interval of warnings, which doubles after each warning.
struct WarnBackoff {
    first: Duration,
    next: Duration,
}

impl WarnBackoff {
    fn new(stall_timeout: Option<Duration>) -> Self {
        let first = stall_timeout.unwrap_or(Duration::MAX);
        Self { first, next: first }
    }

    fn next_warning(&mut self, still: Option<(Duration, String)>) -> Option<String> {
        let Some((age, found)) = still else {
            self.next = self.first;
            return None;
        };
        if age < self.next {
            return None;
        }
        self.next = age.saturating_mul(2);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_warnings_doubles() {
        let mut backoff = WarnBackoff::new(Some(Duration::from_secs(10)));
        let mut warned_at = Vec::new();
        for age in (0..100).map(Duration::from_secs) {
            let still = (age >= Duration::from_secs(10)).then(|| (age, String::new()));
            warned_at.extend(backoff.next_warning(still).map(|_| age.as_secs()));
        }
        assert_eq!(warned_at, [10, 20, 40, 80]);
        // Progress resets the interval.
        assert_eq!(backoff.next_warning(None), None);
        assert!(backoff.next_warning(Some((Duration::from_secs(10), "again".to_owned()))).is_some());
        assert!(WarnBackoff::new(None).next_warning(Some((Duration::from_secs(1 << 40), String::new()))).is_none());
    }
}
