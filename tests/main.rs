//! End to end: the program as a user runs it. One binary, since each one that trains links libtorch.

mod faults;
mod first_hour;
#[cfg(feature = "train")]
mod generations;
#[cfg(feature = "train")]
mod golden;
#[cfg(feature = "train")]
mod locks;
mod plan;
mod prepare;
#[cfg(feature = "train")]
mod resume;
mod support;
mod tidy;
#[cfg(feature = "train")]
mod train;
mod typed;
