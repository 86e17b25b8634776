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
    /// Make so many batches, keep them, and give them again for ever: for profiling, the ceiling of a trainer that never
    /// waits for data.
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
    replay: Option<Replay>,
}

impl LoadPlan {
    /// The batches of a share of the stream from row `from` on, made by the plan's lanes.
    #[must_use]
    pub fn stream(self: &Arc<Self>, from: RowIndex, share: Share) -> BatchStream {
        BatchStream::new(self, from, share, StreamOptions::default())
    }
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
            let batch = maker.batch_by(&decoded, cut.index(own), cut.rows(own), (lane, lanes.count))?;
            if options.digests {
                let _ = batch.row_digests();
            }
            Ok(batch)
        };
        let replay = options.replay.map(Replay::of);
        let made = cut.count().unwrap_or(u64::MAX).min(replay.as_ref().map_or(u64::MAX, |replay| replay.count));
        let lanes = Lanes::over(0..made, lanes, make);
        Self { lanes, plan: Arc::clone(plan), groups, cut, received: 0, replay }
    }

    /// Like [`next`](Iterator::next), but returns as soon as `stop` is asked for, also in the middle of a wait.
    pub fn next_or(&mut self, stop: &Stop) -> Next<Result<Batch>> {
        if let Some(batch) = self.replay.as_mut().and_then(Replay::again) {
            return Next::Item(Ok(batch));
        }
        let next = self.lanes.next_or(stop);
        if let Next::Item(Ok(batch)) = &next {
            self.received(batch);
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
    fn received(&mut self, batch: &Batch) {
        self.received += 1;
        if let Some(replay) = &mut self.replay {
            replay.batches.push(batch.clone());
        }
        if self.cut.count().is_none_or(|count| self.received < count) {
            self.plan.release_before(&self.groups, self.cut.rows(self.received).start);
        }
    }
}

impl Iterator for BatchStream {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        if let Some(batch) = self.replay.as_mut().and_then(Replay::again) {
            return Some(Ok(batch));
        }
        let item = self.lanes.next()?;
        if let Ok(batch) = &item {
            self.received(batch);
        }
        Some(item)
    }
}

/// The first batches, for ever.
#[derive(Debug)]
struct Replay {
    count: u64,
    batches: Vec<Batch>,
    next: usize,
}

impl Replay {
    fn of(count: u64) -> Self {
        Self { count: count.max(1), batches: Vec::new(), next: 0 }
    }

    /// The next one, once all of them are here.
    fn again(&mut self) -> Option<Batch> {
        if (self.batches.len() as u64) < self.count {
            return None;
        }
        let batch = self.batches[self.next].clone();
        self.next = (self.next + 1) % self.batches.len();
        Some(batch)
    }
}
