//! Text to token ids.

pub(crate) mod describe;
mod facts;
mod fast;
mod fingerprint;
pub mod hf;
mod load;
mod memory;
pub(crate) mod pool;
mod runs;
mod texts;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::facts::Facts;
// What characters are to the crate, for who looks at text before it is tokenized.
pub(crate) use self::fast::{Character, Characters, Classes, first_pre_token};
// Instructions of some processors have one place, which is there.
pub(crate) use self::fast::fetch;
pub use self::hf::HfTokenizer;
pub use self::load::{load, of_json};
pub use self::texts::Texts;
use crate::Result;

/// What makes ids of text. The ids are the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TokenizerBackend {
    /// The project's own code, where it is proved to return the ids of the `tokenizers` crate for this tokenizer.
    #[default]
    Fast,
    /// The `tokenizers` crate.
    Reference,
}

/// Turns text into ids, in the thread that calls it.
pub trait Tokenizer: Send + Sync {
    /// What the rest of the program may know of it.
    fn facts(&self) -> &Facts;

    /// Hands over the ids of `text`, a piece at a time; the concatenation is that of the whole text.
    ///
    /// Special tokens that the text spells out (`[MASK]`) become their ids, as in the Python package.
    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()>;

    /// Hands over the ids of `text`, run by run: a run begins with the text, and at each of `starts`, which are byte
    /// offsets in ascending order. The concatenation is that of the whole text: a token that reaches across a start
    /// belongs to the run before it. A run without tokens is handed over empty. Starts are where sentences begin, with the
    /// white space before them: behind white space, whose a token is may depend on what encodes.
    fn encode_runs(&self, text: &str, starts: &[usize], runs: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()>;

    /// Appends the ids of each of `texts` to `ids`, and to `lengths` how many there are then: for short texts, which cost as
    /// much each as their words.
    fn encode_texts(&self, texts: Texts<'_>, ids: &mut Vec<u32>, lengths: &mut Vec<usize>) -> Result<()>;

    /// What encodes, and why nothing faster does: for people.
    fn way(&self) -> &str;

    /// Refuses to go on if the ids of `text` are not those of the `tokenizers` crate.
    fn compare(&self, text: &str) -> Result<()>;

    /// Bytes of the longest piece of `text` that is split as a whole: what memory grows with.
    fn longest_piece(&self, text: &str) -> usize {
        text.len()
    }

    /// The ids of `text`, without frame tokens.
    fn ids(&self, text: &str) -> Result<Vec<u32>> {
        let mut ids = Vec::new();
        self.encode(text, &mut |piece| {
            ids.extend_from_slice(piece);
            Ok(())
        })?;
        Ok(ids)
    }
}

/// As much of the front of a text as so many bytes hold, in whole characters.
pub(crate) fn front(text: &str, bytes: usize) -> &str {
    let is_border = |end: &usize| text.is_char_boundary(*end);
    &text[..(0..=bytes.min(text.len())).rev().find(is_border).unwrap_or(0)]
}
