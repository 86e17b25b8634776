//! Any `tokenizer.json`, by the `tokenizers` crate: the very code behind the Python package, hence exact by
//! construction.
//!
//! # Chunks
//!
//! A document is handed over in chunks: words, roughly. A chunk ends only where the ids on both sides cannot notice,
//! which `Cuts` proves for the two families that BERT-style models use; other tokenizers get their documents whole.
//! So a chunk's ids depend on nothing but the chunk, and those of frequent ones are remembered (`Memory`): 8 times
//! faster on English novels, and the 40 bytes that the crate keeps per byte of text are those of a word.

use std::sync::{Mutex, PoisonError};

use serde_json::Value;
use tokenizers::Tokenizer as Model;

use super::Tokenizer;
use super::facts::Facts;
use super::memory::Memory;
use crate::{Error, Result};

/// Ids that are handed over at a time: few enough for the first-level cache, so many that a call costs nothing.
const PIECE_TOKENS: usize = 4096;

/// A tokenizer of the `tokenizers` crate.
pub struct HfTokenizer {
    model: Model,
    facts: Facts,
    cuts: Cuts,
    /// One for each thread that is encoding; taken for a document, then put back.
    memories: Mutex<Vec<Memory>>,
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
        Self { model, facts, cuts: Cuts::of(json), memories: Mutex::default() }
    }

    /// Appends the ids of `text`, by the crate.
    fn split(&self, text: &str, ids: &mut Vec<u32>) -> Result<()> {
        let encoding = self.model.encode_fast(text, false).map_err(|error| unsplittable(&*error))?;
        ids.extend_from_slice(encoding.get_ids());
        Ok(())
    }

    fn encode_chunks(
        &self,
        text: &str,
        memory: &mut Memory,
        pieces: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let mut ids = Vec::with_capacity(PIECE_TOKENS);
        let mut rest = text;
        while !rest.is_empty() {
            let (chunk, tail) = rest.split_at(self.cuts.first(rest));
            memory.append(self.cuts.essence(chunk), &mut ids, |chunk, ids| self.split(chunk, ids))?;
            if ids.len() >= PIECE_TOKENS || tail.is_empty() {
                pieces(&ids)?;
                ids.clear();
            }
            rest = tail;
        }
        Ok(())
    }

    /// Lends a memory that nobody else has at the moment.
    fn with_memory<R>(&self, work: impl FnOnce(&mut Memory) -> R) -> R {
        let mut memory = self.memories().pop().unwrap_or_default();
        let outcome = work(&mut memory);
        self.memories().push(memory);
        outcome
    }

    /// As [`encode_chunks`](Self::encode_chunks), but run by run. A start lies between two chunks, as good as always:
    /// only a chunk that has one inside is asked where each of its tokens begins.
    fn encode_chunks_in_runs(
        &self,
        text: &str,
        mut starts: &[usize],
        memory: &mut Memory,
        runs: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let mut ids = Vec::new();
        let mut at = 0;
        while at < text.len() {
            end_runs(&mut starts, at, &mut ids, runs)?;
            let chunk = &text[at..at + self.cuts.first(&text[at..])];
            if starts.first().is_some_and(|&start| start < at + chunk.len()) {
                for (begin, id) in self.tokens(chunk)? {
                    end_runs(&mut starts, at + begin, &mut ids, runs)?;
                    ids.push(id);
                }
            } else {
                memory.append(self.cuts.essence(chunk), &mut ids, |chunk, ids| self.split(chunk, ids))?;
            }
            at += chunk.len();
        }
        end_runs(&mut starts, text.len(), &mut ids, runs)?;
        runs(&ids)
    }

    /// The ids of `text`, each with the byte at which it begins.
    fn tokens(&self, text: &str) -> Result<Vec<(usize, u32)>> {
        let encoding = self.model.encode(text, false).map_err(|error| unsplittable(&*error))?;
        Ok(encoding.get_offsets().iter().map(|&(begin, _)| begin).zip(encoding.get_ids().iter().copied()).collect())
    }

    /// The pool of memories. Nothing is done while it is locked that could panic.
    fn memories(&self) -> std::sync::MutexGuard<'_, Vec<Memory>> {
        self.memories.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Tokenizer for HfTokenizer {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        self.with_memory(|memory| self.encode_chunks(text, memory, pieces))
    }

    fn longest_piece(&self, text: &str) -> usize {
        let (mut rest, mut longest) = (text, 0);
        while !rest.is_empty() {
            let first = self.cuts.first(rest);
            (rest, longest) = (&rest[first..], first.max(longest));
        }
        longest
    }

    fn encode_runs(&self, text: &str, starts: &[usize], runs: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        self.with_memory(|memory| self.encode_chunks_in_runs(text, starts, memory, runs))
    }
}

/// Ends a run for every start that is not behind `at`.
fn end_runs(
    starts: &mut &[usize],
    at: usize,
    ids: &mut Vec<u32>,
    runs: &mut dyn FnMut(&[u32]) -> Result<()>,
) -> Result<()> {
    while let Some((_, later)) = starts.split_first().filter(|(start, _)| **start <= at) {
        *starts = later;
        runs(ids)?;
        ids.clear();
    }
    Ok(())
}

fn unsplittable(error: &dyn std::fmt::Display) -> Error {
    Error::Poison(format!("the tokenizer cannot split a text: {error}"))
}

/// Where a text may be cut without a token noticing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cuts {
    /// Before white space, and on both sides of ASCII punctuation. BERT's pre-tokenizer drops white space, makes every
    /// punctuation mark a word and looks at nothing across them; its normalizer works on single characters, and none
    /// of these composes or reorders under NFD. Marks that occur in added tokens (the brackets of `[MASK]`) are not
    /// among the `marks`, a set of ASCII codes.
    Words { marks: u128 },
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
            // To an added token that must be a whole word, `_` is a part of words.
            let taken =
                |mark| added.iter().any(|t| content(t).contains(mark) || (mark == '_' && t["single_word"] == true));
            let plain = ('!'..='~').filter(|&mark| mark.is_ascii_punctuation() && !taken(mark));
            let marks = plain.fold(0, |marks, mark| marks | 1 << u32::from(mark));
            return Self::Words { marks };
        }
        // `rstrip` would take the space from the right side; `lstrip` before a letter from the left one.
        let apart = added.iter().all(|token| {
            let before_letter = content(token).starts_with(|first: char| first.is_ascii_alphabetic());
            token["rstrip"] != true && !(token["lstrip"] == true && before_letter)
        });
        let byte_level = kind("pre_tokenizer") == Some("ByteLevel") && json["pre_tokenizer"]["use_regex"] != false;
        if apart && byte_level && json["normalizer"].is_null() { Self::SpaceAndLetter } else { Self::Nowhere }
    }

    /// The length of the first chunk.
    fn first(self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let cut = match self {
            Self::Words { marks } if is_among(marks, bytes[0]) => return 1,
            Self::Words { marks } => {
                bytes.iter().skip(1).position(|&byte| is_white_space(byte) || is_among(marks, byte))
            }
            Self::SpaceAndLetter => {
                bytes.windows(2).skip(1).position(|pair| pair[0] == b' ' && pair[1].is_ascii_alphabetic())
            }
            Self::Nowhere => None,
        };
        cut.map_or(bytes.len(), |behind_first| behind_first + 1)
    }

    /// What of a chunk decides its ids: without white space that is dropped, equal words are equal.
    fn essence(self, chunk: &str) -> &str {
        match self {
            Self::Words { .. } if is_white_space(chunk.as_bytes()[0]) => &chunk[1..],
            _ => chunk,
        }
    }
}

fn is_among(marks: u128, byte: u8) -> bool {
    byte.is_ascii() && marks >> byte & 1 == 1
}

fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;
    use crate::testing;

    static FAMILIES: LazyLock<[HfTokenizer; 2]> = LazyLock::new(|| testing::TOKENIZERS.map(testing::tokenizer));

    /// Characters around which normalizers, regular expressions and added tokens do something special.
    fn nasty_text() -> impl Strategy<Value = String> {
        let words = [
            " ", " ", " ", "\n", "\t", "\r\n", "  ", "a", "the", "it's", "I'd", "'s", " s", "12", " 7", ".", "...",
            "é", "e\u{301}", "\u{301}", "ß", "İ", "中", "文", "\u{a0}", "\u{3000}", "\u{200d}", "\u{fffd}", "🙂",
            "##s", "[MASK]", "<mask>", "[SEP]", "</s>", ",", "(a)", "e.g.", "'", "<", "]", ",\u{301}", "Ω", "σς",
        ];
        prop::collection::vec(prop::sample::select(words.to_vec()), 0..40).prop_map(|words| words.concat())
    }

    proptest! {
        #[test]
        fn chunks_change_no_token(text in nasty_text()) {
            for tokenizer in &*FAMILIES {
                prop_assert_ne!(tokenizer.cuts, Cuts::Nowhere);
                let mut whole = Vec::new();
                tokenizer.split(&text, &mut whole).expect("encodable");
                // The tokenizers are shared, so that most of it comes from memory.
                prop_assert_eq!(tokenizer.ids(&text).expect("encodable"), whole, "{}", tokenizer.facts.manifest.kind);
            }
        }
    }

    /// Where sentences end. (A token of blanks says that it begins where it ends.)
    fn is_behind_a_word(text: &str, at: usize) -> bool {
        text.is_char_boundary(at) && !text[..at].ends_with(char::is_whitespace)
    }

    proptest! {
        #[test]
        fn runs_change_no_token_and_begin_where_they_are_told(text in nasty_text(), cuts in prop::collection::vec(0_usize..80, 0..6)) {
            let mut starts: Vec<usize> = cuts.into_iter().filter(|&at| is_behind_a_word(&text, at)).collect();
            starts.sort_unstable();
            starts.dedup();
            for tokenizer in &*FAMILIES {
                let mut runs: Vec<Vec<u32>> = Vec::new();
                let take = &mut |ids: &[u32]| {
                    runs.push(ids.to_vec());
                    Ok(())
                };
                tokenizer.encode_runs(&text, &starts, take).expect("encodable");
                prop_assert_eq!(runs.len(), starts.len() + 1);
                prop_assert_eq!(runs.concat(), tokenizer.ids(&text).expect("encodable"));
                let whole: Vec<(usize, u32)> = tokenizer.tokens(&text).expect("encodable");
                let mut before = 0;
                for (run, &start) in runs.iter().zip(&starts) {
                    before += run.len();
                    prop_assert!(whole[..before].iter().all(|&(begin, _)| begin < start.max(1)), "{:?}", starts);
                }
            }
        }
    }

    #[test]
    fn a_blank_goes_with_the_sentence_behind_it() {
        for tokenizer in &*FAMILIES {
            let mut runs = Vec::new();
            let take = &mut |ids: &[u32]| {
                let tokens: Vec<&str> = ids.iter().map(|&id| tokenizer.facts().tokens[id as usize].as_str()).collect();
                runs.push(tokens.concat());
                Ok(())
            };
            tokenizer.encode_runs("the cat. the mat.", &[8], take).expect("encodable");
            let expected = if tokenizer.facts().manifest.kind == "byte_bpe" { "ĠtheĠmat." } else { "themat." };
            assert_eq!(runs[1], expected, "{runs:?}");
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
            assert_eq!(Cuts::of(&json).first(&text), 3);
            json[part] = value;
            assert_eq!(Cuts::of(&json).first(&text), text.len());
        }
    }
}
