//! What a path is, and how a text is taken through one: in stretches of bounded length, or in runs.

use super::super::Texts;
use super::super::runs::{Tokens, end_runs};
use crate::Result;

/// Text that is taken in at a time: some four thousand ids, few enough for the first-level cache.
const STRETCH_BYTES: usize = 16 << 10;

/// Ids that a bench keeps room for: what a text without a cut took is given back.
const KEPT_IDS: usize = 1 << 18;

/// Encodes by the crate: appends the ids of a text that stands between two cuts.
pub(in super::super) type Slow<'a> = &'a mut dyn FnMut(&str, &mut Vec<u32>) -> Result<()>;

/// A tokenizer that is understood, as tables that threads share.
pub(in super::super) trait Path: Send + Sync {
    /// What it is, for people: `WordPiece by AVX-512`.
    fn name(&self) -> String;

    /// The last place of `text` at or before `near` where it may be cut: 0 if there is none.
    fn cut_before(&self, text: &str, near: usize) -> usize;

    /// The first place of `text` at or behind `near` where it may be cut: its end if there is none.
    fn cut_behind(&self, text: &str, near: usize) -> usize;

    /// Caches for one thread.
    fn worker(&self) -> Box<dyn Worker>;
}

/// What a thread encodes with.
pub(in super::super) trait Worker: Send {
    /// Appends the ids of `text`, which is a whole text or lies between two cuts of one.
    fn append(&mut self, text: &str, ids: &mut Vec<u32>, slow: Slow<'_>) -> Result<()>;

    /// The same, and at each of `marks`, places in ascending order where `text` may be cut, appends to `lengths` how
    /// many `ids` there were.
    fn append_marked(
        &mut self,
        text: &str,
        marks: &[usize],
        (ids, lengths): (&mut Vec<u32>, &mut Vec<usize>),
        slow: Slow<'_>,
    ) -> Result<()> {
        let mut at = 0;
        for &mark in marks {
            self.append(&text[at..mark], ids, slow)?;
            lengths.push(ids.len());
            at = mark;
        }
        self.append(&text[at..], ids, slow)
    }

    /// Appends the ids of each of `texts`, and to `lengths` how many there are then.
    fn append_texts(
        &mut self,
        texts: Texts<'_>,
        (ids, lengths): (&mut Vec<u32>, &mut Vec<usize>),
        slow: Slow<'_>,
    ) -> Result<()> {
        for text in texts.iter() {
            self.append(text, ids, slow)?;
            lengths.push(ids.len());
        }
        Ok(())
    }
}

/// A worker and its buffers: nothing is allocated for a document.
pub(in super::super) struct Bench {
    worker: Box<dyn Worker>,
    ids: Vec<u32>,
    marks: Vec<usize>,
    lengths: Vec<usize>,
}

impl Bench {
    pub(in super::super) fn of(path: &dyn Path) -> Self {
        Self { worker: path.worker(), ids: Vec::new(), marks: Vec::new(), lengths: Vec::new() }
    }

    /// Hands over the ids of `text`, stretch by stretch.
    pub(in super::super) fn encode(
        &mut self,
        (path, text): (&dyn Path, &str),
        slow: Slow<'_>,
        pieces: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let mut rest = text;
        while !rest.is_empty() {
            let (stretch, tail) = rest.split_at(stretch(path, rest));
            self.ids.clear();
            self.worker.append(stretch, &mut self.ids, slow)?;
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
        ids: (&mut Vec<u32>, &mut Vec<usize>),
        slow: Slow<'_>,
    ) -> Result<()> {
        self.worker.append_texts(texts, ids, slow)
    }

    /// Hands over the ids of `text`, run by run, as [`Tokenizer::encode_runs`](crate::tokenize::Tokenizer::encode_runs) does. A run
    /// begins at a cut, as good as always; only a chunk with a start inside is asked where each of its tokens begins.
    pub(in super::super) fn encode_runs(
        &mut self,
        (path, text, mut starts): (&dyn Path, &str, &[usize]),
        slow: Slow<'_>,
        tokens: &dyn Fn(&str) -> Result<Tokens>,
        runs: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        self.ids.clear();
        let mut at = 0;
        while at < text.len() {
            let end = at + stretch(path, &text[at..]);
            at = self.up_to_start_inside((path, text, at, end), &mut starts, slow, runs)?;
            if at < end {
                // A start lies inside this chunk.
                let chunk = &text[at..path.cut_behind(text, starts[0])];
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

    /// Takes in `text[at..end]` as far as all starts in it are cuts. Returns where a chunk begins in which one is not.
    fn up_to_start_inside(
        &mut self,
        (path, text, at, mut end): (&dyn Path, &str, usize, usize),
        starts: &mut &[usize],
        slow: Slow<'_>,
        runs: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<usize> {
        self.marks.clear();
        self.lengths.clear();
        for start in starts.iter().map(|&start| start.max(at)).take_while(|&start| start < end) {
            let cut = path.cut_before(text, start).max(at);
            if cut < start {
                end = cut;
                break;
            }
            self.marks.push(start - at);
        }
        self.worker.append_marked(&text[at..end], &self.marks, (&mut self.ids, &mut self.lengths), slow)?;
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

/// Bytes of the longest stretch of `text` that is taken in as a whole, if it is longer than others.
pub(in super::super) fn longest_piece(path: &dyn Path, text: &str) -> usize {
    let (mut at, mut longest) = (0, 0);
    while at < text.len() {
        let end = path.cut_behind(text, at + 1);
        (at, longest) = (end, longest.max(end - at));
    }
    longest
}

/// The length of the first stretch.
fn stretch(path: &dyn Path, text: &str) -> usize {
    if text.len() <= STRETCH_BYTES {
        return text.len();
    }
    match path.cut_before(text, STRETCH_BYTES) {
        0 => path.cut_behind(text, STRETCH_BYTES),
        cut => cut,
    }
}
