//! Who gets how much memory of a preparation.
//!
//! `prepare.memory_max` is for text, from a file to its ids: it is lent in bytes, and who wants more than is left waits
//! ([`Room`](crate::corpus::Room)). What a lane has beside it does not grow with the text: it is stated here.

use schemas::sample::{ROWS_PER_GROUP, id_type};

use super::config::PrepareConfig;
use super::table;
use crate::corpus::Shares;

/// Tables of words that a lane encodes with: 4.5 MB for WordPiece, 10 MB for byte pairs.
const WORDS_BYTES: u64 = 10 << 20;

/// What a lane reads, hashes, counts and writes through.
const BUFFERS_BYTES: u64 = 4 << 20;

/// Bytes, at most.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Memory {
    /// Of `prepare.memory_max`.
    pub text: Shares,
    /// Beside all that, for each lane: rows of two row groups, one of them as it is written, documents of the table, words;
    /// with `zstd_level = 1`, of which level 22 takes 35 MB more.
    pub lane: u64,
}

impl Memory {
    /// What a preparation takes with a vocabulary of that size.
    pub(super) fn of(config: &PrepareConfig, vocab_size: u32) -> Self {
        let id_bytes = id_type(vocab_size).primitive_width().expect("a number") as u64;
        let group = ROWS_PER_GROUP as u64 * u64::from(config.pack.content(config.tokens_max)) * id_bytes;
        // A page and its compressed bytes stand beside the rows while they are written; a table twice.
        let lane = 3 * group + 2 * table::GROUP_BYTES + WORDS_BYTES + BUFFERS_BYTES;
        Self { text: Shares::of(config.memory_max), lane }
    }
}
