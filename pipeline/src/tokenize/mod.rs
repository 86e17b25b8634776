//! Tokenization: text to token ids.

pub(crate) mod describe;
mod facts;
mod fast;
mod files;
mod fingerprint;
pub mod hf;
mod load;
mod memory;
pub(crate) mod pool;
mod runs;
mod settings;
mod texts;
mod transformers;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::facts::Facts;
// Character classes of the crate, for code that reads text before tokenization.
pub(crate) use self::fast::{Character, Characters, Classes, first_pre_token};
// Shared by other modules, so that processor-specific instructions stay in one module.
pub(crate) use self::fast::fetch;
pub use self::hf::{HfTokenizer, TokenRange};
pub use self::load::{knows_lowercase, load, load_from_model, of_json};
pub use self::texts::Texts;
pub(crate) use self::transformers::prepared_config;
pub use self::transformers::{Framing, TOKENIZER_CONFIG, tokenizer_config, with_framing};
use crate::Result;

/// Implementation of the tokenizer. Both give the same ids.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerBackend {
    /// The project's own code, if it is proved to return the ids of the `tokenizers` crate for this tokenizer.
    #[default]
    Fast,
    /// The `tokenizers` crate.
    Reference,
}

/// Tokenizer, which runs in the calling thread.
pub trait Tokenizer: Send + Sync {
    /// Returns the facts about the tokenizer.
    fn facts(&self) -> &Facts;

    /// Passes on the ids of `text`, a piece at a time; their concatenation is the result for the whole text.
    ///
    /// Special tokens that are spelled out in the text (`[MASK]`) become their ids, as in the Python package.
    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()>;

    /// Passes on the ids of `text`, run by run. A run begins with the text, and at each of `starts`, which are
    /// ascending byte offsets. The concatenation is the result for the whole text: a token that reaches across a start
    /// belongs to the run before it. A run without tokens is passed on empty. Starts are sentence starts, including the
    /// white space before them: for a start after white space, the owner of a white-space token could depend on the
    /// backend.
    fn encode_runs(&self, text: &str, starts: &[usize], runs: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()>;

    /// Appends the ids of each of `texts` to `ids`, and after each the current number of ids to `lengths`. Avoids the
    /// cost per call for short texts.
    fn encode_texts(&self, texts: Texts<'_>, ids: &mut Vec<u32>, lengths: &mut Vec<usize>) -> Result<()>;

    /// Returns the name of the encoder, and the reason if it is not the fast one, for display.
    fn implementation_name(&self) -> &str;

    /// Returns an error if the ids of `text` differ from those of the `tokenizers` crate.
    fn compare(&self, text: &str) -> Result<()>;

    /// Returns the bytes of the longest piece of `text` that is split as a whole, which determines the memory.
    fn longest_piece(&self, text: &str) -> usize {
        text.len()
    }

    /// Returns the ids of `text`, without frame tokens.
    fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode(text, &mut |piece| {
            ids.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(ids)
    }
}

/// Returns the longest prefix of a text of at most `bytes` bytes, in whole characters.
pub(crate) fn front(text: &str, bytes: usize) -> &str {
    let is_border = |end: &usize| text.is_char_boundary(*end);
    &text[..(0..=bytes.min(text.len())).rev().find(is_border).unwrap_or(0)]
}
