//! Where events go.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::event::Event;

/// Someone who wants to know. Events come in the order in which they were said.
///
/// It is called in the middle of the work, so it returns at once. It has no way to fail: what nobody can read must not
/// end a run. An observer whose event must not be lost keeps the error, for its owner to ask.
pub trait Observer: Send {
    /// One more event.
    fn observe(&mut self, event: &Event);
}

/// An observer that does not care.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Observer for Silent {
    fn observe(&mut self, _: &Event) {}
}

/// Several observers, told one after another.
#[derive(Default)]
pub struct Many(pub Vec<Box<dyn Observer>>);

impl Observer for Many {
    fn observe(&mut self, event: &Event) {
        for observer in &mut self.0 {
            observer.observe(event);
        }
    }
}

/// Keeps every event, for tests. Clones keep together: give one away and ask the other.
#[derive(Clone, Debug, Default)]
pub struct Recorder(Arc<Mutex<Vec<Event>>>);

impl Recorder {
    /// What was said so far, oldest first.
    #[must_use]
    pub fn events(&self) -> Vec<Event> {
        self.kept().clone()
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Event>> {
        // A push leaves the list whole, wherever another thread panicked.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Recorder {
    fn observe(&mut self, event: &Event) {
        self.kept().push(event.clone());
    }
}
