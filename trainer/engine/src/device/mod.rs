//! The device that everything is computed on, the number types, libtorch beyond `tch`, tensors on the host.

pub(crate) mod choice;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what is tested is looked at")]
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
