//! WordPiece with BERT's normalizer and pre-tokenizer.
//!
//! # Idea
//! The raw text is cut at *hard separators* only: ASCII white space and punctuation, and U+2010 to U+2027. The text
//! between is a chunk, and its ids are a function of its bytes, so that a cache can store them. There are two passes
//! over a window of 2 KiB. Bit masks of 64 bytes become offsets of chunks (`kernels`). Then each chunk is looked up by
//! its bytes (`cache`), 128 chunks after its slot was prefetched. Unknown chunks are split by tables (`vocabulary`).
//!
//! # Invariants
//! - No step acts across a hard separator: the normalizer processes single characters (see `characters`), none of these
//!   composes or has a class to be reordered by, and each ends words. [`WordPiece::new`] queries the crate for each.
//! - ASCII letters are converted to lower case before a chunk is looked up: the normalizer changes nothing else in
//!   them.
//! - Added tokens are extracted from the raw text first, as in the crate. They begin with a mark, so that the preceding
//!   text always ends there; white space that they strip would have been dropped.
//! - Positions at which a text may be cut are next to characters that end words and occur in no added token.
//!
//! # Budget
//! Per token of English novels on one core at 3.6 GHz: 0.5 ns for offsets, 2 to 4 ns for look-ups, 0.2 ns for unknown
//! chunks; 20 ns without a cache.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use super::super::Texts;
use super::added::Added;
use super::cache::{Cache, CacheSlots};
use super::cache_slot::{KEY_BYTES, Key, key, key_of};
use super::characters::Character;
use super::fast_tokenizer::{Fallback, FastTokenizer, Worker};
use super::kernels::{Kernels, Spans, WINDOW};
use super::post_processor::decline_more;
use super::vocabulary::Vocabulary;
use crate::Result;

/// Number of chunks between prefetch and look-up.
const AHEAD: usize = 128;

/// Tokenizer of BERT's configuration.
#[derive(Clone)]
pub(super) struct WordPiece {
    vocabulary: Arc<Vocabulary>,
    added: Arc<Added>,
    kernels: Kernels,
    places: CacheSlots,
}

impl WordPiece {
    /// Builds the tokenizer, or names the unsupported part of the tokenizer. `meant` is the crate's serialization.
    pub(super) fn new(model: &tokenizers::Tokenizer, meant: &Value) -> Result<Self, String> {
        let ModelWrapper::WordPiece(word_piece) = model.get_model() else {
            return Err("its model is not WordPiece".into());
        };
        let Some(NormalizerWrapper::BertNormalizer(normalizer)) = model.get_normalizer() else {
            return Err("its normalizer is not BERT's".into());
        };
        let Some(PreTokenizerWrapper::BertPreTokenizer(_)) = model.get_pre_tokenizer() else {
            return Err("its pre-tokenizer is not BERT's".into());
        };
        decline_more(&meant["post_processor"])?;
        let tokens = model.get_added_tokens_decoder();
        let mut tokens: Vec<_> = tokens.iter().collect();
        tokens.sort_by_key(|(id, _)| **id);
        if let Some((_, token)) = tokens.iter().find(|(_, token)| token.normalized || token.single_word) {
            return Err(format!("the added token `{}` is looked for in normalized text, or as a word", token.content));
        }
        let added = Added::new(tokens.into_iter().map(|(&id, token)| (token.content.as_str(), id)))?;
        let vocabulary = Vocabulary::new(word_piece, *normalizer)?;
        is_separated(&vocabulary)?;
        Ok(Self {
            vocabulary: Arc::new(vocabulary),
            added: Arc::new(added),
            kernels: Kernels::best(),
            places: CacheSlots::default(),
        })
    }

    /// Returns true if `text` may be cut at `at`.
    fn is_cut(&self, text: &str, at: usize) -> bool {
        if at == 0 || at == text.len() {
            return true;
        }
        if !text.is_char_boundary(at) {
            return false;
        }
        let sides = [text[..at].chars().next_back(), text[at..].chars().next()];
        sides.into_iter().flatten().any(|character| {
            let ends_words =
                matches!(self.vocabulary.character(character), Character::White | Character::SeparateWord(_));
            ends_words && !self.added.has_any(character.encode_utf8(&mut [0; 4]).as_bytes())
        })
    }
}

/// Checks that the crate treats hard separators as assumed, and changes ASCII letters only to lower case.
fn is_separated(vocabulary: &Vocabulary) -> Result<(), String> {
    let bytes = |character: char| character.to_string().into_bytes();
    let small = |character: char| if vocabulary.folds() { character.to_ascii_lowercase() } else { character };
    let holds = |character: char| match (character, vocabulary.character(character)) {
        (' ' | '\t' | '\n' | '\r', found) => found == Character::White,
        ('0'..='9' | 'a'..='z' | 'A'..='Z', Character::Kept) => small(character) == character,
        ('A'..='Z', Character::Mapped(written)) => written == bytes(small(character)),
        // Other control characters are handled by the tables.
        ('\0'..='\x1f' | '\x7f', _) => true,
        (_, Character::SeparateWord(id)) => id == vocabulary.id_alone(&character.to_string()),
        _ => false,
    };
    match ('\0'..='\x7f').chain('\u{2010}'..='\u{2027}').find(|&character| !holds(character)) {
        None => Ok(()),
        Some(character) => Err(format!("its normalizer makes something unforeseen of {character:?}")),
    }
}

impl FastTokenizer for WordPiece {
    fn name(&self) -> String {
        format!("WordPiece by {}", self.kernels.name())
    }

    fn cut_before(&self, text: &str, near: usize) -> usize {
        (0..=near.min(text.len())).rev().find(|&at| self.is_cut(text, at)).unwrap_or(0)
    }

    fn cut_behind(&self, text: &str, near: usize) -> usize {
        (near..text.len()).find(|&at| self.is_cut(text, at)).unwrap_or(text.len())
    }

    fn worker(&self) -> Box<dyn Worker> {
        let mut cache = Cache::new(self.places);
        for (word, ids) in self.vocabulary.whole_words() {
            cache.insert_pinned(key_of(word.as_bytes()), &ids);
        }
        let keys = Box::new([[0; 2]; AHEAD]);
        let places = Box::new([0; AHEAD]);
        Box::new(Splitter { tokenizer: self.clone(), cache, spans: Spans::new(), keys, places, word: Vec::new() })
    }
}

/// Encoder of one thread.
struct Splitter {
    tokenizer: WordPiece,
    cache: Cache,
    /// Chunks of the current window.
    spans: Box<Spans>,
    /// Keys of the next chunks, and their slots in the cache.
    keys: Box<[Key; AHEAD]>,
    places: Box<[usize; AHEAD]>,
    /// Work buffer for a word.
    word: Vec<u8>,
}

/// Positions in a text at which the number of ids is recorded, the next one first.
struct Marks<'a> {
    left: &'a [usize],
    lengths: &'a mut Vec<usize>,
}

impl Marks<'_> {
    /// Returns the next position.
    #[inline]
    fn next(&self) -> usize {
        self.left.first().copied().unwrap_or(usize::MAX)
    }

    /// Records the number of ids for all positions up to `at`.
    fn skip(&mut self, at: usize, length: usize) {
        while self.next() <= at {
            self.left = &self.left[1..];
            self.lengths.push(length);
        }
    }
}

impl Worker for Splitter {
    fn append(&mut self, text: &str, ids: &mut Vec<u32>, fallback: Fallback<'_>) -> Result<()> {
        self.append_all(text, ids, &mut Marks { left: &[], lengths: &mut Vec::new() }, fallback)
    }

    fn append_marked(
        &mut self,
        text: &str,
        marks: &[usize],
        ids: &mut Vec<u32>,
        lengths: &mut Vec<usize>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        self.append_all(text, ids, &mut Marks { left: marks, lengths }, fallback)
    }

    // The separator between texts is white space, which ends words, is dropped, and is in no added token.
    fn append_texts(
        &mut self,
        texts: Texts<'_>,
        ids: &mut Vec<u32>,
        lengths: &mut Vec<usize>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        self.append_marked(texts.joined(), texts.ends(), ids, lengths, fallback)
    }
}

impl Splitter {
    fn append_all(
        &mut self,
        text: &str,
        ids: &mut Vec<u32>,
        marks: &mut Marks<'_>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        let mut from = 0;
        while let Some(found) = self.tokenizer.added.next(text.as_bytes(), from) {
            self.append_plain(&text[..found.start], from, ids, marks, fallback)?;
            ids.push(found.id);
            from = found.end;
        }
        self.append_plain(text, from, ids, marks, fallback)
    }

    /// Appends the ids of a text without added tokens, from an offset on.
    fn append_plain(
        &mut self,
        text: &str,
        mut at: usize,
        ids: &mut Vec<u32>,
        marks: &mut Marks<'_>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        while at < text.len() {
            let rest = &text[at..];
            let window = &rest.as_bytes()[..rest.len().min(WINDOW)];
            self.tokenizer.kernels.find_words(window, self.tokenizer.vocabulary.folds(), &mut self.spans);
            at += match self.spans.open().filter(|_| window.len() < rest.len()) {
                Some(0) => {
                    let end = rest.find(is_separator).unwrap_or(rest.len());
                    self.split_marked(text, at..at + end, ids, marks, fallback)?;
                    end
                }
                // A chunk that continues after the window is the first one of the next window.
                Some(start) => {
                    self.append_window(text, at, self.spans.all().0.len() - 1, ids, marks, fallback)?;
                    start
                }
                None => {
                    self.append_window(text, at, self.spans.all().0.len(), ids, marks, fallback)?;
                    window.len()
                }
            };
        }
        marks.skip(text.len(), ids.len());
        Ok(())
    }

    /// Appends the ids of the first `count` chunks of the window.
    fn append_window(
        &mut self,
        text: &str,
        at: usize,
        count: usize,
        ids: &mut Vec<u32>,
        marks: &mut Marks<'_>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        for first in (0..count).step_by(AHEAD) {
            let ahead = AHEAD.min(count - first);
            self.look_ahead(first, ahead);
            let mut done = 0;
            while done < ahead {
                let end = done + self.unmarked(first + done..first + ahead, at, marks);
                let keys = &self.keys[done..end];
                let places = &self.places[done..end];
                done += self.cache.append_known(self.tokenizer.kernels, keys, places, ids);
                if done < end {
                    self.append_rare(&text[at..], first + done, done, ids, fallback)?;
                    done += 1;
                } else if end < ahead {
                    // A mark is before the next chunk, or within it.
                    let (starts, ends) = self.spans.all();
                    let chunk = at + usize::from(starts[first + end])..at + usize::from(ends[first + end]);
                    marks.skip(chunk.start, ids.len());
                    if marks.next() < chunk.end {
                        self.split_marked(text, chunk, ids, marks, fallback)?;
                        done += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns the number of chunks in `chunks`, of the window that begins at `at`, that end before the next mark.
    #[inline]
    fn unmarked(&self, chunks: Range<usize>, at: usize, marks: &Marks<'_>) -> usize {
        let ends = &self.spans.all().1[chunks];
        if marks.left.is_empty() {
            ends.len()
        } else {
            ends.partition_point(|&end| at + usize::from(end) <= marks.next())
        }
    }

    /// Appends the ids of an uncached chunk, from mark to mark.
    fn split_marked(
        &mut self,
        text: &str,
        chunk: Range<usize>,
        ids: &mut Vec<u32>,
        marks: &mut Marks<'_>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        let mut at = chunk.start;
        while at < chunk.end {
            marks.skip(at, ids.len());
            let end = marks.next().min(chunk.end);
            self.split(&text[at..end], ids, fallback)?;
            at = end;
        }
        Ok(())
    }

    /// Computes the keys of the next chunks, and prefetches their slots.
    fn look_ahead(&mut self, first: usize, count: usize) {
        let ((starts, ends), folded) = (self.spans.all(), self.spans.folded());
        let spans = starts[first..first + count].iter().zip(&ends[first..first + count]);
        for ((&start, &end), (known, place)) in spans.zip(self.keys.iter_mut().zip(self.places.iter_mut())) {
            let bytes = folded[usize::from(start)..].first_chunk().expect("room behind the window");
            *known = key(bytes, usize::from(end - start));
            *place = self.cache.place(*known);
            self.cache.fetch(*place);
        }
    }

    /// Appends the ids of a chunk that is not in its first slot, given by its index in the window and in the batch.
    #[cold]
    fn append_rare(
        &mut self,
        text: &str,
        number: usize,
        ahead: usize,
        ids: &mut Vec<u32>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        let (starts, ends) = self.spans.all();
        let start = usize::from(starts[number]);
        let end = usize::from(ends[number]);
        let length = end - start;
        let folded = &self.spans.folded()[start..end];
        let key = self.keys[ahead];
        if length <= KEY_BYTES && self.cache.append_second(key, self.places[ahead], ids) {
            return Ok(());
        }
        if self.cache.append_long(folded, ids) {
            return Ok(());
        }
        let before = ids.len();
        if folded.iter().all(u8::is_ascii_alphanumeric) {
            self.tokenizer.vocabulary.append_word(folded, ids);
        } else {
            self.split(&text[start..end], ids, fallback)?;
        }
        let folded = &self.spans.folded()[start..end];
        if length > KEY_BYTES || !self.cache.insert(key, &ids[before..]) {
            self.cache.insert_long(folded, &ids[before..]);
        }
        Ok(())
    }

    /// Appends the ids of a chunk by tables, or else by the crate.
    fn split(&mut self, chunk: &str, ids: &mut Vec<u32>, fallback: Fallback<'_>) -> Result<()> {
        if self.tokenizer.vocabulary.append(chunk, &mut self.word, ids) { Ok(()) } else { fallback(chunk, ids) }
    }
}

/// Returns true if the kernels cut at the character.
fn is_separator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{2010}'..='\u{2027}') || character.is_ascii_punctuation()
}

#[cfg(test)]
mod tests;
