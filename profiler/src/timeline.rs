//! Timeline of a measurement: one column per metric, one row per window.

use crate::figures::{Shares, fill};
use crate::look::StatsSnapshot;

/// Metrics of each window, warm-up included. The number of windows is bounded.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Timeline {
    /// Start of the first window, in seconds since the measurement began.
    pub from_s: f64,
    /// End of each window, in seconds since the measurement began.
    pub at_s: Vec<f64>,
    /// Items per second that the reader took.
    pub items_per_s: Vec<f64>,
    /// Fill of the queues, as a share of their capacity.
    pub queue: Vec<f64>,
    /// Resident bytes of the process at the end of each window. `None` where the kernel does not report them.
    pub resident_bytes: Vec<Option<u64>>,
    /// Bytes of the items in queues at the end of each window.
    pub queued_bytes: Vec<u64>,
    /// Timelines of the workers, then of the reader.
    pub actors: Vec<ActorTimeline>,
}

/// Shares of an actor's time, per window.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ActorTimeline {
    /// Working.
    pub busy: Vec<f64>,
    /// Waiting for input.
    pub starved: Vec<f64>,
    /// Waiting for room in its output queue.
    pub blocked: Vec<f64>,
}

impl Timeline {
    pub(super) fn new(looks: &[StatsSnapshot]) -> Self {
        let mut timeline = Self { from_s: looks.first().map_or(0.0, |look| look.at), ..Self::default() };
        timeline.actors =
            looks.first().map(|look| vec![ActorTimeline::default(); look.workers.len() + 1]).unwrap_or_default();
        for pair in looks.windows(2) {
            let first = &pair[0];
            let last = &pair[1];
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
