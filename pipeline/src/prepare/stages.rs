//! Where the time of a part goes.

use std::cell::Cell;
use std::time::{Duration, Instant};

use runtime::spans::SPANS;
use tracing::{Span, trace_span};

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
    /// Starts with `stage`, on the thread that goes on with it.
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
