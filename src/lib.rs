//! The command line of `cloze`, as a library of its two programs.
//!
//! A [`Config`](config::Config) is parsed, a [`Plan`](plan::Plan) is made of it and of the prepared data, and only a
//! plan starts a run. `pipeline` (text to batches) and `trainer` (batches to checkpoints) do the work and do not depend
//! on each other. [`run::control`] connects them with signals and background writers.
//!
//! `cloze` itself needs no libtorch. Verbs that compute tensors run in `cloze-train` (package `cloze-train`), which
//! `cloze` executes with the same arguments ([`train_program`]).

mod aligned;
pub mod analyze;
pub mod cli;
pub mod commands;
pub mod config;
pub mod exit;
pub mod finetune;
mod hf_model;
pub mod model_folder;
pub mod plan;
pub mod program;
pub mod report;
pub mod run;
mod sweep;
pub mod train_program;
