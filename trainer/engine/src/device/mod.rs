//! Compute device, number types, calls to libtorch that `tch` lacks, and tensors in host memory.

pub(crate) mod choice;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values from the device")]
mod drops;
pub(crate) mod memory_stats;
pub(crate) mod native;
pub(crate) mod oom;
pub(crate) mod precision;
pub mod step_timer;
pub mod tensors;

pub use self::choice::ResolveDevice;
pub use self::native::synchronize;
pub use self::oom::is_caught;
