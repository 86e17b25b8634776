//! What a run says while it works, and the counts behind it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use telemetry::preparation::PrepareProgress;
use telemetry::{At, Clock, Observer, What};

use super::dirt::Dirt;
use crate::Result;
use crate::corpus::{BytesRead, Part};

/// Counters that grow while lanes work.
#[derive(Debug)]
pub(super) struct Progress {
    bytes_total: u64,
    parts_total: u64,
    read: BytesRead,
    // Bytes on disk of finished parts that were not read in this run.
    kept: AtomicU64,
    text_bytes: AtomicU64,
    tokens: AtomicU64,
    // Finished parts, those of earlier runs among them.
    parts: AtomicU64,
    dirt: Dirt,
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
            dirt: Dirt::default(),
        }
    }

    /// What is wrong with the lines that are read.
    pub(super) fn dirt(&self) -> &Dirt {
        &self.dirt
    }

    /// Refuses a corpus that is too dirty whatever follows.
    pub(super) fn judge(&self, bad_lines_max: Option<u64>) -> Result<()> {
        // Parts that were there already are none of these lines.
        let total = self.bytes_total.saturating_sub(self.kept.load(Ordering::Relaxed)).max(1);
        self.dirt.judge(bad_lines_max, self.read.get() as f64 / total as f64)
    }

    /// Bytes of files that were read in this run.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    /// Bytes of text tokenized in this run.
    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes.load(Ordering::Relaxed)
    }

    /// How far a run is that has lasted so long.
    pub(super) fn after(&self, elapsed: Duration) -> PrepareProgress {
        let kept = self.kept.load(Ordering::Relaxed).min(self.bytes_total);
        let counts = PrepareProgress {
            bytes: (kept + self.read.get()).min(self.bytes_total),
            bytes_kept: kept,
            bytes_total: self.bytes_total,
            parts: self.parts.load(Ordering::Relaxed),
            parts_total: self.parts_total,
            text_bytes: self.text_bytes(),
            tokens: self.tokens.load(Ordering::Relaxed),
            ..PrepareProgress::default()
        };
        counts.after(elapsed.as_secs_f64())
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

/// Who says what a run does: stamps it, and tells it.
pub(super) struct Voice<'a> {
    pub(super) clock: &'a Clock,
    pub(super) observer: &'a mut dyn Observer,
}

impl Voice<'_> {
    pub(super) fn say(&mut self, what: What) {
        self.observer.observe(&self.clock.event(At::default(), what));
    }
}
