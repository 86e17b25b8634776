//! Duplicate documents of a corpus, and runs of words that it shares with test sets.
//!
//! [`Normalized`] defines how texts are compared. A [`Signer`] turns a document into a [`Signature`]: a hash of its
//! normalized text, and one hash for each band of a `MinHash` signature. [`fold()`] joins the signatures of all documents
//! to clusters, of which the document with the lowest number stays. A [`RunIndex`] finds runs of words of test sets.
//!
//! Plain computation: no files and no threads. Every result is the same on every processor.

mod bit_set;
mod clusters;
mod fold;
mod minhash;
mod normalize;
mod permute;
mod runs;
mod signature;
mod word_hash;

pub use bit_set::BitSet;
pub use fold::{Columns, FoldMemory, FoldPlan, Verdicts, fold};
pub use minhash::NearOptions;
pub use normalize::{Normalized, Normalizer};
pub use runs::{RunIndex, RunIndexBuilder, SharedRun};
pub use signature::{Signature, Signer};
