//! Text to batches. CPU only; no libtorch.
//!
//! The offline half, in the order in which text meets it: a [`corpus`] is cut into parts and read as documents, which
//! are [tokenized](tokenize), [packed](pack) into samples and written as [shards](shard); [`prepare`] is all of it on
//! one screen.
//!
//! The online half, in the order in which a batch is asked for: a [`mixture`] says which source each row is of, the
//! [`epoch_plan`] of a source and its [`sampler`]s name its rows,
//! [`shard`] decodes them, [`views`] render them into [rows](row), [`collate()`] makes columns of them; [`load`] is all
//! of it on one screen.
//! [`audit`] judges whether views do as they say, by a [`audit_counters`] of each.
//! A [`corpus_stats`] says what a prepared folder holds.
//! Randomness comes from [`rng`] and [`permutation`]; both halves run on the threads of [`runtime`].

pub mod corpus;
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
#[cfg(test)]
mod testing;

pub use collate::collate;
pub use error::{Error, Result};
