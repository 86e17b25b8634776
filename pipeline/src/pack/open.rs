//! Open sample of a split.

use schemas::SpecialIds;
use schemas::manifest::PackReport;

use crate::Result;

/// Packed sample, borrowed from the packer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packed<'a> {
    /// Content tokens, at least one.
    pub input_ids: &'a [u32],
    /// Start of each document; the first is 0.
    pub document_starts: &'a [u16],
    /// 64-bit document hashes.
    pub documents: &'a [u64],
    /// Start of each sentence; empty unless the packing keeps sentences.
    pub sentence_starts: &'a [u16],
    /// Target of a labelled example; empty without.
    pub targets: &'a [i32],
    /// Source of the first document.
    pub source: u16,
}

/// Callback that receives completed samples.
pub type SampleSink<'a> = &'a mut dyn FnMut(Packed<'_>) -> Result<()>;

/// Sample under construction, with the operations that packings use.
#[derive(Clone, Debug)]
pub struct OpenSample {
    content_max: usize,
    special: SpecialIds,
    document: Option<(u64, u16)>,
    /// True until the first token of the document.
    fresh: bool,
    /// True if a token of the document was dropped.
    cut: bool,
    input_ids: Vec<u32>,
    document_starts: Vec<u16>,
    documents: Vec<u64>,
    sentence_starts: Vec<u16>,
    source: u16,
    /// Number of samples emitted.
    handed: u64,
    /// Number of the sample in which the current document begins.
    began: u64,
    /// Counts of sentences and cuts.
    pub report: PackReport,
}

impl OpenSample {
    /// # Panics
    /// If a sample has no room for a content token, or room for more than 65,535.
    pub(super) fn new(content_max: u32, special: SpecialIds) -> Self {
        assert!((1..=65_535).contains(&content_max), "starts are 16-bit");
        Self {
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
            handed: 0,
            began: 0,
            report: PackReport::default(),
        }
    }

    pub(super) fn begin(&mut self, document: u64, source: u16) {
        self.document = Some((document, source));
        self.fresh = true;
        self.cut = false;
    }

    /// Returns the number of the sample in which the current document begins.
    pub(super) fn began(&self) -> u64 {
        self.began
    }

    /// Returns the special ids.
    #[must_use]
    pub fn special(&self) -> SpecialIds {
        self.special
    }

    /// Returns true until the first token of the current document.
    #[must_use]
    pub fn is_fresh(&self) -> bool {
        self.fresh
    }

    /// Returns the number of its tokens.
    #[must_use]
    pub fn len(&self) -> usize {
        self.input_ids.len()
    }

    /// Returns true if it has no tokens.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.input_ids.is_empty()
    }

    /// Returns the maximum number of its tokens.
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.content_max
    }

    /// Appends a separator between documents.
    pub fn separate(&mut self, id: u32, sink: SampleSink<'_>) -> Result<()> {
        self.input_ids.push(id);
        self.flush_full(sink)
    }

    /// Appends tokens of the current document, continuing in further samples.
    pub fn fill(&mut self, mut ids: &[u32], sink: SampleSink<'_>) -> Result<()> {
        while !ids.is_empty() {
            let room = self.content_max - self.input_ids.len();
            let (now, later) = ids.split_at(room.min(ids.len()));
            self.append(now);
            ids = later;
            self.flush_full(sink)?;
        }
        Ok(())
    }

    /// Appends tokens of the current document that are known to fit.
    pub fn append(&mut self, ids: &[u32]) {
        self.note_document();
        self.input_ids.extend_from_slice(ids);
    }

    /// Appends a sentence of the current document that is known to fit.
    pub fn append_sentence(&mut self, ids: &[u32]) {
        self.sentence_starts.push(start(self.input_ids.len()));
        self.append(ids);
    }

    /// Counts dropped tokens of the current document, and the document once.
    pub fn cut(&mut self, tokens: usize) {
        if tokens > 0 {
            self.report.cut_documents += u64::from(!self.cut);
            self.report.cut_tokens += tokens as u64;
            self.cut = true;
        }
    }

    /// Records the start of the current document in the open sample, once.
    fn note_document(&mut self) {
        let (document, source) = self.document.expect("`begin` comes first");
        if self.input_ids.is_empty() {
            self.source = source;
        } else if !self.fresh {
            return;
        }
        if self.fresh {
            self.began = self.handed;
        }
        self.fresh = false;
        self.document_starts.push(start(self.input_ids.len()));
        self.documents.push(document);
    }

    fn flush_full(&mut self, sink: SampleSink<'_>) -> Result<()> {
        if self.input_ids.len() == self.content_max { self.flush(sink) } else { Ok(()) }
    }

    /// Emits the sample if it has tokens.
    pub fn flush_rest(&mut self, sink: SampleSink<'_>) -> Result<()> {
        if self.input_ids.is_empty() { Ok(()) } else { self.flush(sink) }
    }

    fn flush(&mut self, sink: SampleSink<'_>) -> Result<()> {
        let Self { input_ids, document_starts, documents, sentence_starts, source, .. } = self;
        sink(Packed { input_ids, document_starts, documents, sentence_starts, targets: &[], source: *source })?;
        self.handed += 1;
        self.clear();
        Ok(())
    }

    /// Drops its tokens.
    pub fn clear(&mut self) {
        self.input_ids.clear();
        self.document_starts.clear();
        self.documents.clear();
        self.sentence_starts.clear();
    }
}

fn start(index: usize) -> u16 {
    u16::try_from(index).expect("checked by `new`")
}
