//! Data types of `cloze` that connect preparation and training.
//!
//! In the order in which data meets them: a [`Document`] is read from a corpus; its tokens become a [`Sample`], a row
//! of a shard; shards are listed in a [`Manifest`], next to the [`Vocab`] they were made with; online, samples are
//! rendered into the columns of a [`Batch`], whose rows a [`StreamHash`] remembers. [`ordinal`] numbers all of them,
//! a [`RankShard`] says which of a stream a process takes, [`sealed`] makes small files notice a changed byte, and
//! [`registry!`] makes a closed family of components out of one line each.
//!
//! Plain data only: nothing here starts a thread, opens a socket or links a C library.

mod alias;
pub mod batch;
pub mod column;
pub mod columns;
pub mod document;
#[cfg(test)]
mod fuzz;
pub mod manifest;
mod markdown;
pub mod ordinal;
mod printable;
pub mod problem;
mod registry;
pub mod sample;
pub mod sealed;
mod share;
mod shell;
pub mod stream_hash;
pub mod vocab;

pub use batch::{Batch, BatchBuilder, BatchError, Grid};
pub use column::{Column, ColumnSpec, Element, ElementType};
pub use document::Document;
pub use manifest::{Effective, Manifest, ManifestError, Shard, Split};
pub use markdown::{markdown_code, markdown_text};
pub use ordinal::{BatchIndex, DatasetVersion, Epoch, PartId, RowIndex, SampleAddress, Step};
pub use printable::{printable, printable_json};
pub use problem::{Component, Problem, url_refusal};
pub use sample::{Sample, TokenIds};
pub use sealed::{SealError, Sealed};
pub use share::RankShard;
pub use shell::shell_quoted;
pub use stream_hash::StreamHash;
pub use vocab::{SpecialIds, Vocab};

// `registry!` expands to derives in other crates; the derives use these paths.
#[doc(hidden)]
pub use registry::one_of;
#[doc(hidden)]
pub use {schemars, serde};
