//! What others want of a run that continues: heard between two steps.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

use telemetry::EventKind;
use telemetry::change::NoteReport;

use super::profile_file::Wish;

/// Notes that may wait for a step.
const NOTES_MAX: usize = 64;

/// Wishes that nobody has heard yet.
#[derive(Debug, Default)]
pub struct Requests {
    save: AtomicBool,
    notes: Mutex<Vec<String>>,
    measured: Mutex<Option<Wish>>,
}

impl Requests {
    /// A checkpoint, soon.
    pub(crate) fn save(&self) {
        self.save.store(true, Ordering::Relaxed);
    }

    /// Whether a checkpoint was wished for since this was last asked.
    pub fn is_save_wanted(&self) -> bool {
        self.save.swap(false, Ordering::Relaxed)
    }

    /// That steps are measured. An error where somebody else's are waited for.
    pub(crate) fn measure(&self, wish: Wish) -> Result<(), String> {
        let mut waiting = self.measured.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(other) = &*waiting {
            return Err(format!("`{other}` is to be measured already"));
        }
        *waiting = Some(wish);
        Ok(())
    }

    /// What is to be measured; asked once for each wish.
    pub fn to_measure(&self) -> Option<Wish> {
        self.measured.lock().unwrap_or_else(PoisonError::into_inner).take()
    }

    /// A text for the run's log.
    pub(crate) fn note(&self, text: String) -> Result<(), String> {
        let mut notes = self.notes.lock().unwrap_or_else(PoisonError::into_inner);
        if notes.len() == NOTES_MAX {
            return Err(format!("{NOTES_MAX} notes wait for a step already; is the run under way?"));
        }
        notes.push(text);
        Ok(())
    }

    /// Texts that are to be said now.
    pub fn notes(&self) -> Vec<EventKind> {
        let notes = std::mem::take(&mut *self.notes.lock().unwrap_or_else(PoisonError::into_inner));
        notes.into_iter().map(|text| EventKind::Note(NoteReport { text })).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_wish_is_heard_once_and_they_are_bounded() {
        let wishes = Requests::default();
        assert!(!wishes.is_save_wanted());
        wishes.save();
        assert!(wishes.is_save_wanted() && !wishes.is_save_wanted());
        let steps = |text: &str| text.parse::<Wish>().expect("a wish");
        assert!(wishes.measure(steps("2 by me")).is_ok());
        assert_eq!(wishes.measure(steps("3")), Err("`2 by me` is to be measured already".to_owned()));
        assert_eq!((wishes.to_measure(), wishes.to_measure()), (Some(steps("2 by me")), None));
        let taken = (0..2 * NOTES_MAX).filter(|number| wishes.note(number.to_string()).is_ok()).count();
        assert_eq!((taken, wishes.notes().len(), wishes.notes().len()), (NOTES_MAX, NOTES_MAX, 0));
    }
}
