//! Token ids to samples, within a part and never across.
//!
//! `block` packing (objectives.md 1.1): documents in order, a separator between two of them, cut into runs of
//! `tokens_max − 2`; the frame adds the outer tokens. Only the last run may be shorter. A document that begins where a
//! run begins has no separator before it: the frame already ends the row before.

use crate::Result;

/// One packed sample, borrowed from the packer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// Content tokens, at least one.
    pub input_ids: &'a [u32],
    /// Where each document begins; the first is 0.
    pub document_starts: &'a [u16],
    /// The documents' names.
    pub documents: &'a [u64],
    /// Source of the first document.
    pub source: u16,
}

/// Where samples go.
pub type Sink<'a> = &'a mut dyn FnMut(Packed<'_>) -> Result<()>;

/// The one open sample of a split.
#[derive(Clone, Debug)]
pub struct Packer {
    content_max: usize,
    separator: u32,
    document: Option<(u64, u16)>,
    fresh: bool,
    input_ids: Vec<u32>,
    document_starts: Vec<u16>,
    documents: Vec<u64>,
    source: u16,
}

impl Packer {
    /// A packer of samples of `content_max` tokens.
    ///
    /// # Panics
    /// If `content_max` is 0 or above 65,535.
    #[must_use]
    pub fn new(content_max: u32, separator: u32) -> Self {
        assert!((1..=65_535).contains(&content_max), "starts are 16-bit");
        Self {
            content_max: content_max as usize,
            separator,
            document: None,
            fresh: false,
            input_ids: Vec::with_capacity(content_max as usize),
            document_starts: Vec::new(),
            documents: Vec::new(),
            source: 0,
        }
    }

    /// Begins a document; its tokens follow by [`extend`](Self::extend).
    pub fn begin(&mut self, document: u64, source: u16) {
        self.document = Some((document, source));
        self.fresh = true;
    }

    /// Appends tokens of the current document, handing over every sample that becomes full.
    ///
    /// # Panics
    /// If no document was begun.
    pub fn extend(&mut self, mut ids: &[u32], sink: Sink<'_>) -> Result<()> {
        while !ids.is_empty() {
            if self.fresh && !self.input_ids.is_empty() {
                self.input_ids.push(self.separator);
                self.flush_full(sink)?;
            }
            self.note_document();
            let room = self.content_max - self.input_ids.len();
            let (now, later) = ids.split_at(room.min(ids.len()));
            self.input_ids.extend_from_slice(now);
            ids = later;
            self.flush_full(sink)?;
        }
        Ok(())
    }

    /// Hands over what is left.
    pub fn finish(&mut self, sink: Sink<'_>) -> Result<()> {
        if self.input_ids.is_empty() { Ok(()) } else { self.flush(sink) }
    }

    /// Writes down where the current document begins in the open sample, once.
    fn note_document(&mut self) {
        let (document, source) = self.document.expect("`begin` comes first");
        if self.input_ids.is_empty() {
            self.source = source;
        } else if !self.fresh {
            return;
        }
        self.fresh = false;
        self.document_starts.push(u16::try_from(self.input_ids.len()).expect("checked by `new`"));
        self.documents.push(document);
    }

    fn flush_full(&mut self, sink: Sink<'_>) -> Result<()> {
        if self.input_ids.len() == self.content_max { self.flush(sink) } else { Ok(()) }
    }

    fn flush(&mut self, sink: Sink<'_>) -> Result<()> {
        let Self { input_ids, document_starts, documents, source, .. } = self;
        sink(Packed { input_ids, document_starts, documents, source: *source })?;
        input_ids.clear();
        document_starts.clear();
        documents.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const SEPARATOR: u32 = 0;

    type Owned = (Vec<u32>, Vec<u16>, Vec<u64>);

    /// Document `d` (from 1) of length n has tokens `100 d + 1 ..= 100 d + n`; each is handed over in pieces.
    fn pack(lengths: &[usize], content_max: u32, piece: usize) -> Vec<Owned> {
        let mut samples = Vec::new();
        let mut sink = |sample: Packed<'_>| {
            assert_eq!(u64::from(sample.source), sample.documents[0], "the source of the first document");
            samples.push((sample.input_ids.to_vec(), sample.document_starts.to_vec(), sample.documents.to_vec()));
            Ok(())
        };
        let mut packer = Packer::new(content_max, SEPARATOR);
        for (document, &length) in (1_u16..).zip(lengths) {
            packer.begin(u64::from(document), document);
            let ids: Vec<u32> =
                (1..=u32::try_from(length).expect("short")).map(|i| u32::from(document) * 100 + i).collect();
            for ids in ids.chunks(piece) {
                packer.extend(ids, &mut sink).expect("the sink never fails");
            }
        }
        packer.finish(&mut sink).expect("the sink never fails");
        samples
    }

    /// The laws of packing; `lengths` in, samples out.
    fn check(lengths: &[usize], content_max: u32, samples: &[Owned]) {
        let context = || format!("{lengths:?} into {content_max}: {samples:?}");
        let tokens: Vec<u32> = samples.iter().flat_map(|(ids, ..)| ids.iter().copied()).collect();
        let content: Vec<u32> = tokens.iter().copied().filter(|&id| id != SEPARATOR).collect();
        let expected: Vec<u32> =
            (1..).zip(lengths).flat_map(|(d, &n)| (1..).take(n).map(move |i| d * 100 + i)).collect();
        assert_eq!(content, expected, "tokens are conserved and in order: {}", context());
        for (index, (ids, starts, documents)) in samples.iter().enumerate() {
            let full = ids.len() == content_max as usize;
            assert!(full || (index + 1 == samples.len() && !ids.is_empty()), "only the last is short: {}", context());
            assert_eq!((starts.len(), starts[0]), (documents.len(), 0), "{}", context());
            assert_ne!(ids[0], SEPARATOR, "no row begins with a separator: {}", context());
            for (at, &id) in ids.iter().enumerate().filter(|&(_, &id)| id != SEPARATOR) {
                let owner = starts.partition_point(|&start| usize::from(start) <= at) - 1;
                assert_eq!(u64::from(id / 100), documents[owner], "every token knows its document: {}", context());
            }
            for &start in &starts[1..] {
                assert_eq!(ids[usize::from(start) - 1], SEPARATOR, "separators stand between documents: {}", context());
            }
            let last = index + 1 == samples.len() || ids[ids.len() - 1] != SEPARATOR;
            let separators = ids.iter().filter(|&&id| id == SEPARATOR).count();
            assert_eq!(separators, starts.len() - usize::from(last), "{}", context());
        }
    }

    #[test]
    fn every_packing_of_six_documents_of_four_tokens() {
        for count in 0..=6_u32 {
            for code in 0..5_usize.pow(count) {
                let lengths: Vec<usize> = (0..count).map(|digit| code / 5_usize.pow(digit) % 5).collect();
                for content_max in [1, 2, 3, 4, 5, 7] {
                    let samples = pack(&lengths, content_max, 4);
                    check(&lengths, content_max, &samples);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn packing_conserves_tokens(lengths in prop::collection::vec(0_usize..60, 0..30), content_max in 1_u32..90, piece in 1_usize..40) {
            let samples = pack(&lengths, content_max, piece);
            check(&lengths, content_max, &samples);
            prop_assert_eq!(samples, pack(&lengths, content_max, 1000), "pieces leave no trace");
        }
    }

    #[test]
    fn a_separator_stands_between_two_documents_of_a_row() {
        let samples = pack(&[2, 3, 1], 4, 10);
        let expected =
            [(vec![101, 102, 0, 201], vec![0, 3], vec![1, 2]), (vec![202, 203, 0, 301], vec![0, 3], vec![2, 3])];
        assert_eq!(samples, expected);
    }
}
