//! Any `tokenizer.json`, by the `tokenizers` crate: the very code behind the Python package, so exact by
//! construction.
//!
//! # Chunks
//!
//! A document is handed over in chunks: words, roughly. A chunk ends only where the ids on both sides cannot notice,
//! which `Cuts` proves for the two families that BERT-style models use; other tokenizers get their documents whole.
//! So a chunk's ids depend on nothing but the chunk, and those of frequent ones are remembered (`Memory`): 8 times
//! faster on English novels, and the 40 bytes that the crate keeps per byte of text are those of a word.

use serde_json::Value;
use tokenizers::{NormalizedString, Normalizer as _, PostProcessorWrapper, Tokenizer as Model};

use super::facts::Facts;
use super::fast::{self, Bench, Path};
use super::memory::Memory;
use super::pool::Pool;
use super::runs::{Tokens, end_runs};
use super::{Texts, Tokenizer, TokenizerBackend, front};
use crate::{Error, Result};

/// Ids that are handed over at a time: few enough for the first-level cache, so many that a call costs nothing.
const PIECE_TOKENS: usize = 4096;

/// Bytes of a text that are shown where two ways disagree, and those before the first id that differs.
const SHOWN: usize = 80;
const SHOWN_BEFORE: usize = 20;

/// A tokenizer of the `tokenizers` crate.
pub struct HfTokenizer {
    model: Model,
    facts: Facts,
    cuts: Cuts,
    /// The fast path, if there is one for it.
    path: Option<Box<dyn Path>>,
    /// What encodes.
    way: String,
    /// What the crate's way remembers; for each thread that is encoding.
    memories: Pool<Memory>,
    /// What the fast path works with.
    benches: Pool<Bench>,
}

impl std::fmt::Debug for HfTokenizer {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("HfTokenizer").field("manifest", &self.facts.manifest).finish_non_exhaustive()
    }
}

impl HfTokenizer {
    pub(super) fn new(mut model: Model, json: &Value, facts: Facts) -> Self {
        // The crate would start a rayon pool of its own; our workers are the threads.
        tokenizers::utils::parallelism::set_parallelism(false);
        model.with_padding(None);
        model.with_truncation(None).expect("no truncation is always valid");
        let cuts = Cuts::of(json, &|content| normalized(&model, content));
        let (way, path) = match fast::path_of(&model, json) {
            Ok(path) => {
                // It only adds what nobody asks for, and would tell of other places where tokens begin.
                model.with_post_processor(None::<PostProcessorWrapper>);
                (path.name(), Some(path))
            }
            Err(why) => (by_crate(&why), None),
        };
        Self { model, facts, cuts, path, way, memories: Pool::default(), benches: Pool::default() }
    }

    /// The same tokenizer, by what a configuration says.
    #[must_use]
    pub fn by(self, by: TokenizerBackend) -> Self {
        match by {
            TokenizerBackend::Fast => self,
            TokenizerBackend::Reference => Self { path: None, way: by_crate("the configuration says so"), ..self },
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
            memory.append(self.cuts.essence(chunk), &mut ids, |chunk, ids| self.split(chunk, ids))?;
            if ids.len() >= PIECE_TOKENS || tail.is_empty() {
                pieces(&ids)?;
                ids.clear();
            }
            rest = tail;
        }
        Ok(())
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
    fn tokens(&self, text: &str) -> Result<Tokens> {
        let encoding = self.model.encode(text, false).map_err(|error| unsplittable(&*error))?;
        Ok(encoding.get_offsets().iter().map(|&(begin, _)| begin).zip(encoding.get_ids().iter().copied()).collect())
    }

    /// Refuses ids of `text` that are not those of the crate.
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
             set `prepare.tokenizer_backend = \"reference\"` to go on, and report this text and the tokenizer",
            self.way
        )))
    }
}

impl Tokenizer for HfTokenizer {
    fn facts(&self) -> &Facts {
        &self.facts
    }

    fn encode(&self, text: &str, pieces: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        match self.path.as_deref() {
            Some(path) => self.benches.lend(
                || Bench::of(path),
                |bench| bench.encode((path, text), &mut |text, ids| self.split(text, ids), pieces),
            ),
            None => self.memories.lend(Memory::default, |memory| self.encode_chunks(text, memory, pieces)),
        }
    }

    fn encode_texts(&self, texts: Texts<'_>, ids: &mut Vec<u32>, lengths: &mut Vec<usize>) -> Result<()> {
        let Some(path) = self.path.as_deref() else {
            for text in texts.iter() {
                ids.extend(self.ids(text)?);
                lengths.push(ids.len());
            }
            return Ok(());
        };
        let slow = &mut |text: &str, ids: &mut Vec<u32>| self.split(text, ids);
        self.benches.lend(|| Bench::of(path), |bench| bench.encode_texts(texts, (ids, lengths), slow))
    }

    fn way(&self) -> &str {
        &self.way
    }

    fn compare(&self, text: &str) -> Result<()> {
        if self.path.is_none() {
            return Ok(());
        }
        let mut expected = Vec::new();
        self.split(text, &mut expected)?;
        self.agree(text, &self.ids(text)?, &expected)?;
        // Short documents are encoded together: next to another, a text has the same ids.
        let (mut ids, mut lengths, between) = (Vec::new(), Vec::new(), Texts::BETWEEN.len_utf8());
        let joined = [text, text, ""].join(Texts::BETWEEN.encode_utf8(&mut [0; 4]));
        self.encode_texts(Texts::new(&joined, &[text.len(), 2 * text.len() + between]), &mut ids, &mut lengths)?;
        self.agree(text, &ids[..lengths[0]], &expected)?;
        self.agree(text, &ids[lengths[0]..], &expected)
    }

    fn longest_piece(&self, text: &str) -> usize {
        if let Some(path) = self.path.as_deref() {
            return fast::longest_piece(path, text);
        }
        let (mut rest, mut longest) = (text, 0);
        while !rest.is_empty() {
            let first = self.cuts.first(rest);
            (rest, longest) = (&rest[first..], first.max(longest));
        }
        longest
    }

    fn encode_runs(&self, text: &str, starts: &[usize], runs: &mut dyn FnMut(&[u32]) -> Result<()>) -> Result<()> {
        let Some(path) = self.path.as_deref() else {
            let work = |memory: &mut Memory| self.encode_chunks_in_runs(text, starts, memory, runs);
            return self.memories.lend(Memory::default, work);
        };
        let slow = &mut |text: &str, ids: &mut Vec<u32>| self.split(text, ids);
        let work = |bench: &mut Bench| bench.encode_runs((path, text, starts), slow, &|chunk| self.tokens(chunk), runs);
        self.benches.lend(|| Bench::of(path), work)
    }
}

/// What the tokenizer makes of a text before it looks for tokens that were added as text, not as they stand in a file.
fn normalized(model: &Model, content: &str) -> String {
    let mut text = NormalizedString::from(content);
    match model.get_normalizer().map(|normalizer| normalizer.normalize(&mut text)) {
        None | Some(Ok(())) => text.get().to_owned(),
        Some(Err(_)) => content.to_owned(),
    }
}

/// The crate's way in words, and why it is the one.
fn by_crate(why: &str) -> String {
    format!("the `tokenizers` crate ({why})")
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
    /// among the `marks`.
    Words { marks: u128 },
    /// Before a space that one of the ASCII letters `letters` follows. Whatever precedes, the space begins a match of
    /// ` ?\p{L}+`: a run of white space before it ends by `\s+(?!\S)` one character early, at the end of the piece as
    /// well as there. As the right side begins with a space, `add_prefix_space` adds none. A letter with which an added
    /// token begins is not among them: where the token is taken out, the white space before it ends its piece whole.
    SpaceAndLetter { letters: u128 },
    /// Nowhere: not a tokenizer that we have proved anything about.
    Nowhere,
}

impl Cuts {
    /// What the configuration allows. Added tokens are searched for in the raw text or in what normalizing makes of it, as
    /// they stand in the file or as normalizing makes them: in neither form may one reach across a cut.
    fn of(json: &Value, normalized: &dyn Fn(&str) -> String) -> Self {
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
            // To an added token that must be a whole word, `_` is a part of words.
            let whole_words = added.iter().any(|token| token["single_word"] == true);
            let taken = |mark| forms.iter().any(|form| form.contains(mark)) || (mark == '_' && whole_words);
            return Self::Words { marks: set(|mark| mark.is_ascii_punctuation() && !taken(mark)) };
        }
        // `rstrip` would take the space from the right side.
        let apart = added.iter().all(|token| token["rstrip"] != true);
        let byte_level = kind("pre_tokenizer") == Some("ByteLevel") && json["pre_tokenizer"]["use_regex"] != false;
        if apart && byte_level && json["normalizer"].is_null() {
            let taken = |letter| forms.iter().any(|form| form.starts_with(letter));
            return Self::SpaceAndLetter { letters: set(|letter| letter.is_ascii_alphabetic() && !taken(letter)) };
        }
        Self::Nowhere
    }

    /// The length of the first chunk.
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

    /// What of a chunk decides its ids: without white space that is dropped, equal words are equal.
    fn essence(self, chunk: &str) -> &str {
        match self {
            Self::Words { .. } if is_white_space(chunk.as_bytes()[0]) => &chunk[1..],
            _ => chunk,
        }
    }
}

/// A set of ASCII codes.
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
