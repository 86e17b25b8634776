//! Receivers of events.

use crate::event::Event;

/// Receiver of events, in the order in which they are emitted.
///
/// The work calls it, so it must return immediately. It cannot fail, because a failing display must not end a run. An
/// observer whose events must not be lost stores its error, and its owner asks for it.
pub trait Observer: Send {
    /// Receives an event.
    fn observe(&mut self, event: &Event);
}

/// Sequence of observers. Each event is passed to them in order.
#[derive(Default)]
pub struct Fanout(pub Vec<Box<dyn Observer>>);

impl Observer for Fanout {
    fn observe(&mut self, event: &Event) {
        for observer in &mut self.0 {
            observer.observe(event);
        }
    }
}
