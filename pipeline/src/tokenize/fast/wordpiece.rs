//! BERT's tokenizers: its normalizer, its pre-tokenizer, WordPiece.
//!
//! # Idea
//! The raw text is cut at *hard separators* alone: ASCII white space and punctuation, and U+2010 to U+2027. What lies
//! between is a chunk, and its ids are a function of its bytes, whatever these are: so a cache may know them. Two passes
//! over a window of 2 KiB: bit masks of 64 bytes become offsets of chunks (`kernels`); then each chunk is looked up by its
//! bytes (`cache`), 128 chunks after its place was asked for. What is not known is split by tables (`vocabulary`).
//!
//! # Invariants
//! - No step acts across a hard separator: the normalizer looks at characters (`characters` says why), none of these
//!   composes or has a class to be reordered by, and each ends words. [`WordPiece::new`] asks the crate about each.
//! - ASCII letters are made small before a chunk is looked up: on them, the normalizer does nothing else.
//! - Added tokens are taken out of the raw text first, as the crate does. They begin with a mark, so that what precedes
//!   them ends there in any case; white space that they strip would have been dropped.
//! - Places where a text may be cut lie next to characters that end words and occur in no added token.
//!
//! # Budget
//! Per token of English novels on one core at 3.6 GHz: 0.5 ns for offsets, 2 to 4 ns for looking up, 0.2 ns for what is
//! not known; 20 ns without a cache.

use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;
use tokenizers::{ModelWrapper, NormalizerWrapper, PreTokenizerWrapper};

use super::super::Texts;
use super::added::Added;
use super::cache::{Cache, Places};
use super::cache_slot::{KEY_BYTES, Key, key, key_of};
use super::characters::Character;
use super::fast_tokenizer::{Path, Slow, Worker};
use super::kernels::{Kernels, Spans, WINDOW};
use super::post_processor::decline_more;
use super::vocabulary::Vocabulary;
use crate::Result;

/// Chunks between asking for a place and looking at it.
const AHEAD: usize = 128;

/// A tokenizer of BERT's shape.
#[derive(Clone)]
pub(super) struct WordPiece {
    vocabulary: Arc<Vocabulary>,
    added: Arc<Added>,
    kernels: Kernels,
    places: Places,
}

impl WordPiece {
    /// The path, or what of the tokenizer is of another shape. `meant` is the tokenizer as the crate writes it.
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
            places: Places::default(),
        })
    }

    /// Whether `text` may be cut at `at`.
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
                matches!(self.vocabulary.character(character), Character::White | Character::SingleProcess(_));
            ends_words && !self.added.has_any(character.encode_utf8(&mut [0; 4]).as_bytes())
        })
    }
}

/// Checks that hard separators are what the cuts take them for, and that small letters are all that becomes of letters.
fn is_separated(vocabulary: &Vocabulary) -> Result<(), String> {
    let bytes = |character: char| character.to_string().into_bytes();
    let small = |character: char| if vocabulary.folds() { character.to_ascii_lowercase() } else { character };
    let holds = |character: char| match (character, vocabulary.character(character)) {
        (' ' | '\t' | '\n' | '\r', found) => found == Character::White,
        ('0'..='9' | 'a'..='z' | 'A'..='Z', Character::Kept) => small(character) == character,
        ('A'..='Z', Character::Mapped(written)) => written == bytes(small(character)),
        // What becomes of other controls is the tables' affair: they are not looked at before.
        ('\0'..='\x1f' | '\x7f', _) => true,
        (_, Character::SingleProcess(id)) => id == vocabulary.id_alone(&character.to_string()),
        _ => false,
    };
    match ('\0'..='\x7f').chain('\u{2010}'..='\u{2027}').find(|&character| !holds(character)) {
        None => Ok(()),
        Some(character) => Err(format!("its normalizer makes something unforeseen of {character:?}")),
    }
}

impl Path for WordPiece {
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
            cache.learn_for_good(key_of(word.as_bytes()), &ids);
        }
        let (keys, places) = (Box::new([[0; 2]; AHEAD]), Box::new([0; AHEAD]));
        Box::new(Splitter { path: self.clone(), cache, spans: Spans::new(), keys, places, word: Vec::new() })
    }
}

/// What a thread splits text with.
struct Splitter {
    path: WordPiece,
    cache: Cache,
    /// The chunks of the window at hand.
    spans: Box<Spans>,
    /// The keys of the next chunks, and their places in the cache.
    keys: Box<[Key; AHEAD]>,
    places: Box<[usize; AHEAD]>,
    /// Room to write a word into.
    word: Vec<u8>,
}

/// Where it is to be told how many ids there are: places in a text, the next one first.
struct Marks<'a> {
    left: &'a [usize],
    lengths: &'a mut Vec<usize>,
}

impl Marks<'_> {
    /// The next place.
    #[inline]
    fn next(&self) -> usize {
        self.left.first().copied().unwrap_or(usize::MAX)
    }

    /// Tells it of all places up to `at`.
    fn pass(&mut self, at: usize, length: usize) {
        while self.next() <= at {
            self.left = &self.left[1..];
            self.lengths.push(length);
        }
    }
}

impl Worker for Splitter {
    fn append(&mut self, text: &str, ids: &mut Vec<u32>, slow: Slow<'_>) -> Result<()> {
        self.append_all(text, ids, &mut Marks { left: &[], lengths: &mut Vec::new() }, slow)
    }

    fn append_marked(
        &mut self,
        text: &str,
        marks: &[usize],
        (ids, lengths): (&mut Vec<u32>, &mut Vec<usize>),
        slow: Slow<'_>,
    ) -> Result<()> {
        self.append_all(text, ids, &mut Marks { left: marks, lengths }, slow)
    }

    /// What stands between them is white space, which ends words, is dropped, and is in no added token.
    fn append_texts(&mut self, texts: Texts<'_>, ids: (&mut Vec<u32>, &mut Vec<usize>), slow: Slow<'_>) -> Result<()> {
        self.append_marked(texts.joined(), texts.ends(), ids, slow)
    }
}

impl Splitter {
    fn append_all(&mut self, text: &str, ids: &mut Vec<u32>, marks: &mut Marks<'_>, slow: Slow<'_>) -> Result<()> {
        let mut from = 0;
        while let Some(found) = self.path.added.next(text.as_bytes(), from) {
            self.append_plain((&text[..found.start], from), ids, marks, slow)?;
            ids.push(found.id);
            from = found.end;
        }
        self.append_plain((text, from), ids, marks, slow)
    }

    /// Appends the ids of a text from there on, where it has no added token.
    fn append_plain(
        &mut self,
        (text, mut at): (&str, usize),
        ids: &mut Vec<u32>,
        marks: &mut Marks<'_>,
        slow: Slow<'_>,
    ) -> Result<()> {
        while at < text.len() {
            let rest = &text[at..];
            let window = &rest.as_bytes()[..rest.len().min(WINDOW)];
            self.path.kernels.find_words(window, self.path.vocabulary.folds(), &mut self.spans);
            at += match self.spans.open().filter(|_| window.len() < rest.len()) {
                Some(0) => {
                    let end = rest.find(is_separator).unwrap_or(rest.len());
                    self.split_marked(text, at..at + end, ids, marks, slow)?;
                    end
                }
                // A chunk that continues behind the window is the first one of the next.
                Some(start) => {
                    self.append_window((text, at), self.spans.all().0.len() - 1, ids, marks, slow)?;
                    start
                }
                None => {
                    self.append_window((text, at), self.spans.all().0.len(), ids, marks, slow)?;
                    window.len()
                }
            };
        }
        marks.pass(text.len(), ids.len());
        Ok(())
    }

    /// Appends the ids of the first `count` chunks of the window that begins there.
    fn append_window(
        &mut self,
        (text, at): (&str, usize),
        count: usize,
        ids: &mut Vec<u32>,
        marks: &mut Marks<'_>,
        slow: Slow<'_>,
    ) -> Result<()> {
        for first in (0..count).step_by(AHEAD) {
            let ahead = AHEAD.min(count - first);
            self.look_ahead(first, ahead);
            let mut done = 0;
            while done < ahead {
                let end = done + self.unmarked(first + done..first + ahead, at, marks);
                let (keys, places) = (&self.keys[done..end], &self.places[done..end]);
                done += self.cache.append_known(self.path.kernels, keys, places, ids);
                if done < end {
                    self.append_rare(&text[at..], (first + done, done), ids, slow)?;
                    done += 1;
                } else if end < ahead {
                    // A mark lies before the next chunk, or within it.
                    let (starts, ends) = self.spans.all();
                    let chunk = at + usize::from(starts[first + end])..at + usize::from(ends[first + end]);
                    marks.pass(chunk.start, ids.len());
                    if marks.next() < chunk.end {
                        self.split_marked(text, chunk, ids, marks, slow)?;
                        done += 1;
                    }
                }
            }
        }
        Ok(())
    }

    /// How many of these chunks of the window that begins at `at` end before the next mark.
    #[inline]
    fn unmarked(&self, chunks: Range<usize>, at: usize, marks: &Marks<'_>) -> usize {
        let ends = &self.spans.all().1[chunks];
        if marks.left.is_empty() {
            ends.len()
        } else {
            ends.partition_point(|&end| at + usize::from(end) <= marks.next())
        }
    }

    /// Appends the ids of a chunk, which is nowhere in the cache, from mark to mark.
    fn split_marked(
        &mut self,
        text: &str,
        chunk: Range<usize>,
        ids: &mut Vec<u32>,
        marks: &mut Marks<'_>,
        slow: Slow<'_>,
    ) -> Result<()> {
        let mut at = chunk.start;
        while at < chunk.end {
            marks.pass(at, ids.len());
            let end = marks.next().min(chunk.end);
            self.split(&text[at..end], ids, slow)?;
            at = end;
        }
        Ok(())
    }

    /// Makes the keys of the next chunks, and asks for their places in the cache.
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

    /// Appends the ids of a chunk that is not at its first place: the chunk of that number in the window, and ahead.
    #[cold]
    fn append_rare(
        &mut self,
        text: &str,
        (number, ahead): (usize, usize),
        ids: &mut Vec<u32>,
        slow: Slow<'_>,
    ) -> Result<()> {
        let (starts, ends) = self.spans.all();
        let (start, end) = (usize::from(starts[number]), usize::from(ends[number]));
        let (length, folded, key) = (end - start, &self.spans.folded()[start..end], self.keys[ahead]);
        if length <= KEY_BYTES && self.cache.append_second(key, self.places[ahead], ids) {
            return Ok(());
        }
        if self.cache.append_long(folded, ids) {
            return Ok(());
        }
        let before = ids.len();
        if folded.iter().all(u8::is_ascii_alphanumeric) {
            self.path.vocabulary.append_word(folded, ids);
        } else {
            self.split(&text[start..end], ids, slow)?;
        }
        let folded = &self.spans.folded()[start..end];
        if length > KEY_BYTES || !self.cache.learn(key, &ids[before..]) {
            self.cache.learn_long(folded, &ids[before..]);
        }
        Ok(())
    }

    /// Appends the ids of a chunk by tables, or else by the crate.
    fn split(&mut self, chunk: &str, ids: &mut Vec<u32>, slow: Slow<'_>) -> Result<()> {
        if self.path.vocabulary.append(chunk, &mut self.word, ids) { Ok(()) } else { slow(chunk, ids) }
    }
}

/// Whether the kernels cut there.
fn is_separator(character: char) -> bool {
    matches!(character, ' ' | '\t' | '\n' | '\r' | '\u{2010}'..='\u{2027}') || character.is_ascii_punctuation()
}

#[cfg(test)]
mod tests;
