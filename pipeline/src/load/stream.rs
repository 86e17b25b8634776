//! The plan's batches, made ahead of time by lanes.

use std::sync::Arc;
use std::time::Duration;

use schemas::{Batch, RowIndex, Share};

use super::LoadPlan;
use super::cut::Cut;
use crate::actor::{Gauges, Lanes, Next, Stop};
use crate::error::Result;
use crate::shard::groups::Groups;

/// What a stream does besides streaming. None of it changes a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamOptions {
    /// Digest the rows on the lanes, for a reader that will ask for it: it then costs that reader nothing.
    pub digests: bool,
    /// Repeat the first so many batches for ever: for profiling, the ceiling of a trainer that never waits for data.
    pub replay: Option<u64>,
    /// Makes one lane sleep before each of its batches: for profiling, a bottleneck made on purpose.
    pub lane_sleep: Option<(usize, Duration)>,
}

/// An iterator over the batches of a share, in order. Dropping it ends its lanes.
#[derive(Debug)]
pub struct BatchStream {
    lanes: Lanes<Batch>,
    plan: Arc<LoadPlan>,
    groups: Arc<Groups>,
    cut: Cut,
    /// Batches received.
    received: u64,
    replays: bool,
}

impl BatchStream {
    /// The batches of `share`'s rows from row `from` of the stream on.
    #[must_use]
    pub fn new(plan: &Arc<LoadPlan>, from: RowIndex, share: Share, options: StreamOptions) -> Self {
        let (groups, cut, lanes) = (Arc::new(plan.groups()), plan.cut(from, share), plan.lanes_of(share));
        let (maker, decoded) = (Arc::clone(plan), Arc::clone(&groups));
        let make = move |own: u64| {
            let lane = usize::try_from(own % lanes.count as u64).expect("a lane");
            if let Some((_, sleep)) = options.lane_sleep.filter(|&(slow, _)| slow == lane) {
                std::thread::sleep(sleep);
            }
            let own = options.replay.map_or(own, |count| own % count.max(1));
            let batch = maker.batch_by(&decoded, cut.index(own), cut.rows(own), (lane, lanes.count))?;
            if options.digests {
                let _ = batch.row_digests();
            }
            Ok(batch)
        };
        let lanes = Lanes::over(0..cut.count().unwrap_or(u64::MAX), lanes, make);
        Self { lanes, plan: Arc::clone(plan), groups, cut, received: 0, replays: options.replay.is_some() }
    }

    /// Like [`next`](Iterator::next), but returns as soon as `stop` is asked for, also in the middle of a wait.
    pub fn next_or(&mut self, stop: &Stop) -> Next<Result<Batch>> {
        let next = self.lanes.next_or(stop);
        if let Next::Item(Ok(_)) = next {
            self.received();
        }
        next
    }

    /// The clocks of the lanes and of whoever reads this.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        self.lanes.gauges()
    }

    /// The decoded groups, for their counts.
    #[must_use]
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// Frees the windows that no later batch touches.
    fn received(&mut self) {
        self.received += 1;
        let more = self.cut.count().is_none_or(|count| self.received < count);
        if !self.replays && more {
            self.groups.release_before(self.plan.window_of(self.cut.rows(self.received).start));
        }
    }
}

impl Iterator for BatchStream {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        let item = self.lanes.next()?;
        if item.is_ok() {
            self.received();
        }
        Some(item)
    }
}
