//! A training run as data: its configuration and plan, its cost, and the files that it leaves, without libtorch.
//!
//! [`config`], [`encoder`], [`networks`], [`objectives`], [`optimizer`] and [`schedule`] are the sections of a
//! configuration; a [`TrainRequest`] is all of them, a [`TrainPlan`] one without problems, and the only thing that
//! starts a run. [`cost`], [`memory`] and [`weights`] say what it computes and keeps, and [`scaling`] how several ranks
//! share it. [`checkpoint`] and [`run`] are the files of a run that need no tensors: listed, verified, pinned, rolled
//! back, branched. The engine, `cloze-trainer`, computes.

#[cfg(test)]
extern crate self as trainer_plan;

pub mod checkpoint;
pub mod config;
pub mod cost;
pub mod device;
pub mod encoder;
pub mod error;
#[cfg(test)]
mod fuzz;
pub mod hf;
pub mod identity;
pub mod init_weights;
pub mod launch;
pub mod machine;
pub mod memory;
pub mod metric_name;
pub mod networks;
pub mod objectives;
pub mod optimizer;
pub mod pass;
pub mod precision;
pub mod relative_positions;
pub mod repeated_keys;
pub mod request;
pub mod requirements;
mod rules;
pub mod run;
pub mod run_weights;
pub mod safetensors_header;
pub mod scaling;
pub mod schedule;
pub mod stop_request;
#[cfg(test)]
mod testing;
pub mod train_plan;
pub mod weights;

pub use self::error::{Error, ForeignError};
pub use self::request::{AmendedRequest, TrainRequest};
pub use self::rules::GUARD_WINDOW_MIN;
pub use self::train_plan::TrainPlan;
