//! What a run lets others see while it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::plan::PreparePlan;
use crate::actor::Gauges;
use crate::corpus::{BytesRead, Part};

/// Counters that grow while lanes work; any thread may look.
#[derive(Debug)]
pub struct Progress {
    /// Bytes on disk of all parts.
    pub bytes_total: u64,
    /// Number of parts.
    pub parts_total: u64,
    read: BytesRead,
    kept: AtomicU64,
    text_bytes: AtomicU64,
    tokens: AtomicU64,
    parts: AtomicU64,
}

impl Progress {
    pub(super) fn new<'a>(parts: impl Iterator<Item = &'a Part> + Clone) -> Self {
        Self {
            bytes_total: parts.clone().map(|part| part.bytes).sum(),
            parts_total: parts.count() as u64,
            read: BytesRead::default(),
            kept: AtomicU64::new(0),
            text_bytes: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            parts: AtomicU64::new(0),
        }
    }

    /// Bytes on disk that are done with: read, or of parts that were there. What an estimate of the end goes by.
    pub fn bytes(&self) -> u64 {
        (self.read.get() + self.kept.load(Ordering::Relaxed)).min(self.bytes_total)
    }

    /// Bytes of files that were read in this run.
    pub fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    /// Bytes of text tokenized in this run.
    pub fn text_bytes(&self) -> u64 {
        self.text_bytes.load(Ordering::Relaxed)
    }

    /// Tokens made in this run.
    pub fn tokens(&self) -> u64 {
        self.tokens.load(Ordering::Relaxed)
    }

    /// Finished parts, those of earlier runs among them.
    pub fn parts(&self) -> u64 {
        self.parts.load(Ordering::Relaxed)
    }

    /// A counter for one part, which counts here too.
    pub(super) fn part(&self) -> BytesRead {
        self.read.part()
    }

    pub(super) fn add_text(&self, bytes: usize, tokens: u64) {
        self.text_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// What was not read of a part that is finished counts as done.
    pub(super) fn finish_part(&self, part: &Part, read: &BytesRead) {
        self.kept.fetch_add(part.bytes.saturating_sub(read.get()), Ordering::Relaxed);
        self.parts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Someone who watches a run. Called by the thread that runs it.
pub trait Observer {
    /// The lanes have started. `progress` and `gauges` may be kept and read from another thread.
    fn began(&mut self, plan: &PreparePlan, progress: &Arc<Progress>, gauges: Gauges) {
        let _ = (plan, progress, gauges);
    }

    /// A part was finished, or some time has passed.
    fn progressed(&mut self, progress: &Progress) {
        let _ = progress;
    }
}

/// An observer that does not care.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Observer for Silent {}
