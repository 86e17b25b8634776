//! Fast tokenizer: the ids of the `tokenizers` crate without the crate, for the two families of BERT-style models.
//!
//! A tokenizer of a supported configuration has a [`FastTokenizer`]: tables, built once and shared, and a `Worker` with caches
//! for each thread. An unsupported tokenizer is declined with a reason, and the crate encodes instead. Within a text, a
//! fast tokenizer passes the parts that only the crate can encode to the crate (`fallback`).
//!
//! # Invariants
//! - A text may be *cut* at a position if its ids are those of the left side, then those of the right side, for any
//!   contents of both. A fast tokenizer finds such positions. Blocks of bounded length and runs are built on them.
//! - Ids are a function of the text alone. A worker's caches change time, never ids.

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
#[cfg(test)]
pub(super) use self::fast_tokenizer::{Fallback, Worker};
pub(super) use self::fast_tokenizer::{FastTokenizer, Scratch, longest_piece};
pub(crate) use self::kernels::fetch;
use self::wordpiece::WordPiece;

/// Returns the fast tokenizer for a tokenizer, with `meant` as the crate's serialization; or the reason why there is none.
pub(super) fn fast_tokenizer_for(
    model: &tokenizers::Tokenizer,
    meant: &serde_json::Value,
) -> Result<Box<dyn FastTokenizer>, String> {
    match meant["model"]["type"].as_str() {
        Some("BPE") => BytePairs::new(model, meant).map(|tokenizer| Box::new(tokenizer) as Box<dyn FastTokenizer>),
        Some("WordPiece") => {
            WordPiece::new(model, meant).map(|tokenizer| Box::new(tokenizer) as Box<dyn FastTokenizer>)
        }
        kind => Err(format!("nothing else is proved of a {} model", kind.unwrap_or("nameless"))),
    }
}
