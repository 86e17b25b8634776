//! Where events go.

use crate::event::Event;

/// Someone who wants to know. Events come in the order in which they were said.
///
/// It is called in the middle of the work, so it returns at once. It has no way to fail: what nobody can read must not
/// end a run. An observer whose event must not be lost keeps the error, for its owner to ask.
pub trait Observer: Send {
    /// One more event.
    fn observe(&mut self, event: &Event);
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
