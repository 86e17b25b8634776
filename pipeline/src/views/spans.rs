//! Rows of two segments: shared code of [`pair`](super::pair) and [`segments`](super::segments).

use std::ops::Range;

use schemas::columns::{DOCUMENT, ORIGIN, TOKEN_TYPES};
use schemas::{Sample, Vocab};

use crate::rng::Rng;
use crate::row::{RowMut, write_documents};

/// Run of a sample's tokens, with the offset that makes their positions origins.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span<'a> {
    sample: Sample<'a>,
    base: usize,
}

impl<'a> Span<'a> {
    /// Creates the tokens `range` of `sample`; `base` tokens of other samples precede it in the row's list of samples.
    pub(super) fn new(sample: &Sample<'a>, range: Range<usize>, base: usize) -> Self {
        Self { sample: sample.slice(range), base }
    }

    pub(super) fn len(&self) -> usize {
        self.sample.input_ids.len()
    }

    /// Returns its first `length` tokens, or all if there are fewer.
    pub(super) fn first(&self, length: usize) -> Self {
        Self { sample: self.sample.slice(0..length.min(self.len())), base: self.base }
    }
}

/// Returns the number of tokens of all spans.
pub(super) fn length(spans: &[Span<'_>]) -> usize {
    spans.iter().map(Span::len).sum()
}

/// Writes `[CLS] A [SEP] B [SEP]` and padding, with `separators` before B; `[CLS] A [SEP]` if B is empty. Writes origin, document and token types
/// only if they are read.
pub(super) fn write(row: &mut RowMut<'_>, vocab: &Vocab, a: &[Span<'_>], b: &[Span<'_>], separators: usize) {
    let special = vocab.special();
    let [cls, sep, pad] = [special.cls, special.sep, special.pad].map(u32::cast_signed);
    let length_b = length(b);
    let first_end = length(a) + 2;
    let second = if length_b == 0 { first_end } else { first_end + separators - 1 };
    row.tokens = if length_b == 0 { second } else { second + length_b + 1 };
    let placed = place(1, a).chain(place(second, b));

    row.input_ids.fill(pad);
    row.input_ids[0] = cls;
    row.input_ids[first_end - 1..second].fill(sep);
    row.input_ids[row.tokens - 1] = sep;
    placed.clone().for_each(|(cells, span)| span.sample.input_ids.copy_into(&mut row.input_ids[cells]));
    if let Some(origin) = row.cells.get(ORIGIN) {
        origin.fill(-1);
        for (cells, span) in placed.clone() {
            let first = i16::try_from(span.base + usize::from(span.sample.offset)).unwrap_or(i16::MAX);
            origin[cells].iter_mut().zip(first..).for_each(|(slot, index)| *slot = index);
        }
    }
    if let Some(document) = row.cells.get(DOCUMENT) {
        document.fill(-1);
        placed.for_each(|(cells, span)| write_documents(&span.sample, &mut document[cells]));
    }
    if let Some(token_types) = row.cells.get(TOKEN_TYPES) {
        token_types.fill(0);
        token_types[second..row.tokens].fill(1);
    }
}

/// Returns the cells of each span, one after another from `first` on.
fn place<'s, 'a>(
    first: usize,
    spans: &'s [Span<'a>],
) -> impl Iterator<Item = (Range<usize>, &'s Span<'a>)> + Clone + use<'s, 'a> {
    spans.iter().scan(first, |end, span| {
        let begin = *end;
        *end += span.len();
        Some((begin..*end, span))
    })
}

/// Sentences of a sample; a sample without sentence starts is one sentence.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sentences<'a> {
    starts: &'a [u16],
    tokens: usize,
}

impl<'a> Sentences<'a> {
    pub(super) fn new(sample: &Sample<'a>) -> Self {
        Self { starts: sample.sentence_starts, tokens: sample.input_ids.len() }
    }

    pub(super) fn count(&self) -> usize {
        self.starts.len().max(1)
    }

    /// Returns the start of sentence `index`; the end of the sample for `index = count`.
    pub(super) fn bound(&self, index: usize) -> usize {
        if index == 0 { 0 } else { self.starts.get(index).map_or(self.tokens, |&start| usize::from(start)) }
    }

    /// Returns the end of the shortest run of sentences from `first` on that has at least `target` tokens: at least one
    /// sentence, or all remaining ones.
    pub(super) fn until(&self, first: usize, target: usize) -> usize {
        let begin = self.bound(first);
        (first + 1..self.count()).find(|&end| self.bound(end) - begin >= target).unwrap_or(self.count())
    }
}

/// Returns a uniform number of `0..count`.
pub(super) fn below(rng: &mut Rng, count: usize) -> usize {
    rng.below(u32::try_from(count).expect("a row has fewer than 2^32 tokens")) as usize
}

/// Returns the lengths of two texts of `a` and `b` tokens in a row that has `room` for both.
#[must_use]
pub fn truncated(a: usize, b: usize, room: usize) -> (usize, usize) {
    let half = room / 2;
    if a + b <= room {
        (a, b)
    } else if b <= half {
        (room - b, b)
    } else if a <= room - half {
        (a, room - a)
    } else {
        (room - half, half)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The rule of BERT's `run_classifier.py`, token by token.
        #[test]
        fn the_longer_text_is_truncated_first(a in 0_usize..40, b in 0_usize..40, room in 0_usize..60) {
            let (mut first, mut second) = (a, b);
            while first + second > room {
                if first > second { first -= 1 } else { second -= 1 }
            }
            prop_assert_eq!(truncated(a, b, room), (first, second));
        }
    }
}
