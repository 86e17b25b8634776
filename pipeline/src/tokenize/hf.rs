//! Any `tokenizer.json`, by the `tokenizers` crate: the very code behind the Python package, hence exact by
//! construction.
//!
//! # Long texts
//!
//! The crate keeps some 40 bytes per byte of text while it works, so a document is handed over in pieces of about
//! [`PIECE_BYTES`]. A piece ends only where the ids on both sides cannot notice, which [`Cuts`] proves for the two
//! families that BERT-style models use; other tokenizers get their documents whole.
//!
//! The crate's cache of split words (byte-pair models only) holds at most 10,000 words of at most 256 bytes per thread.

use serde_json::Value;
use tokenizers::Tokenizer as Model;

use super::{Facts, Tokenizer};
use crate::{Error, Result};

/// Small enough for the second-level cache, large enough that nothing is paid per piece.
const PIECE_BYTES: usize = 16 << 10;

/// A tokenizer of the `tokenizers` crate.
pub struct HfTokenizer {
    model: Model,
    facts: Facts,
    cuts: Cuts,
    piece_bytes: usize,
}

impl std::fmt::Debug for HfTokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HfTokenizer").field("manifest", &self.facts.manifest).finish_non_exhaustive()
    }
}

impl HfTokenizer {
    pub(super) fn new(mut model: Model, json: &Value, facts: Facts) -> Self {
        // The crate would start a rayon pool of its own; our lanes are the threads.
        tokenizers::utils::parallelism::set_parallelism(false);
        model.with_padding(None);
        model.with_truncation(None).expect("no truncation is always valid");
        Self { model, facts, cuts: Cuts::of(json), piece_bytes: PIECE_BYTES }
    }

    fn encode_piece(&self, text: &str) -> Result<tokenizers::Encoding> {
        self.model
            .encode_fast(text, false)
            .map_err(|error| Error::Poison(format!("the tokenizer cannot split a text: {error}")))
    }
}

impl Tokenizer for HfTokenizer {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let (piece, tail) = rest.split_at(self.cuts.next(rest, self.piece_bytes));
            pieces(self.encode_piece(piece)?.get_ids())?;
            rest = tail;
        }
        Ok(())
    }
}

/// Where a text may be cut without a token noticing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    /// Before white space. BERT's pre-tokenizer drops white space and looks at nothing across it; its normalizer works
    /// on single characters, and white space neither composes nor reorders under NFD.
    WhiteSpace,
    /// Before a space that an ASCII letter follows. Whatever precedes, the space begins a match of ` ?\p{L}+`: a run
    /// of white space before it ends by `\s+(?!\S)` one character early, at the end of the piece as well as there. As
    /// the right side begins with a space, `add_prefix_space` adds none.
    SpaceAndLetter,
    /// Nowhere: not a tokenizer that we have proved anything about.
    Nowhere,
}

impl Cuts {
    /// What the configuration allows. Added tokens are searched for in the raw text, so none may reach across a cut.
    fn of(json: &Value) -> Self {
        let kind = |part: &str| json[part]["type"].as_str();
        let added: Vec<&Value> = json["added_tokens"].as_array().into_iter().flatten().collect();
        let content = |token: &Value| token["content"].as_str().unwrap_or_default().to_owned();
        if added.iter().any(|token| content(token).contains(char::is_whitespace)) {
            return Self::Nowhere;
        }
        let plain_normalizer = json["normalizer"].is_null() || kind("normalizer") == Some("BertNormalizer");
        if plain_normalizer && kind("pre_tokenizer") == Some("BertPreTokenizer") {
            return Self::WhiteSpace;
        }
        // `rstrip` would take the space from the right side; `lstrip` before a letter from the left one.
        let apart = added.iter().all(|token| {
            let before_letter = content(token).starts_with(|first: char| first.is_ascii_alphabetic());
            token["rstrip"] != true && !(token["lstrip"] == true && before_letter)
        });
        let byte_level = kind("pre_tokenizer") == Some("ByteLevel") && json["pre_tokenizer"]["use_regex"] != false;
        if apart && byte_level && json["normalizer"].is_null() { Self::SpaceAndLetter } else { Self::Nowhere }
    }

    /// The length of the first piece: at most `limit` if a cut allows it, else up to the first cut behind it.
    fn next(self, text: &str, limit: usize) -> usize {
        if text.len() <= limit || self == Self::Nowhere {
            return text.len();
        }
        let bytes = text.as_bytes();
        let before = (1..=limit).rev().find(|&at| self.allows(bytes, at));
        before.or_else(|| (limit + 1..bytes.len()).find(|&at| self.allows(bytes, at))).unwrap_or(bytes.len())
    }

    fn allows(self, bytes: &[u8], at: usize) -> bool {
        match self {
            Self::WhiteSpace => matches!(bytes[at], b' ' | b'\n' | b'\t' | b'\r'),
            Self::SpaceAndLetter => bytes[at] == b' ' && bytes.get(at + 1).is_some_and(u8::is_ascii_alphabetic),
            Self::Nowhere => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    /// Characters around which normalizers, regular expressions and added tokens do something special.
    fn nasty_text() -> impl Strategy<Value = String> {
        let words = [
            " ", " ", " ", "\n", "\t", "\r\n", "  ", "a", "the", "it's", "I'd", "'s", " s", "12", " 7", ".", "...",
            "é", "e\u{301}", "\u{301}", "ß", "İ", "中", "文", "\u{a0}", "\u{3000}", "\u{200d}", "\u{fffd}", "🙂",
            "##s", "[MASK]", "<mask>", "[SEP]", "</s>", "Ω", "σς",
        ];
        prop::collection::vec(prop::sample::select(words.to_vec()), 0..40).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn cuts_change_no_token(text in nasty_text(), piece_bytes in 1_usize..12) {
            for name in testing::TOKENIZERS {
                let mut tokenizer = testing::tokenizer(name);
                prop_assert_ne!(tokenizer.cuts, Cuts::Nowhere);
                let whole = tokenizer.encode_piece(&text).expect("encodable").get_ids().to_vec();
                tokenizer.piece_bytes = piece_bytes;
                prop_assert_eq!(tokenizer.ids(&text).expect("encodable"), whole, "{} in pieces of {}", name, piece_bytes);
            }
        }
    }

    #[test]
    fn a_mask_in_the_text_is_the_mask() {
        for (name, mask) in testing::TOKENIZERS.into_iter().zip(["[MASK]", "<mask>"]) {
            let tokenizer = testing::tokenizer(name);
            let ids = tokenizer.ids(&format!("the {mask} sat.")).expect("encodable");
            assert_eq!(ids.iter().filter(|&&id| id == tokenizer.facts().special().mask).count(), 1, "{name}: {ids:?}");
        }
    }

    #[test]
    fn a_tokenizer_that_nothing_is_proved_about_is_never_cut() {
        let text = "one two three".repeat(100);
        for (part, value) in [
            ("added_tokens", serde_json::json!([{"content": "new york"}])),
            ("pre_tokenizer", serde_json::json!({"type": "Metaspace"})),
        ] {
            let mut json = serde_json::json!({"pre_tokenizer": {"type": "BertPreTokenizer"}});
            assert_eq!(Cuts::of(&json).next(&text, 10), 7);
            json[part] = value;
            assert_eq!(Cuts::of(&json).next(&text, 10), text.len());
        }
    }
}
