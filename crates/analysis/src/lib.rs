//! Analyses of encoders: the mathematics on plain arrays, without tensors, tokenizers and files.
//!
//! An [`Analysis`] states which data it reads ([`DataKind`]) and computes [`FindingTable`]s from an [`EncoderModel`] and
//! its [`AnalysisData`]. The program implements the model with an encoder and tokenizes the data. [`measure`] compares
//! vectors, [`geometry`] sets of vectors.
//!
//! Sums are in float64. A mean over nothing is NaN, which reports print as "undefined".

pub mod analysis;
mod data;
mod error;
mod findings;
pub mod geometry;
mod gradients;
pub mod measure;
mod model;
mod random;
mod representation;
mod statistics;
#[cfg(test)]
mod testing;
mod words;

pub use analysis::{Analysis, AnyAnalysis};
pub use data::{AnalysisData, DataKind, EncodedPair, EncodedSentence, TextRow};
pub use error::Error;
pub use findings::{ChartSpec, FindingRow, FindingTable};
pub use model::{EncoderModel, MaskedRow, ModelFacts, ObjectiveMetric, Vectors};
pub use random::Dice;
