//! Duplicate documents of a corpus, and runs of words that it shares with test sets.
//!
//! [`Normalized`] defines how texts are compared. A [`Signer`] turns a document into a [`Signature`]: a hash of its
//! normalized text, and one hash for each band of a `MinHash` signature. [`fold()`] joins the signatures of all documents
//! to clusters, of which the document with the lowest number stays. A [`RunIndex`] finds runs of words of test sets.
//!
//! Plain computation: no files and no threads. Every result is the same on every processor.

mod bit_set;
mod case_folding;
mod clusters;
mod fold;
mod fold_memory;
mod minhash;
mod normalize;
mod permute;
mod runs;
mod signature;
mod similarity;
mod word_hash;

pub use bit_set::BitSet;
pub use case_folding::{fold_case, is_unspaced};
pub use fold::{Columns, FoldPlan, Verdicts, fold};
pub use fold_memory::FoldMemory;
pub use minhash::NearOptions;
pub use normalize::{Normalized, Normalizer};
pub use runs::{RunIndex, RunIndexBuilder, SharedRun};
pub use signature::{Signature, Signer};
pub use similarity::count_equal_bands;
