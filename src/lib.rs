//! The command line of `cloze`, as a library of its two programs.
//!
//! A [`Config`](config::Config) is parsed, a [`Plan`](plan::Plan) is made of it and of the prepared data, and only a
//! plan starts anything. The work is done by `pipeline` (text to batches) and `trainer` (batches to checkpoints), which
//! do not know each other; [`control`] is where signals and background writers meet them.
//!
//! `cloze` itself needs no libtorch. Verbs that compute tensors run in `cloze-train` (package `cloze-train`), which
//! `cloze` executes with the same arguments ([`second_program`]).

pub mod chaos;
pub mod cli;
pub mod commands;
pub mod config;
pub mod control;
mod corpus_page;
pub mod data;
pub mod dataset_versions;
pub mod exit;
mod keys;
pub mod left_out;
pub mod looked;
pub mod plan;
pub mod program;
pub mod run_folder;
pub mod second_program;
pub mod seen;
mod summary;
