//! Interface of fast tokenizers, and encoding of a text in stretches of bounded length, or in runs.

use std::ops::Range;

use super::super::Texts;
use super::super::runs::{Tokens, end_runs};
use crate::Result;

/// Bytes of text encoded at a time: some four thousand ids, which fit the first-level cache.
const BLOCK_BYTES: usize = 16 << 10;

/// Maximum ids that a scratch buffer keeps; a larger buffer is freed.
const KEPT_IDS: usize = 1 << 18;

/// Encoder of the crate: appends the ids of a text between two cuts.
pub(in super::super) type Fallback<'a> = &'a mut dyn FnMut(&str, &mut Vec<u32>) -> Result<()>;

/// Fast tokenizer: tables that threads share.
pub(in super::super) trait FastTokenizer: Send + Sync {
    /// Returns the display name: `WordPiece by AVX-512`.
    fn name(&self) -> String;

    /// Returns the last position of `text` at or before `near` at which it may be cut: 0 if there is none.
    fn cut_before(&self, text: &str, near: usize) -> usize;

    /// Returns the first position of `text` at or after `near` at which it may be cut: its end if there is none.
    fn cut_behind(&self, text: &str, near: usize) -> usize;

    /// Creates the caches of one thread.
    fn worker(&self) -> Box<dyn Worker>;
}

/// Encoder of one thread.
pub(in super::super) trait Worker: Send {
    /// Appends the ids of `text`, which is a whole text or the part between two cuts of one.
    fn append(&mut self, text: &str, ids: &mut Vec<u32>, fallback: Fallback<'_>) -> Result<()>;

    /// Appends the ids of `text`, and at each of `marks` appends the current number of `ids` to `lengths`. `marks` are
    /// ascending positions at which `text` may be cut.
    fn append_marked(
        &mut self,
        text: &str,
        marks: &[usize],
        ids: &mut Vec<u32>,
        lengths: &mut Vec<usize>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        let mut at = 0;
        for &mark in marks {
            self.append(&text[at..mark], ids, fallback)?;
            lengths.push(ids.len());
            at = mark;
        }
        self.append(&text[at..], ids, fallback)
    }

    /// Appends the ids of each of `texts`, and after each the current number of ids to `lengths`.
    fn append_texts(
        &mut self,
        texts: Texts<'_>,
        ids: &mut Vec<u32>,
        lengths: &mut Vec<usize>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        for text in texts.iter() {
            self.append(text, ids, fallback)?;
            lengths.push(ids.len());
        }
        Ok(())
    }
}

/// Worker and its buffers, reused so that no document allocates.
pub(in super::super) struct Scratch {
    worker: Box<dyn Worker>,
    ids: Vec<u32>,
    marks: Vec<usize>,
    lengths: Vec<usize>,
}

impl Scratch {
    pub(in super::super) fn new(tokenizer: &dyn FastTokenizer) -> Self {
        Self { worker: tokenizer.worker(), ids: Vec::new(), marks: Vec::new(), lengths: Vec::new() }
    }

    /// Passes on the ids of `text`, one block at a time.
    pub(in super::super) fn encode(
        &mut self,
        tokenizer: &dyn FastTokenizer,
        text: &str,
        fallback: Fallback<'_>,
        pieces: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let (block, tail) = rest.split_at(block_len(tokenizer, rest));
            self.ids.clear();
            self.worker.append(block, &mut self.ids, fallback)?;
            pieces(&self.ids)?;
            rest = tail;
        }
        self.ids.shrink_to(KEPT_IDS);
        Ok(())
    }

    /// Appends the ids of each of `texts`, which are short.
    pub(in super::super) fn encode_texts(
        &mut self,
        texts: Texts<'_>,
        ids: &mut Vec<u32>,
        lengths: &mut Vec<usize>,
        fallback: Fallback<'_>,
    ) -> Result<()> {
        self.worker.append_texts(texts, ids, lengths, fallback)
    }

    /// Passes on the ids of `text`, run by run, as [`Tokenizer::encode_runs`](crate::tokenize::Tokenizer::encode_runs)
    /// does. A run nearly always begins at a cut. Only for a chunk with a start inside does the crate return the
    /// position of each token.
    pub(in super::super) fn encode_runs(
        &mut self,
        tokenizer: &dyn FastTokenizer,
        text: &str,
        mut starts: &[usize],
        fallback: Fallback<'_>,
        tokens: &dyn Fn(&str) -> Result<Tokens>,
        runs: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        self.ids.clear();
        let mut at = 0;
        while at < text.len() {
            let end = at + block_len(tokenizer, &text[at..]);
            at = self.up_to_start_inside(tokenizer, text, at..end, &mut starts, fallback, runs)?;
            if at < end {
                // A start is inside this chunk.
                let chunk = &text[at..tokenizer.cut_behind(text, starts[0])];
                for (begin, id) in tokens(chunk)? {
                    end_runs(&mut starts, at + begin, &mut self.ids, runs)?;
                    self.ids.push(id);
                }
                at += chunk.len();
            }
        }
        end_runs(&mut starts, text.len(), &mut self.ids, runs)?;
        runs(&self.ids)?;
        self.ids.shrink_to(KEPT_IDS);
        Ok(())
    }

    /// Encodes `text[range]` as far as all starts in it are cuts. Returns the start of a chunk that contains one that
    /// is not a cut.
    fn up_to_start_inside(
        &mut self,
        tokenizer: &dyn FastTokenizer,
        text: &str,
        range: Range<usize>,
        starts: &mut &[usize],
        fallback: Fallback<'_>,
        runs: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<usize> {
        let at = range.start;
        let mut end = range.end;
        self.marks.clear();
        self.lengths.clear();
        for start in starts.iter().map(|&start| start.max(at)).take_while(|&start| start < end) {
            let cut = tokenizer.cut_before(text, start).max(at);
            if cut < start {
                end = cut;
                break;
            }
            self.marks.push(start - at);
        }
        self.worker.append_marked(&text[at..end], &self.marks, &mut self.ids, &mut self.lengths, fallback)?;
        let mut from = 0;
        for &length in &self.lengths {
            runs(&self.ids[from..length])?;
            from = length;
        }
        self.ids.drain(..from);
        *starts = &starts[self.marks.len()..];
        Ok(end)
    }
}

/// Returns the bytes of the longest block of `text` that is encoded as a whole, if it is longer than the default.
pub(in super::super) fn longest_piece(tokenizer: &dyn FastTokenizer, text: &str) -> usize {
    let mut at = 0;
    let mut longest = 0;
    while at < text.len() {
        let end = tokenizer.cut_behind(text, at + 1);
        longest = longest.max(end - at);
        at = end;
    }
    longest
}

/// Returns the length of the first block.
fn block_len(tokenizer: &dyn FastTokenizer, text: &str) -> usize {
    if text.len() <= BLOCK_BYTES {
        return text.len();
    }
    match tokenizer.cut_before(text, BLOCK_BYTES) {
        0 => tokenizer.cut_behind(text, BLOCK_BYTES),
        cut => cut,
    }
}
