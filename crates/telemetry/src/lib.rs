//! What a run and a preparation say of themselves: typed events, and those who read them.
//!
//! Whoever works says an [`Event`]: when ([`Clock`] stamps it), where in the run ([`At`]) and [`What`]. Whoever wants to
//! know is an [`Observer`]. So the trainer and the pipeline know no terminal, no log and no page, and a new reader
//! touches neither. Three readers are here: [`terminal`] for people, [`jsonl`] for programs, [`tensorboard`] for TensorBoard.
//!
//! In the order of reading: [`event`] is the envelope and the table of all kinds; [`training`], [`change`] and
//! [`preparation`] hold what they carry; [`schema`] says it to programs; [`clock`] and [`observer`] are how one is made and where it goes.
//!
//! Plain data: nothing here starts a thread, writes or prints. Only [`clock`] and [`host_memory`] read the machine.

pub mod change;
pub mod clock;
pub mod event;
pub mod host_memory;
pub mod jsonl;
mod number;
pub mod observer;
pub mod preparation;
pub mod schema;
pub mod tensorboard;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod training;

pub use clock::Clock;
pub use event::{At, Event, Unknown, VERSION, What};
pub use observer::{Many, Observer};
