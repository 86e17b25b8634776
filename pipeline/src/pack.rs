//! Token ids to samples, within a part and never across.
//!
//! Four styles, each between [`begin`](Packer::begin) and [`end`](Packer::end) of its documents:
//!
//! - `block`: documents in order, a separator between two of them, cut into runs of `tokens_max − 2`; the frame adds
//!   the outer tokens. Only the last run may be shorter. A document that begins where a run begins has no separator
//!   before it: the frame already ends the row before.
//! - `taco`: documents in order, each as `[CLS]` … `[SEP]`, cut into runs of exactly `tokens_max`, wherever that falls;
//!   the rest at the end of a part is dropped. The frame adds nothing.
//! - `document`: a run is the first `tokens_max − 2` tokens of a document; what is cut is counted.
//! - `sentences`: a run is as many whole sentences of one document as fit `tokens_max − 3`. A longer sentence is cut
//!   there; its last piece goes on like a sentence.

use schemas::SpecialIds;
use schemas::manifest::{Pack, PackReport};

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
    /// Where each sentence begins; nothing unless the style keeps sentences.
    pub sentence_starts: &'a [u16],
    /// Source of the first document.
    pub source: u16,
}

/// Where samples go.
pub type Sink<'a> = &'a mut dyn FnMut(Packed<'_>) -> Result<()>;

/// The one open sample of a split.
#[derive(Clone, Debug)]
pub struct Packer {
    pack: Pack,
    content_max: usize,
    special: SpecialIds,
    document: Option<(u64, u16)>,
    /// Whether no token of the document has come yet.
    fresh: bool,
    /// Whether some token of the document was thrown away.
    cut: bool,
    input_ids: Vec<u32>,
    document_starts: Vec<u16>,
    documents: Vec<u64>,
    sentence_starts: Vec<u16>,
    source: u16,
    report: PackReport,
}

impl Packer {
    /// A packer of samples for rows of `tokens_max`.
    ///
    /// # Panics
    /// If these have room for no content token, or for more than 65,535.
    #[must_use]
    pub fn new(pack: Pack, tokens_max: u32, special: SpecialIds) -> Self {
        let content_max = pack.content(tokens_max);
        assert!((1..=65_535).contains(&content_max), "starts are 16-bit");
        Self {
            pack,
            content_max: content_max as usize,
            special,
            document: None,
            fresh: false,
            cut: false,
            input_ids: Vec::with_capacity(content_max as usize),
            document_starts: Vec::new(),
            documents: Vec::new(),
            sentence_starts: Vec::new(),
            source: 0,
            report: PackReport::default(),
        }
    }

    /// Begins a document; its tokens follow by [`extend`](Self::extend).
    pub fn begin(&mut self, document: u64, source: u16) {
        self.document = Some((document, source));
        self.fresh = true;
        self.cut = false;
    }

    /// Appends tokens of the current document, handing over every sample that becomes full. If the style keeps
    /// sentences, `ids` are those of one sentence; otherwise it does not matter where they are cut.
    ///
    /// # Panics
    /// If no document was begun.
    pub fn extend(&mut self, ids: &[u32], sink: Sink<'_>) -> Result<()> {
        if ids.is_empty() {
            return Ok(());
        }
        match self.pack {
            Pack::Block => {
                if self.fresh && !self.input_ids.is_empty() {
                    self.input_ids.push(self.special.sep);
                    self.flush_full(sink)?;
                }
                self.fill(ids, sink)
            }
            Pack::Taco => {
                if self.fresh {
                    self.fill(&[self.special.cls], sink)?;
                }
                self.fill(ids, sink)
            }
            Pack::Document => {
                let room = self.content_max - self.input_ids.len();
                let (kept, cut) = ids.split_at(room.min(ids.len()));
                self.note_document();
                self.input_ids.extend_from_slice(kept);
                self.cut |= !cut.is_empty();
                self.report.cut_tokens += cut.len() as u64;
                Ok(())
            }
            Pack::Sentences => self.sentence(ids, sink),
        }
    }

    /// Ends the document.
    pub fn end(&mut self, sink: Sink<'_>) -> Result<()> {
        match self.pack {
            Pack::Block => Ok(()),
            // A document without tokens has no frame either.
            Pack::Taco if self.fresh => Ok(()),
            Pack::Taco => self.fill(&[self.special.sep], sink),
            Pack::Document | Pack::Sentences => {
                self.report.cut_documents += u64::from(self.cut);
                self.flush_rest(sink)
            }
        }
    }

    /// Hands over what is left, or drops it, as the style says. Returns what was found and cut.
    pub fn finish(mut self, sink: Sink<'_>) -> Result<PackReport> {
        if self.pack == Pack::Taco {
            self.report.cut_tokens += self.input_ids.len() as u64;
        } else {
            self.flush_rest(sink)?;
        }
        Ok(self.report)
    }

    /// Appends tokens, from one sample to the next.
    fn fill(&mut self, mut ids: &[u32], sink: Sink<'_>) -> Result<()> {
        while !ids.is_empty() {
            self.note_document();
            let room = self.content_max - self.input_ids.len();
            let (now, later) = ids.split_at(room.min(ids.len()));
            self.input_ids.extend_from_slice(now);
            ids = later;
            self.flush_full(sink)?;
        }
        Ok(())
    }

    /// Appends a sentence, to a sample of its own if it does not fit the open one.
    fn sentence(&mut self, ids: &[u32], sink: Sink<'_>) -> Result<()> {
        self.report.sentences += 1;
        self.report.cut_sentences += u64::from(ids.len() > self.content_max);
        for piece in ids.chunks(self.content_max) {
            if self.input_ids.len() + piece.len() > self.content_max {
                self.flush_rest(sink)?;
            }
            self.note_document();
            self.sentence_starts.push(start(self.input_ids.len()));
            self.input_ids.extend_from_slice(piece);
        }
        Ok(())
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
        self.document_starts.push(start(self.input_ids.len()));
        self.documents.push(document);
    }

    fn flush_full(&mut self, sink: Sink<'_>) -> Result<()> {
        if self.input_ids.len() == self.content_max { self.flush(sink) } else { Ok(()) }
    }

    fn flush_rest(&mut self, sink: Sink<'_>) -> Result<()> {
        if self.input_ids.is_empty() { Ok(()) } else { self.flush(sink) }
    }

    fn flush(&mut self, sink: Sink<'_>) -> Result<()> {
        let Self { input_ids, document_starts, documents, sentence_starts, source, .. } = self;
        sink(Packed { input_ids, document_starts, documents, sentence_starts, source: *source })?;
        input_ids.clear();
        document_starts.clear();
        documents.clear();
        sentence_starts.clear();
        Ok(())
    }
}

fn start(index: usize) -> u16 {
    u16::try_from(index).expect("checked by `new`")
}

#[cfg(test)]
mod tests;
