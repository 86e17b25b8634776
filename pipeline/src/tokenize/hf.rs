//! Tokenizer for any `tokenizer.json`, by the `tokenizers` crate: the code behind the Python package, so exact by
//! construction.
//!
//! # Chunks
//!
//! A document is encoded in chunks: words, roughly. A chunk ends only at positions that do not affect the ids on both
//! sides. `Cuts` proves that for the two families of BERT-style models; other tokenizers get whole documents. So a
//! chunk's ids depend only on the chunk, and those of frequent ones are cached (`Memory`). That is 8 times faster on
//! English novels, and reduces the crate's 40 bytes per byte of text to those of a word.

use std::ops::Range;

use serde_json::Value;
use tokenizers::{NormalizedString, Normalizer as _, PostProcessorWrapper, Tokenizer as Model};

use super::facts::Facts;
use super::fast::{self, FastTokenizer, Scratch};
use super::memory::Memory;
use super::pool::Pool;
use super::runs::{Tokens, end_runs};
use super::{Texts, Tokenizer, TokenizerBackend, front};
use crate::{Error, Result};

/// Maximum ids per callback: few enough for the first-level cache, enough to make the cost of a call negligible.
const PIECE_TOKENS: usize = 4096;

/// Maximum bytes of a text in a report of different ids, and maximum bytes before the first difference.
const SHOWN: usize = 80;
const SHOWN_BEFORE: usize = 20;

/// Token with its place in the text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TokenRange {
    /// Id.
    pub id: u32,
    /// Bytes of the text that it stands for.
    pub bytes: Range<usize>,
}

/// Tokenizer of the `tokenizers` crate.
pub struct HfTokenizer {
    model: Model,
    facts: Facts,
    cuts: CutRule,
    /// Fast tokenizer, if the tokenizer is supported.
    fast_tokenizer: Option<Box<dyn FastTokenizer>>,
    /// Display name of the encoder.
    implementation: String,
    /// Caches of the crate's encoder, one per encoding thread.
    caches: Pool<Memory>,
    /// Scratch state of the fast tokenizer.
    scratches: Pool<Scratch>,
}

impl std::fmt::Debug for HfTokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HfTokenizer").field("manifest", &self.facts.manifest).finish_non_exhaustive()
    }
}

impl HfTokenizer {
    pub(super) fn new(mut model: Model, json: &Value, facts: Facts) -> Self {
        // The crate would start its own rayon pool in addition to our workers.
        tokenizers::utils::parallelism::set_parallelism(false);
        model.with_padding(None);
        model.with_truncation(None).expect("no truncation is always valid");
        let cuts = CutRule::new(json, &|content| normalized(&model, content));
        let (way, fast_tokenizer) = match fast::fast_tokenizer_for(&model, json) {
            Ok(fast_tokenizer) => {
                // It only adds unused special tokens, and would change the reported positions of tokens.
                model.with_post_processor(None::<PostProcessorWrapper>);
                (fast_tokenizer.name(), Some(fast_tokenizer))
            }
            Err(why) => (by_crate(&why), None),
        };
        Self {
            model,
            facts,
            cuts,
            fast_tokenizer,
            implementation: way,
            caches: Pool::default(),
            scratches: Pool::default(),
        }
    }

    /// Returns the tokenizer with the configured backend.
    #[must_use]
    pub fn with_backend(self, by: TokenizerBackend) -> Self {
        match by {
            TokenizerBackend::Fast => self,
            TokenizerBackend::Reference => {
                Self { fast_tokenizer: None, implementation: by_crate("the configuration says so"), ..self }
            }
        }
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
            memory.append(self.cuts.without_edges(chunk), &mut ids, |chunk, ids| self.split(chunk, ids))?;
            if ids.len() >= PIECE_TOKENS || tail.is_empty() {
                pieces(&ids)?;
                ids.clear();
            }
            rest = tail;
        }
        Ok(())
    }

    /// Encodes as [`encode_chunks`](Self::encode_chunks), but run by run. A start is nearly always between two chunks:
    /// only for a chunk with a start inside does the crate return the position of each token.
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
                memory.append(self.cuts.without_edges(chunk), &mut ids, |chunk, ids| self.split(chunk, ids))?;
            }
            at += chunk.len();
        }
        end_runs(&mut starts, text.len(), &mut ids, runs)?;
        runs(&ids)
    }

    /// Returns the ids of `text`, each with its byte offset.
    fn tokens(&self, text: &str) -> Result<Tokens> {
        let encoding = self.model.encode(text, false).map_err(|error| unsplittable(&*error))?;
        Ok(encoding.get_offsets().iter().map(|&(begin, _)| begin).zip(encoding.get_ids().iter().copied()).collect())
    }

    /// Returns the tokens of `text` with their byte ranges, white space at both ends of a range left out. By the crate:
    /// for labelled texts, which are short.
    ///
    /// # Errors
    /// If the tokenizer cannot split the text.
    pub fn token_ranges(&self, text: &str) -> Result<Vec<TokenRange>> {
        let encoding = self.model.encode(text, false).map_err(|error| unsplittable(&*error))?;
        let tokens = encoding.get_ids().iter().zip(encoding.get_offsets());
        let range = |(&id, &(begin, end)): (&u32, &(usize, usize))| {
            // A token of bytes may be a part of a character.
            let is_border = |at: &usize| text.is_char_boundary(*at);
            let begin = (0..=begin).rev().find(is_border).unwrap_or(0);
            let end = (end..text.len()).find(is_border).unwrap_or(text.len());
            let shown = text[begin..end].trim_start();
            let begin = end - shown.len();
            TokenRange { id, bytes: begin..begin + shown.trim_end().len() }
        };
        Ok(tokens.map(range).collect())
    }

    /// Returns an error if the ids of `text` differ from those of the crate.
    fn agree(&self, text: &str, found: &[u32], expected: &[u32]) -> Result<()> {
        let is_same = |at: &usize| found.get(*at) == expected.get(*at);
        let Some(at) = (0..found.len().max(expected.len())).find(|at| !is_same(at)) else { return Ok(()) };
        let begin = self.tokens(text)?.get(at).map_or(text.len(), |(begin, _)| *begin);
        let before = front(text, begin.saturating_sub(SHOWN_BEFORE));
        let shown = front(&text[before.len()..], SHOWN).escape_debug();
        let few = |ids: &[u32]| {
            let ids: Vec<String> = ids.iter().skip(at).take(5).map(ToString::to_string).collect();
            if ids.is_empty() { "nothing".to_owned() } else { ids.join(" ") }
        };
        let ids = few(found);
        let expected = few(expected);
        Err(Error::Config(format!(
            "{} and the `tokenizers` crate disagree on \"{shown}\": from id {at} on {ids}, and {expected}; \
             set `prepare.tokenizer_backend = \"reference\"` to continue, and report this text and the tokenizer",
            self.implementation
        )))
    }
}

impl Tokenizer for HfTokenizer {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        match self.fast_tokenizer.as_deref() {
            Some(fast_tokenizer) => self.scratches.with_item(
                || Scratch::new(fast_tokenizer),
                |scratch| scratch.encode(fast_tokenizer, text, &mut |text, ids| self.split(text, ids), pieces),
            ),
            None => self.caches.with_item(Memory::default, |memory| self.encode_chunks(text, memory, pieces)),
        }
    }

    fn encode_texts(&self, texts: Texts<'_>, ids: &mut Vec<u32>, lengths: &mut Vec<usize>) -> Result<()> {
        let Some(fast_tokenizer) = self.fast_tokenizer.as_deref() else {
            for text in texts.iter() {
                ids.extend(self.ids(text)?);
                lengths.push(ids.len());
            }
            return Ok(());
        };
        let fallback = &mut |text: &str, ids: &mut Vec<u32>| self.split(text, ids);
        self.scratches
            .with_item(|| Scratch::new(fast_tokenizer), |scratch| scratch.encode_texts(texts, ids, lengths, fallback))
    }

    fn implementation_name(&self) -> &str {
        &self.implementation
    }

    fn compare(&self, text: &str) -> Result<()> {
        if self.fast_tokenizer.is_none() {
            return Ok(());
        }
        let mut expected = Vec::new();
        self.split(text, &mut expected)?;
        self.agree(text, &self.ids(text)?, &expected)?;
        // Short documents are encoded together: neighbours do not change the ids of a text.
        let mut ids = Vec::new();
        let mut lengths = Vec::new();
        let between = Texts::BETWEEN.len_utf8();
        let joined = [text, text, ""].join(Texts::BETWEEN.encode_utf8(&mut [0; 4]));
        self.encode_texts(Texts::new(&joined, &[text.len(), 2 * text.len() + between]), &mut ids, &mut lengths)?;
        self.agree(text, &ids[..lengths[0]], &expected)?;
        self.agree(text, &ids[lengths[0]..], &expected)
    }

    fn longest_piece(&self, text: &str) -> usize {
        if let Some(fast_tokenizer) = self.fast_tokenizer.as_deref() {
            return fast::longest_piece(fast_tokenizer, text);
        }
        let mut rest = text;
        let mut longest = 0;
        while !rest.is_empty() {
            let first = self.cuts.first(rest);
            (rest, longest) = (&rest[first..], first.max(longest));
        }
        longest
    }

    fn encode_runs(&self, text: &str, starts: &[usize], runs: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        let Some(fast_tokenizer) = self.fast_tokenizer.as_deref() else {
            let work = |memory: &mut Memory| self.encode_chunks_in_runs(text, starts, memory, runs);
            return self.caches.with_item(Memory::default, work);
        };
        let fallback = &mut |text: &str, ids: &mut Vec<u32>| self.split(text, ids);
        let work = |scratch: &mut Scratch| {
            scratch.encode_runs(fast_tokenizer, text, starts, fallback, &|chunk| self.tokens(chunk), runs)
        };
        self.scratches.with_item(|| Scratch::new(fast_tokenizer), work)
    }
}

/// Returns the normalized form of an added token's content, for tokens that are searched in normalized text.
fn normalized(model: &Model, content: &str) -> String {
    let mut text = NormalizedString::from(content);
    match model.get_normalizer().map(|normalizer| normalizer.normalize(&mut text)) {
        None | Some(Ok(())) => text.get().to_owned(),
        Some(Err(_)) => content.to_owned(),
    }
}

/// Returns the display name of the crate's encoder, with the reason for its use.
fn by_crate(why: &str) -> String {
    format!("the `tokenizers` crate ({why})")
}

fn unsplittable(error: &dyn std::fmt::Display) -> Error {
    Error::UnusableCorpus(format!("the tokenizer cannot split a text: {error}"))
}

/// Positions at which a text may be cut without a change of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CutRule {
    /// Before white space, and on both sides of ASCII punctuation. BERT's pre-tokenizer drops white space, makes every
    /// punctuation mark a word and never looks across them. Its normalizer processes single characters, and none of
    /// these composes or reorders under NFD. Marks that occur in added tokens (the brackets of `[MASK]`) are not among
    /// the `marks`. among the `marks`.
    Words { marks: u128 },
    /// Before a space that precedes one of the ASCII letters `letters`. After any text, the space begins a match of
    /// ` ?\p{L}+`: a run of white space before it ends by `\s+(?!\S)` one character early, both there and at the end of
    /// a piece. As the right side begins with a space, `add_prefix_space` adds none. First letters of added tokens are
    /// excluded: before an extracted token the white space ends its piece whole.
    SpaceAndLetter { letters: u128 },
    /// None: the tokenizer is not one of the proved families.
    Nowhere,
}

impl CutRule {
    /// Returns the cuts that the tokenizer allows. Added tokens are searched in the raw or in the normalized text. So
    /// no cut may be inside a token, either as written or as normalized.
    fn new(json: &Value, normalized: &dyn Fn(&str) -> String) -> Self {
        let kind = |part: &str| json[part]["type"].as_str();
        let added: Vec<&Value> = json["added_tokens"].as_array().into_iter().flatten().collect();
        let content = |token: &Value| token["content"].as_str().unwrap_or_default().to_owned();
        let forms: Vec<String> =
            added.iter().map(|token| content(token)).flat_map(|raw| [normalized(&raw), raw]).collect();
        if forms.iter().any(|form| form.contains(char::is_whitespace)) {
            return Self::Nowhere;
        }
        let plain_normalizer = json["normalizer"].is_null() || kind("normalizer") == Some("BertNormalizer");
        if plain_normalizer && kind("pre_tokenizer") == Some("BertPreTokenizer") {
            // For an added token that must be a whole word, `_` is part of words.
            let whole_words = added.iter().any(|token| token["single_word"] == true);
            let taken = |mark| forms.iter().any(|form| form.contains(mark)) || (mark == '_' && whole_words);
            return Self::Words { marks: set(|mark| mark.is_ascii_punctuation() && !taken(mark)) };
        }
        // `rstrip` would remove the space from the right side.
        let apart = added.iter().all(|token| token["rstrip"] != true);
        let byte_level = kind("pre_tokenizer") == Some("ByteLevel") && json["pre_tokenizer"]["use_regex"] != false;
        if apart && byte_level && json["normalizer"].is_null() {
            let taken = |letter| forms.iter().any(|form| form.starts_with(letter));
            return Self::SpaceAndLetter { letters: set(|letter| letter.is_ascii_alphabetic() && !taken(letter)) };
        }
        Self::Nowhere
    }

    /// Returns the length of the first chunk.
    fn first(self, text: &str) -> usize {
        let bytes = text.as_bytes();
        let cut = match self {
            Self::Words { marks } if is_among(marks, bytes[0]) => return 1,
            Self::Words { marks } => {
                bytes.iter().skip(1).position(|&byte| is_white_space(byte) || is_among(marks, byte))
            }
            Self::SpaceAndLetter { letters } => {
                bytes.windows(2).skip(1).position(|pair| pair[0] == b' ' && is_among(letters, pair[1]))
            }
            Self::Nowhere => None,
        };
        cut.map_or(bytes.len(), |behind_first| behind_first + 1)
    }

    /// Returns the part of a chunk that decides its ids: without dropped white space, equal words are equal.
    fn without_edges(self, chunk: &str) -> &str {
        match self {
            Self::Words { .. } if is_white_space(chunk.as_bytes()[0]) => &chunk[1..],
            _ => chunk,
        }
    }
}

/// Returns a set of ASCII codes.
fn set(is_member: impl Fn(char) -> bool) -> u128 {
    ('!'..='~').filter(|&code| is_member(code)).fold(0, |set, code| set | 1 << u32::from(code))
}

fn is_among(marks: u128, byte: u8) -> bool {
    byte.is_ascii() && marks >> byte & 1 == 1
}

fn is_white_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\n' | b'\t' | b'\r')
}

#[cfg(test)]
mod tests;
