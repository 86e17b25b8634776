//! The ids of the `tokenizers` crate without the crate, for the two families that BERT-style models use.
//!
//! A tokenizer that is of a shape about which everything is proved has a [`Path`]: tables, made once and shared, and a
//! `Worker` for each thread, with caches. A path declines whatever it cannot prove, with a reason, and the crate encodes
//! as ever. Within a text it hands to the crate (`slow`) what only the crate can know.
//!
//! # Invariants
//! - A text may be *cut* at a place if its ids are those of the left side, then those of the right side, whatever they
//!   are. A path names such places; all else is built on them: stretches of bounded length, and runs.
//! - Ids are a function of the text alone. What a worker has cached changes time, never ids.

mod added;
mod byte_pairs;
mod cache;
mod cache_slot;
mod characters;
mod fast_tokenizer;
mod kernels;
mod post_processor;
mod trie;
mod vocabulary;
mod wordpiece;

use self::byte_pairs::BytePairs;
pub(crate) use self::byte_pairs::{Classes, first_pre_token};
pub(crate) use self::characters::{Character, Characters};
pub(super) use self::fast_tokenizer::{Bench, Path, longest_piece};
#[cfg(test)]
pub(super) use self::fast_tokenizer::{Slow, Worker};
pub(crate) use self::kernels::fetch;
use self::wordpiece::WordPiece;

/// The path for a tokenizer, whose parts are `meant` as the crate understood them; or why there is none.
pub(super) fn path_of(model: &tokenizers::Tokenizer, meant: &serde_json::Value) -> Result<Box<dyn Path>, String> {
    match meant["model"]["type"].as_str() {
        Some("BPE") => BytePairs::of(model, meant).map(|path| Box::new(path) as Box<dyn Path>),
        Some("WordPiece") => WordPiece::new(model, meant).map(|path| Box::new(path) as Box<dyn Path>),
        kind => Err(format!("nothing else is proved of a {} model", kind.unwrap_or("nameless"))),
    }
}
