//! Counts of a run's progress, and busy time by stage.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use runtime::spans::SPANS;
use telemetry::preparation::PrepareProgress;
use telemetry::{Clock, EventKind, Observer, Position};
use tracing::{Span, trace_span};

use super::reject_stats::RejectStats;
use crate::Result;
use crate::corpus::{BytesRead, Part};

/// Counters that workers increment.
#[derive(Debug)]
pub(super) struct Progress {
    bytes_total: u64,
    parts_total: u64,
    read: BytesRead,
    // Bytes on disk of finished parts that were not read in this run.
    kept: AtomicU64,
    text_bytes: AtomicU64,
    tokens: AtomicU64,
    // Finished parts, including those of earlier runs.
    parts: AtomicU64,
    rejects: RejectStats,
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
            rejects: RejectStats::default(),
        }
    }

    /// Returns the counts of bad lines.
    pub(super) fn reject_stats(&self) -> &RejectStats {
        &self.rejects
    }

    /// Rejects a corpus with too many bad lines, before the rest is read.
    pub(super) fn check_rejects(&self, max_bad_lines: Option<u64>) -> Result<()> {
        let done = self.kept.load(Ordering::Relaxed) + self.read.get();
        self.rejects.check(max_bad_lines, done as f64 / self.bytes_total.max(1) as f64)
    }

    /// Bytes of files that were read in this run.
    pub(super) fn bytes_read(&self) -> u64 {
        self.read.get()
    }

    /// Bytes of text tokenized in this run.
    pub(super) fn text_bytes(&self) -> u64 {
        self.text_bytes.load(Ordering::Relaxed)
    }

    /// Returns the progress of a run after that time.
    pub(super) fn at(&self, elapsed: Duration) -> PrepareProgress {
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
        counts.with_elapsed(elapsed.as_secs_f64())
    }

    /// Creates a byte counter for one part that also adds to the total.
    pub(super) fn part(&self) -> BytesRead {
        self.read.part()
    }

    pub(super) fn add_text(&self, bytes: usize, tokens: u64) {
        self.text_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
        self.tokens.fetch_add(tokens, Ordering::Relaxed);
    }

    /// Counts the unread bytes of a finished part as done.
    pub(super) fn finish_part(&self, part: &Part, read: &BytesRead) {
        self.kept.fetch_add(part.bytes.saturating_sub(read.get()), Ordering::Relaxed);
        self.parts.fetch_add(1, Ordering::Relaxed);
    }
}

/// Sink for the events of a run, with timestamps.
pub(super) struct EventSink<'a> {
    pub(super) clock: &'a Clock,
    pub(super) observer: &'a mut dyn Observer,
}

impl EventSink<'_> {
    pub(super) fn emit(&mut self, what: EventKind) {
        self.observer.observe(&self.clock.event(Position::default(), what));
    }
}

/// Stages of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading, decompressing and cleaning.
    Read,
    /// Conversion of text to ids.
    Tokenize,
    /// Conversion of ids to samples, including document statistics.
    Pack,
    /// Writing of samples to the store as Parquet.
    Write,
}

/// Busy time of each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// Busy time in [`Stage::Read`].
    pub read: Duration,
    /// Busy time in [`Stage::Tokenize`].
    pub tokenize: Duration,
    /// Busy time in [`Stage::Pack`].
    pub pack: Duration,
    /// Busy time in [`Stage::Write`].
    pub write: Duration,
}

impl Stages {
    /// Adds another part's times.
    pub fn add(&mut self, other: &Self) {
        self.read += other.read;
        self.tokenize += other.tokenize;
        self.pack += other.pack;
        self.write += other.write;
    }

    /// Returns the stage with the longest busy time.
    #[must_use]
    pub fn slowest(&self) -> Stage {
        let stages = [
            (self.read, Stage::Read),
            (self.tokenize, Stage::Tokenize),
            (self.pack, Stage::Pack),
            (self.write, Stage::Write),
        ];
        stages.into_iter().max_by_key(|&(time, _)| time).map_or(Stage::Read, |(_, stage)| stage)
    }
}

/// Timer that always runs for exactly one stage.
#[derive(Debug)]
pub(super) struct Stopwatch {
    now: Cell<Stage>,
    since: Cell<Instant>,
    stages: Cell<Stages>,
    /// Trace span of each stage, entered while its timer runs.
    spans: [Span; 4],
}

impl Stopwatch {
    /// Starts with `stage`, on the thread that does the work.
    pub(super) fn start(stage: Stage) -> Self {
        // A stage changes several times per document, so all documents share one span per stage.
        let spans = [
            trace_span!(target: SPANS, "read", often = true),
            trace_span!(target: SPANS, "tokenize", often = true),
            trace_span!(target: SPANS, "pack", often = true),
            trace_span!(target: SPANS, "write", often = true),
        ];
        let watch = Self { now: Cell::new(stage), since: Cell::new(Instant::now()), stages: Cell::default(), spans };
        watch.set_stage(stage);
        watch
    }

    fn span(&self, stage: Stage) -> &Span {
        &self.spans[stage as usize]
    }

    fn set_stage(&self, stage: Stage) {
        self.span(stage).with_subscriber(|(id, listener)| listener.enter(id));
    }

    fn leave(&self, stage: Stage) {
        self.span(stage).with_subscriber(|(id, listener)| listener.exit(id));
    }

    /// Runs `work` on the timer of `stage`, then returns to the previous stage.
    pub(super) fn during<T>(&self, stage: Stage, work: impl FnOnce() -> T) -> T {
        let before = self.switch(stage);
        let value = work();
        self.switch(before);
        value
    }

    fn switch(&self, stage: Stage) -> Stage {
        let now = Instant::now();
        let mut stages = self.stages.get();
        let clock = match self.now.get() {
            Stage::Read => &mut stages.read,
            Stage::Tokenize => &mut stages.tokenize,
            Stage::Pack => &mut stages.pack,
            Stage::Write => &mut stages.write,
        };
        *clock += now - self.since.replace(now);
        self.stages.set(stages);
        self.leave(self.now.get());
        self.set_stage(stage);
        self.now.replace(stage)
    }

    pub(super) fn read(&self) -> Stages {
        self.switch(self.now.get());
        self.stages.get()
    }
}

impl Drop for Stopwatch {
    fn drop(&mut self) {
        self.leave(self.now.get());
    }
}

#[cfg(test)]
mod tests {
    use schemas::PartId;

    use super::*;

    #[test]
    fn lines_of_finished_parts_count_for_the_limit_of_bad_lines() {
        let part = |id, bytes| Part { id: PartId(id), bytes, pieces: Vec::new() };
        let parts = [part(0, 1_000_000), part(1, 1000)];
        let complaints = || (0..2900).map(|line| ("broken_json".to_owned(), format!("b.jsonl:{line}"))).collect();
        let interrupted = Progress::new(parts.iter());
        interrupted.reject_stats().add(3_100_000, Vec::new());
        interrupted.finish_part(&parts[0], &interrupted.part());
        interrupted.reject_stats().add(3000, complaints());
        interrupted.check_rejects(None).expect("0.1 % of all lines");
        let alone = Progress::new(parts[1..].iter());
        alone.reject_stats().add(3000, complaints());
        alone.finish_part(&parts[1], &alone.part());
        alone.check_rejects(None).expect_err("nearly all lines");
    }
}
