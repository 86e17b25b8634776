//! Checkpoints with their tensors: written and read. The format and all that needs no tensors is
//! [`trainer_plan::checkpoint`].

mod load;
mod save;
#[cfg(test)]
pub(super) mod tests;

pub use self::load::{before, newest, pick};
pub use self::save::{CheckpointPolicy, Export, Snapshot};
