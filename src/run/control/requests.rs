//! Requests to a run under way. The trainer handles them between two steps, or while it waits for data.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use runtime::{CancelSource, CancelToken, cancel_pair};
use telemetry::EventKind;
use telemetry::change::NoteReport;

use super::profile_file::ProfileRequest;

/// Maximum number of notes that wait for a step.
const NOTES_MAX: usize = 64;

/// Requests that are pending.
#[derive(Debug, Default)]
pub struct Requests {
    save: AtomicBool,
    notes: Mutex<Vec<String>>,
    wakeup: Wakeup,
    measured: Mutex<Option<ProfileRequest>>,
}

/// Connected source and token, replaced after each use.
#[derive(Debug)]
struct Wakeup(Mutex<(CancelSource, CancelToken)>);

impl Default for Wakeup {
    fn default() -> Self {
        Self(Mutex::new(cancel_pair()))
    }
}

impl Requests {
    /// Requests a checkpoint.
    pub(crate) fn save(&self) {
        self.save.store(true, Ordering::Relaxed);
        self.wake();
    }

    /// Ends a wait of the trainer for data.
    pub(super) fn wake(&self) {
        self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner).0.cancel();
    }

    /// Token that is cancelled by the first request since [`has_woken`](Self::has_woken) returned true.
    pub fn wakeup(&self) -> CancelToken {
        self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner).1.clone()
    }

    /// Whether a request was made since this last returned true.
    pub fn has_woken(&self) -> bool {
        let mut wakeup = self.wakeup.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_cancelled = wakeup.1.is_cancelled();
        if is_cancelled {
            *wakeup = cancel_pair();
        }
        is_cancelled
    }

    /// Whether a checkpoint was requested since the last call.
    pub fn is_save_wanted(&self) -> bool {
        self.save.swap(false, Ordering::Relaxed)
    }

    /// Requests a measurement of steps. Returns an error if another such request is pending.
    pub(crate) fn measure(&self, request: ProfileRequest) -> Result<(), String> {
        let mut waiting = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = &*waiting {
            return Err(format!("`{other}` is already waiting to be measured"));
        }
        *waiting = Some(request);
        Ok(())
    }

    /// Takes the pending request for a measurement.
    pub fn to_measure(&self) -> Option<ProfileRequest> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// Adds a text to the run's log.
    pub(crate) fn note(&self, text: String) -> Result<(), String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() == NOTES_MAX {
            return Err(format!("{NOTES_MAX} notes already wait for a step; check that the run makes progress"));
        }
        notes.push(text);
        drop(notes);
        self.wake();
        Ok(())
    }

    /// Takes the pending notes.
    pub fn notes(&self) -> Vec<EventKind> {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        notes.into_iter().map(|text| EventKind::Note(NoteReport { text })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_request_is_taken_once_and_their_number_is_bounded() {
        let requests = Requests::default();
        assert!(!requests.is_save_wanted());
        assert!(!requests.has_woken() && !requests.wakeup().is_cancelled());
        let waiting = requests.wakeup();
        requests.save();
        assert!(waiting.is_cancelled() && requests.wakeup().is_cancelled(), "a wait that begins later ends too");
        assert!(requests.has_woken() && !requests.has_woken() && !requests.wakeup().is_cancelled());
        assert!(requests.is_save_wanted() && !requests.is_save_wanted());
        let steps = |text: &str| text.parse::<ProfileRequest>().expect("a request");
        assert!(requests.measure(steps("2 by me")).is_ok());
        assert_eq!(requests.measure(steps("3")), Err("`2 by me` is already waiting to be measured".to_owned()));
        assert_eq!((requests.to_measure(), requests.to_measure()), (Some(steps("2 by me")), None));
        let taken = (0..2 * NOTES_MAX).filter(|number| requests.note(number.to_string()).is_ok()).count();
        assert_eq!((taken, requests.notes().len(), requests.notes().len()), (NOTES_MAX, NOTES_MAX, 0));
    }
}
