//! The command line of `cloze`, as a library of its two programs.
//!
//! A [`Config`](config::Config) is parsed, a [`Plan`](plan::Plan) is made of it and of the prepared data, and only a
//! plan starts anything. The work is done by `pipeline` (text to batches) and `trainer` (batches to checkpoints), which
//! do not know each other; [`run::control`] is where signals and background writers meet them.
//!
//! `cloze` itself needs no libtorch. Verbs that compute tensors run in `cloze-train` (package `cloze-train`), which
//! `cloze` executes with the same arguments ([`second_program`]).

pub mod cli;
pub mod commands;
pub mod config;
pub mod exit;
pub mod plan;
pub mod program;
pub mod report;
pub mod run;
pub mod second_program;
