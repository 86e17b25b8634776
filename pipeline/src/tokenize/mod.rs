//! Text to token ids.

pub mod hf;
mod load;
mod memory;
pub mod train;

use schemas::{SpecialIds, Vocab, manifest};

pub use self::hf::HfTokenizer;
pub use self::load::load;
pub use self::train::TokenizerConfig;
use crate::Result;

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
    /// belongs to the run before it. A run without tokens is handed over empty.
    fn encode_runs(&self, text: &str, starts: &[usize], runs: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()>;

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

/// All that is known of a tokenizer without running it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Facts {
    /// The file, as it goes into the prepared folder.
    pub json: Vec<u8>,
    /// The text of each id.
    pub tokens: Vec<String>,
    /// Whether a word begins at this id.
    pub word_starts: Vec<bool>,
    /// The short form for the manifest.
    pub manifest: manifest::Tokenizer,
}

impl Facts {
    /// The special ids.
    #[must_use]
    pub fn special(&self) -> SpecialIds {
        self.manifest.special
    }

    /// With counts, the vocabulary that views see.
    #[must_use]
    pub fn vocab(&self, counts: Vec<u64>) -> Vocab {
        let specials = &self.manifest.specials;
        Vocab::new(self.tokens.clone(), self.word_starts.clone(), counts, self.special(), specials)
    }
}
