//! The plan's batches, made ahead of time by workers.

use std::sync::Arc;

use runtime::spans::SPANS;
use runtime::{CancelSource, CancelToken, NextItem, OrderedPool, PoolStats, add_held, cancel_pair};
use schemas::{Batch, RankShard, RowIndex};
use tracing::trace_span;

use super::LoadPlan;
use super::bad_rows::{BadRow, RowPolicy};
use super::batch_builder::Made;
use super::batch_ranges::Cut;
use super::latency_injection::{Contended, Contention, LatencyInjection};
use crate::error::Result;
use crate::exposure::RowDocuments;
use crate::shard::groups::Groups;

/// What a stream does in addition streaming. None of it changes a batch, but for the rows that are left out of it.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Who looks after its rows.
    pub care: RowPolicy,
    /// Digest the rows on the workers, for a reader that will ask for it: it then costs that reader nothing.
    pub digests: bool,
    /// Make so many batches, keep them, and give them again forever: for profiling, the ceiling of a trainer that never
    /// waits for data.
    pub replay: Option<u64>,
    /// Makes workers slow on purpose: for profiling, a bottleneck that is known.
    pub hindrance: Option<LatencyInjection>,
    /// Puts workers in one another's way on purpose.
    pub contention: Contention,
}

/// An iterator over the batches of a share, in order. Dropping it ends its workers.
#[derive(Debug)]
pub struct BatchStream {
    workers: OrderedPool<Made, crate::Error>,
    plan: Arc<LoadPlan>,
    groups: Arc<Groups>,
    cut: Cut,
    /// Batches received.
    received: u64,
    replay: Option<Replay>,
    /// Ends what workers wait for, so that they can be ended.
    stopper: CancelSource,
    care: RowPolicy,
    /// Rows of the batches that were handed on that are padding, since somebody last asked.
    bad_rows: Vec<BadRow>,
    /// What the rows of these batches are made of, where somebody counts that.
    documents: Vec<RowDocuments>,
    /// A batch could not be handed on: those that follow are not either.
    failed: bool,
}

impl LoadPlan {
    /// The batches of a share of the stream from row `from` on, made by the plan's workers.
    #[must_use]
    pub fn stream(self: &Arc<Self>, from: RowIndex, share: RankShard) -> BatchStream {
        BatchStream::new(self, from, share, StreamOptions::default())
    }
}

impl BatchStream {
    /// The batches of `share`'s rows from row `from` of the stream on.
    #[must_use]
    pub fn new(plan: &Arc<LoadPlan>, from: RowIndex, share: RankShard, options: StreamOptions) -> Self {
        let (groups, cut, workers) = (Arc::new(plan.groups()), plan.cut(from, share), plan.workers_of(share));
        let (maker, decoded, care) = (Arc::clone(plan), Arc::clone(&groups), options.care.clone());
        let (stopper, stop) = cancel_pair();
        let replay = options.replay.map(Replay::of);
        let made = cut.count().unwrap_or(u64::MAX).min(replay.as_ref().map_or(u64::MAX, |replay| replay.count));
        let contended = Contended::of(options.contention, workers.workers, made);
        let make = move |own: u64| {
            let worker = usize::try_from(own % workers.workers as u64).expect("a worker");
            if let Some(hindrance) = options.hindrance {
                hindrance.take(worker, own);
            }
            let by = (worker, workers.workers);
            let make = || maker.make(&decoded, cut.index(own), cut.rows(own), by, (&care, Some(&stop)));
            let made = match &contended {
                Some(contended) => contended.before(own, &stop, make)?,
                None => make()?,
            };
            if options.digests {
                let _span = trace_span!(target: SPANS, "digest").entered();
                let _ = made.batch.row_digests();
            }
            add_held(made.batch.bytes() as u64, 0);
            Ok(made)
        };
        let workers = OrderedPool::new(0..made, workers, make);
        let plan = Arc::clone(plan);
        Self {
            workers,
            plan,
            groups,
            cut,
            received: 0,
            replay,
            care: options.care,
            bad_rows: Vec::new(),
            documents: Vec::new(),
            failed: false,
            stopper,
        }
    }

    /// Like [`next`](Iterator::next), but returns as soon as `stop` is asked for, also in the middle of a wait.
    pub fn next_or_cancelled(&mut self, stop: &CancelToken) -> NextItem<Result<Batch>> {
        if let Some(batch) = self.replay.as_mut().and_then(Replay::again) {
            return NextItem::Item(Ok(batch));
        }
        if self.failed {
            return NextItem::End;
        }
        match self.workers.next_or_cancelled(stop) {
            NextItem::Item(made) => NextItem::Item(self.hand_on(made)),
            NextItem::End => NextItem::End,
            NextItem::Cancelled => NextItem::Cancelled,
        }
    }

    /// Those rows of the batches that were handed on since this was last asked that are padding, since they cannot be made.
    pub fn bad_rows(&mut self) -> Vec<BadRow> {
        std::mem::take(&mut self.bad_rows)
    }

    /// What the rows of the batches that were handed on since this was last asked are made of; nothing where nobody counts it.
    pub fn documents(&mut self) -> Vec<RowDocuments> {
        std::mem::take(&mut self.documents)
    }

    /// The clocks of the workers and of whoever reads this.
    #[must_use]
    pub fn gauges(&self) -> PoolStats {
        self.workers.stats()
    }

    /// The decoded groups, for their counts.
    #[must_use]
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// Writes down which of its rows are left out, before anybody sees a batch.
    fn hand_on(&mut self, made: Result<Made>) -> Result<Batch> {
        let made = made.and_then(|made| self.plan.seal(&made, &self.care).map(|()| made));
        let Made { batch, known, found, documents } = made.inspect_err(|_| self.failed = true)?;
        self.bad_rows.extend(known);
        self.bad_rows.extend(found);
        self.documents.extend(documents);
        self.received(&batch);
        Ok(batch)
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

impl Drop for BatchStream {
    fn drop(&mut self) {
        self.stopper.cancel();
    }
}

impl Iterator for BatchStream {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        if let Some(batch) = self.replay.as_mut().and_then(Replay::again) {
            return Some(Ok(batch));
        }
        if self.failed {
            return None;
        }
        let made = self.workers.next()?;
        Some(self.hand_on(made))
    }
}

/// The first batches, forever.
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
