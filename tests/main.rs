//! End to end: the program as a user runs it. One binary, since each one that trains links libtorch.

#[cfg(feature = "train")]
mod amending;
#[cfg(feature = "train")]
mod chaos;
#[cfg(feature = "train")]
mod cuda;
mod deploy;
mod faults;
mod first_hour;
#[cfg(feature = "train")]
mod generations;
#[cfg(feature = "train")]
mod golden;
mod inputs;
#[cfg(feature = "train")]
mod locks;
mod memory;
#[cfg(feature = "train")]
mod mixtures;
mod notify;
#[cfg(feature = "train")]
mod operations;
mod otlp;
mod plan;
mod portrait;
mod prepare;
mod profile;
mod profile_page;
#[cfg(feature = "train")]
mod profiled;
mod recipes;
#[cfg(feature = "train")]
mod resume;
#[cfg(feature = "train")]
mod said;
mod scaling;
#[cfg(feature = "train")]
mod seen;
#[cfg(feature = "train")]
mod stops;
#[cfg(feature = "train")]
mod streamed;
mod support;
#[cfg(feature = "train")]
mod survival;
mod tidy;
#[cfg(feature = "train")]
mod time_machine;
mod traced;
#[cfg(feature = "train")]
mod train;
mod tune;
mod typed;
