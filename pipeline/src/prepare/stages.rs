//! Where the time of a part goes.

use std::cell::Cell;
use std::time::{Duration, Instant};

/// The stages of a part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Reading, decompressing, cleaning and counting words.
    Read,
    /// Text to ids.
    Tokenize,
    /// Ids to samples.
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
}

impl Stopwatch {
    pub(super) fn start(stage: Stage) -> Self {
        Self { now: Cell::new(stage), since: Cell::new(Instant::now()), stages: Cell::default() }
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
        self.now.replace(stage)
    }

    pub(super) fn read(&self) -> Stages {
        self.switch(self.now.get());
        self.stages.get()
    }
}
