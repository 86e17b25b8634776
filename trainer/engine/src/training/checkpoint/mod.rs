//! Writing and reading of checkpoints with their tensors. [`trainer_plan::checkpoint`] has the format and everything
//! that needs no tensors.

mod load;
mod save;
#[cfg(test)]
pub(super) mod tests;

pub(crate) use self::load::newest_before;
pub use self::load::{newest, pick};
pub use self::save::{CheckpointPolicy, Export, Snapshot};
