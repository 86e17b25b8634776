//! Progress of a run in counts, and busy time by stage.

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

/// Counters that grow while workers work.
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
    dirt: RejectStats,
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
            dirt: RejectStats::default(),
        }
    }

    /// What is wrong with the lines that are read.
    pub(super) fn dirt(&self) -> &RejectStats {
        &self.dirt
    }

    /// Refuses a corpus that is too dirty whatever follows.
    pub(super) fn judge(&self, max_bad_lines: Option<u64>) -> Result<()> {
        // Parts that were there already are none of these lines.
        let total = self.bytes_total.saturating_sub(self.kept.load(Ordering::Relaxed)).max(1);
        self.dirt.judge(max_bad_lines, self.read.get() as f64 / total as f64)
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
pub(super) struct EventSink<'a> {
    pub(super) clock: &'a Clock,
    pub(super) observer: &'a mut dyn Observer,
}

impl EventSink<'_> {
    pub(super) fn say(&mut self, what: EventKind) {
        self.observer.observe(&self.clock.event(Position::default(), what));
    }
}

/// The stages of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading, decompressing and cleaning.
    Read,
    /// Text to ids.
    Tokenize,
    /// Ids to samples, and what a document came to.
    Pack,
    /// Samples to Parquet in the store.
    Write,
}

/// Busy time of each stage.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stages {
    /// In [`Stage::Read`].
    pub read: Duration,
    /// In [`Stage::Tokenize`].
    pub tokenize: Duration,
    /// In [`Stage::Pack`].
    pub pack: Duration,
    /// In [`Stage::Write`].
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

    /// The stage that takes most of the time.
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

/// A clock that always runs for one stage.
#[derive(Debug)]
pub(super) struct Stopwatch {
    now: Cell<Stage>,
    since: Cell<Instant>,
    stages: Cell<Stages>,
    /// What each is for who records a trace: entered for as long as its clock runs.
    spans: [Span; 4],
}

impl Stopwatch {
    /// Starts with `stage`, on the thread that continues with it.
    pub(super) fn start(stage: Stage) -> Self {
        // A stage changes several times for each document: one span each for all of them.
        let spans = [
            trace_span!(target: SPANS, "read", often = true),
            trace_span!(target: SPANS, "tokenize", often = true),
            trace_span!(target: SPANS, "pack", often = true),
            trace_span!(target: SPANS, "write", often = true),
        ];
        let watch = Self { now: Cell::new(stage), since: Cell::new(Instant::now()), stages: Cell::default(), spans };
        watch.enter(stage);
        watch
    }

    fn span(&self, stage: Stage) -> &Span {
        &self.spans[stage as usize]
    }

    fn enter(&self, stage: Stage) {
        self.span(stage).with_subscriber(|(id, listener)| listener.enter(id));
    }

    fn leave(&self, stage: Stage) {
        self.span(stage).with_subscriber(|(id, listener)| listener.exit(id));
    }

    /// Runs `work` on the clock of `stage`, then goes back to the one before.
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
        self.enter(stage);
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
