//! Receivers of events.

use crate::event::Event;

/// Receiver of events, in the order in which they are emitted.
///
/// The work calls it, so it must return immediately. It cannot fail, because a failing display must not end a run. An
/// observer whose events must not be lost stores its error, and its owner asks for it.
pub trait Observer: Send {
    /// Receives an event.
    fn observe(&mut self, event: &Event);

    /// Receives the progress of a run before its first report. It is shown and not recorded: it depends on the clock.
    fn progress(&mut self, _progress: &EarlyProgress) {}
}

/// Loss and speed of a run before its first report.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct EarlyProgress {
    /// Steps done.
    pub step: u64,
    /// Loss of the last step.
    pub loss: f64,
    /// Tokens per second since the start.
    pub tokens_per_s: f64,
    /// Fraction of the peak of the device, if it is known.
    pub mfu: Option<f64>,
    /// Estimated seconds to the end.
    pub eta_s: Option<f64>,
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

    fn progress(&mut self, progress: &EarlyProgress) {
        for observer in &mut self.0 {
            observer.progress(progress);
        }
    }
}
