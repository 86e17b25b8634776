//! Conversion of text to batches. CPU only; no libtorch.
//!
//! The offline half, in processing order: a [`corpus`] is cut into parts and read as documents. Documents are
//! [tokenized](tokenize), [packed](pack) into samples and written as [shards](shard). [`prepare`] combines these steps.
//!
//! [`labelled`] prepares the examples of a task instead.
//!
//! The online half, in processing order: a [`mixture`] assigns a source to each row. The [`epoch_plan`] of a source and
//! its [`sampler`]s determine the rows, and [`shard`] decodes them. [`views`] render them into [rows](row), and
//! [`collate()`] converts rows to columns. [`load`] combines these steps.
//! [`audit`] checks with [`audit_counters`] that views keep their rules and laws.
//! [`corpus_stats`] describes the content of a prepared folder.
//! Randomness comes from [`rng`] and [`permutation`]; both halves run on the threads of [`runtime`].

pub mod corpus;
pub mod labelled;
pub mod pack;
pub mod prepare;
pub mod sentences;
pub mod shard;
pub mod tokenize;
pub mod tokenizer_training;

pub mod audit;
pub mod audit_counters;
pub mod collate;
pub mod corpus_stats;
pub mod epoch_plan;
pub mod exposure;
pub mod load;
pub mod mixture;
pub mod permutation;
pub mod rng;
pub mod row;
pub mod sampler;
pub mod views;

pub mod error;
#[cfg(test)]
mod fuzz;
mod philox;
mod requests;
#[cfg(test)]
mod testing;
mod unusable_files;

pub use collate::collate;
pub use error::{Error, Result};
