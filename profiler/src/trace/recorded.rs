//! Recorded trace and its output formats.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::time::Instant;

use runtime::spans::nanoseconds;

use super::buffer::{Buffer, Text};
use super::perfetto;
use super::samples::{Stacks, folded};
use super::tracks::{Mark, TrackDrawing};

/// Recorded trace.
pub struct Recorded {
    threads: Vec<Buffer>,
    texts: Vec<String>,
    times: TraceTimes,
    stacks: Stacks,
    marks: Vec<Mark>,
    /// Display names of actors.
    names: BTreeMap<String, String>,
}

/// Times of a trace, in nanoseconds.
#[derive(Clone, Copy, Debug)]
pub(super) struct TraceTimes {
    pub(super) begun: u64,
    pub(super) ended: u64,
    /// Time at which the limit of entries was reached.
    pub(super) spent_at: Option<u64>,
}

impl Recorded {
    pub(super) fn new(threads: Vec<Buffer>, texts: Vec<String>, times: TraceTimes, stacks: Stacks) -> Self {
        Self { threads, texts, times, stacks, marks: Vec::new(), names: BTreeMap::new() }
    }

    /// Sets the display name of an actor.
    pub fn rename(&mut self, actor: &str, name: &str) {
        self.names.insert(actor.to_owned(), name.to_owned());
    }

    /// Marks a time range on a separate track. Marks must not overlap.
    pub fn mark(&mut self, name: &str, from: Instant, to: Instant) {
        self.marks.push(Mark { name: name.to_owned(), from: nanoseconds(from), to: nanoseconds(to) });
    }

    /// Returns the number of entries: slices, states, counter values and arrivals.
    pub fn entries(&self) -> usize {
        let of =
            |thread: &Buffer| thread.slices.len() + thread.changes.len() + thread.fills.len() + thread.arrivals.len();
        self.threads.iter().map(of).sum()
    }

    /// Returns the number of dropped entries, and the seconds from the start until the limit was reached. `None` if
    /// all entries were stored.
    pub fn left_out(&self) -> Option<(u64, f64)> {
        let TraceTimes { begun, spent_at, .. } = self.times;
        let left_out = self.threads.iter().map(|thread| thread.left_out).sum();
        spent_at.map(|at| (left_out, at.saturating_sub(begun) as f64 / 1e9))
    }

    /// Writes the trace for Perfetto's user interface and its `trace_processor`.
    ///
    /// # Errors
    /// Returns the error of the writer.
    pub fn perfetto(&self, out: &mut impl Write) -> io::Result<()> {
        let picture = TrackDrawing {
            threads: &self.threads,
            texts: &self.texts,
            marks: &self.marks,
            names: &self.names,
            ended: self.times.ended,
            cut: self.left_out().map(|(left_out, _)| left_out).zip(self.times.spent_at),
        };
        perfetto::write(&picture.drawn(), &self.texts, out)
    }

    /// Formats folded stacks for `flamegraph.pl`, inferno and speedscope: one line per stack, with its number of
    /// samples.
    pub fn folded(&self) -> String {
        let name = |text: Text| {
            let text = self.texts.get(text as usize).map_or("…", String::as_str);
            self.names.get(text).map_or(text, String::as_str).to_owned()
        };
        folded(&self.stacks, name)
    }
}
