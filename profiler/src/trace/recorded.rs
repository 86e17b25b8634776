//! What a trace came to, and how it is written.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use runtime::spans::nanoseconds;

use super::buffer::{Buffer, Text};
use super::perfetto;
use super::samples::{Stacks, folded};
use super::tracks::{Mark, Picture};

/// What was recorded.
pub struct Recorded {
    threads: Vec<Buffer>,
    texts: Vec<String>,
    /// When it began and ended, and when its room was used up.
    times: (u64, u64, Option<u64>),
    stacks: Stacks,
    marks: Vec<Mark>,
    /// What actors are called for people.
    names: BTreeMap<String, String>,
}

impl Recorded {
    pub(super) fn new(
        threads: Vec<Buffer>,
        texts: Vec<String>,
        times: (u64, u64, Option<u64>),
        stacks: Stacks,
    ) -> Self {
        Self { threads, texts, times, stacks, marks: Vec::new(), names: BTreeMap::new() }
    }

    /// Calls an actor otherwise.
    pub fn rename(&mut self, actor: &str, name: &str) {
        self.names.insert(actor.to_owned(), name.to_owned());
    }

    /// Marks a stretch of time, on a track for such marks. They may not overlap.
    pub fn mark(&mut self, name: &str, from: Instant, to: Instant) {
        self.marks.push(Mark { name: name.to_owned(), from: nanoseconds(from), to: nanoseconds(to) });
    }

    /// Entries that it has: slices, states, numbers of counters and arrivals.
    pub fn entries(&self) -> usize {
        let of =
            |thread: &Buffer| thread.slices.len() + thread.changes.len() + thread.fills.len() + thread.arrivals.len();
        self.threads.iter().map(of).sum()
    }

    /// Entries for which there was no room, and seconds after its beginning at which that was used up; none where there was
    /// room for all.
    pub fn left_out(&self) -> Option<(u64, f64)> {
        let (begun, _, spent_at) = self.times;
        let left_out = self.threads.iter().map(|thread| thread.left_out).sum();
        spent_at.map(|at| (left_out, at.saturating_sub(begun) as f64 / 1e9))
    }

    /// Writes it as Perfetto's user interface and its `trace_processor` read it.
    ///
    /// # Errors
    /// What writing fails with.
    pub fn perfetto(&self, out: &mut impl Write) -> io::Result<()> {
        let picture = Picture {
            threads: &self.threads,
            texts: &self.texts,
            marks: &self.marks,
            names: &self.names,
            ended: self.times.1,
            cut: self.left_out().map(|(left_out, _)| left_out).zip(self.times.2),
        };
        perfetto::write(&picture.drawn(), &self.texts, out)
    }

    /// Stacks as `flamegraph.pl`, inferno and speedscope read them: one line each, with how often it was seen.
    pub fn folded(&self) -> String {
        let name = |text: Text| {
            let text = self.texts.get(text as usize).map_or("…", String::as_str);
            self.names.get(text).map_or(text, String::as_str).to_owned()
        };
        folded(&self.stacks, name)
    }
}
