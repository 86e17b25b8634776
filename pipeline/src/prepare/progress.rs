//! What a run lets others see while it works.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::PreparePlan;
use crate::actor::Gauges;
use crate::corpus::Part;

/// Counters that grow while lanes work; any thread may look.
#[derive(Debug)]
pub struct Progress {
    /// Bytes on disk of all parts.
    pub bytes_total: u64,
    /// Number of parts.
    pub parts_total: u64,
    bytes: AtomicU64,
    text_bytes: AtomicU64,
    tokens: AtomicU64,
    parts: AtomicU64,
}

impl Progress {
    pub(super) fn new(parts: &[Part]) -> Self {
        Self {
            bytes_total: parts.iter().map(|part| part.bytes).sum(),
            parts_total: parts.len() as u64,
            bytes: AtomicU64::new(0),
            text_bytes: AtomicU64::new(0),
            tokens: AtomicU64::new(0),
            parts: AtomicU64::new(0),
        }
    }

    /// Bytes on disk of the finished parts: what an estimate of the end goes by.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
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

    pub(super) fn add_text(&self, bytes: usize, tokens: u64) {
        self.text_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    pub(super) fn finish_part(&self, part: &Part) {
        self.bytes.fetch_add(part.bytes, Ordering::Relaxed);
        self.parts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Someone who watches a run. Called by the thread that runs it.
pub trait Observer {
    /// The lanes have started. `progress` and `gauges` may be kept and read from another thread.
    fn began(&mut self, plan: &PreparePlan, progress: &Arc<Progress>, gauges: Gauges) {
        let _ = (plan, progress, gauges);
    }

    /// One more part was folded, in order.
    fn part_done(&mut self, progress: &Progress) {
        let _ = progress;
    }
}

/// An observer that does not care.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Observer for Silent {}
