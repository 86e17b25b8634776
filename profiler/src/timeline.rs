//! The course of what was measured: a column for each figure, a row for each window.

use crate::figures::{Shares, fill};
use crate::look::Look;

/// What happened in each window, warm-up included: at most as many as are kept.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Where the first window begins, and where each ends: seconds since the measurement began.
    pub from_s: f64,
    /// The end of each window, in the same seconds.
    pub at_s: Vec<f64>,
    /// Items that the reader took a second.
    pub items_per_s: Vec<f64>,
    /// The share of the queues' places that was taken.
    pub queue: Vec<f64>,
    /// Bytes at the end of each window: of the process, where the kernel says; of the items that wait in queues.
    pub resident_bytes: Vec<Option<u64>>,
    /// Bytes of the items in queues at the end of each window.
    pub queued_bytes: Vec<u64>,
    /// Workers, then the reader.
    pub actors: Vec<Course>,
}

/// The shares of an actor's time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Course {
    /// At work.
    pub busy: Vec<f64>,
    /// Waiting for input.
    pub starved: Vec<f64>,
    /// Waiting for room in its output queue.
    pub blocked: Vec<f64>,
}

impl Timeline {
    pub(super) fn of(looks: &[Look]) -> Self {
        let mut timeline = Self { from_s: looks.first().map_or(0.0, |look| look.at), ..Self::default() };
        timeline.actors = looks.first().map(|look| vec![Course::default(); look.workers.len() + 1]).unwrap_or_default();
        for pair in looks.windows(2) {
            let (first, last) = (&pair[0], &pair[1]);
            let seconds = last.at - first.at;
            let items = last.reader.reading.items.saturating_sub(first.reader.reading.items);
            timeline.at_s.push(last.at);
            timeline.items_per_s.push(items as f64 / seconds.max(1e-9));
            timeline.queue.push(fill(first, last));
            timeline.resident_bytes.push(last.resident);
            timeline.queued_bytes.push(last.queued_bytes());
            for (course, (first, last)) in timeline.actors.iter_mut().zip(first.actors().zip(last.actors())) {
                let Shares { busy, starved, blocked, .. } = Shares::between(first, last, seconds);
                course.busy.push(busy);
                course.starved.push(starved);
                course.blocked.push(blocked);
            }
        }
        timeline
    }
}
