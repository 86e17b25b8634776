//! Requests to a run under way. The trainer handles them between two steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

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
    measured: Mutex<Option<ProfileRequest>>,
}

impl Requests {
    /// Requests a checkpoint.
    pub(crate) fn save(&self) {
        self.save.store(true, Ordering::Relaxed);
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
        requests.save();
        assert!(requests.is_save_wanted() && !requests.is_save_wanted());
        let steps = |text: &str| text.parse::<ProfileRequest>().expect("a request");
        assert!(requests.measure(steps("2 by me")).is_ok());
        assert_eq!(requests.measure(steps("3")), Err("`2 by me` is already waiting to be measured".to_owned()));
        assert_eq!((requests.to_measure(), requests.to_measure()), (Some(steps("2 by me")), None));
        let taken = (0..2 * NOTES_MAX).filter(|number| requests.note(number.to_string()).is_ok()).count();
        assert_eq!((taken, requests.notes().len(), requests.notes().len()), (NOTES_MAX, NOTES_MAX, 0));
    }
}
