//! Stream of the plan's batches, made ahead of time by workers.

use std::sync::Arc;

use runtime::spans::SPANS;
use runtime::{CancelSource, CancelToken, NextItem, OrderedPool, PoolStats, add_held, cancel_pair};
use schemas::{Batch, RankShard, RowIndex};
use tracing::trace_span;

use super::LoadPlan;
use super::bad_rows::{BadRow, RowPolicy};
use super::batch_builder::MadeBatch;
use super::batch_ranges::BatchRanges;
use super::latency_injection::{Contention, ContentionLock, LatencyInjection};
use super::read_ahead::ReadAhead;
use crate::error::Result;
use crate::exposure::RowDocuments;
use crate::shard::groups::{Groups, WorkerIndex};

/// Options of a stream. They do not change a batch, except for the rows that the policy replaces by padding.
#[derive(Clone, Debug, Default)]
pub struct StreamOptions {
    /// Policy for bad, excluded and faulty rows.
    pub policy: RowPolicy,
    /// Whether workers compute the row digests in advance, so that reading them costs nothing.
    pub digests: bool,
    /// Number of batches to make, keep and repeat forever. For profiling: the upper limit of a trainer that never waits
    /// for data.
    pub replay: Option<u64>,
    /// Artificial latency of workers. For profiling with a known bottleneck.
    pub latency_injection: Option<LatencyInjection>,
    /// Artificial contention between workers.
    pub contention: Contention,
}

/// Iterator over the batches of a rank, in order. Dropping it ends its workers.
#[derive(Debug)]
pub struct BatchStream {
    workers: OrderedPool<MadeBatch, crate::Error>,
    plan: Arc<LoadPlan>,
    groups: Arc<Groups>,
    /// Downloads of remote shards.
    ahead: Option<Arc<ReadAhead>>,
    cut: BatchRanges,
    /// Number of received batches.
    received: u64,
    replay: Option<Replay>,
    /// Cancels waits of the workers, so that they can end.
    cancel_source: CancelSource,
    policy: RowPolicy,
    /// Bad rows of the batches that were handed out since the last query.
    bad_rows: Vec<BadRow>,
    /// Documents of the rows of these batches, if they are counted.
    documents: Vec<RowDocuments>,
    /// Whether a batch could not be handed out. No later batch is either.
    failed: bool,
}

impl LoadPlan {
    /// Returns the batches of a rank's rows from row `from` of the stream on, made by the plan's workers.
    #[must_use]
    pub fn stream(self: &Arc<Self>, from: RowIndex, share: RankShard) -> BatchStream {
        BatchStream::new(self, from, share, StreamOptions::default())
    }
}

impl BatchStream {
    /// Returns the batches of `share`'s rows from row `from` of the stream on.
    #[must_use]
    pub fn new(plan: &Arc<LoadPlan>, from: RowIndex, share: RankShard, options: StreamOptions) -> Self {
        let groups = Arc::new(plan.groups());
        let cut = plan.cut(from, share);
        let workers = plan.workers_of(share);
        let ahead = ReadAhead::start(plan, from.0).map(Arc::new);
        let frees = ahead.clone();
        let maker = Arc::clone(plan);
        let decoded = Arc::clone(&groups);
        let policy = options.policy.clone();
        let (cancel_source, stop) = cancel_pair();
        let replay = options.replay.map(Replay::new);
        let made = cut.count().unwrap_or(u64::MAX).min(replay.as_ref().map_or(u64::MAX, |replay| replay.count));
        let contended = ContentionLock::new(options.contention, workers.workers, made);
        let make = move |own: u64| {
            let worker = usize::try_from(own % workers.workers as u64).expect("a worker");
            if let Some(hindrance) = options.latency_injection {
                hindrance.inject(worker, own);
            }
            let by = WorkerIndex { index: worker, count: workers.workers };
            let make = || {
                let rows = cut.rows(own);
                if share.ranks() > 1 && share.is_first() {
                    // The other ranks wait for the decisions of rank 0 on the dataset versions of epochs.
                    maker.epochs(RowIndex(cut.end_of_all(own)))?;
                }
                if let Some(ahead) = &frees {
                    ahead.advance(&maker, rows.end);
                }
                maker.make(&decoded, cut.index(own), rows, by, &policy, Some(&stop))
            };
            let made = match &contended {
                Some(contended) => contended.run_after_delay(own, &stop, make)?,
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
            ahead,
            cut,
            received: 0,
            replay,
            policy: options.policy,
            bad_rows: Vec::new(),
            documents: Vec::new(),
            failed: false,
            cancel_source,
        }
    }

    /// Like [`next`](Iterator::next), but returns as soon as `stop` is cancelled, even during a wait.
    pub fn next_or_cancelled(&mut self, stop: &CancelToken) -> NextItem<Result<Batch>> {
        if let Some(batch) = self.replay.as_mut().and_then(Replay::next_replayed) {
            return NextItem::Item(Ok(batch));
        }
        if self.failed {
            return NextItem::End;
        }
        match self.workers.next_or_cancelled(stop) {
            NextItem::Item(made) => NextItem::Item(self.receive(made)),
            NextItem::End => NextItem::End,
            NextItem::Cancelled => NextItem::Cancelled,
        }
    }

    /// Returns the bad rows of the batches that were handed out since the last call.
    pub fn bad_rows(&mut self) -> Vec<BadRow> {
        std::mem::take(&mut self.bad_rows)
    }

    /// Returns the documents of the rows that were handed out since the last call. Empty if documents are not counted.
    pub fn documents(&mut self) -> Vec<RowDocuments> {
        std::mem::take(&mut self.documents)
    }

    /// Returns the statistics of the workers and of the reader.
    #[must_use]
    pub fn worker_stats(&self) -> PoolStats {
        self.workers.stats()
    }

    /// Returns the cache of decoded groups, for its counters.
    #[must_use]
    pub fn groups(&self) -> &Arc<Groups> {
        &self.groups
    }

    /// Records the bad rows of a batch before it is handed out.
    fn receive(&mut self, made: Result<MadeBatch>) -> Result<Batch> {
        let made = made.and_then(|made| self.plan.record_bad_rows(&made, &self.policy).map(|()| made));
        let MadeBatch { batch, known, found, documents } = made.inspect_err(|_| self.failed = true)?;
        self.bad_rows.extend(known);
        self.bad_rows.extend(found);
        self.documents.extend(documents);
        self.received(&batch);
        Ok(batch)
    }

    /// Frees the windows that no later batch uses.
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
        self.cancel_source.cancel();
        if let Some(ahead) = &self.ahead {
            ahead.cancel();
        }
    }
}

impl Iterator for BatchStream {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        if let Some(batch) = self.replay.as_mut().and_then(Replay::next_replayed) {
            return Some(Ok(batch));
        }
        if self.failed {
            return None;
        }
        let made = self.workers.next()?;
        Some(self.receive(made))
    }
}

/// First batches, repeated forever.
#[derive(Debug)]
struct Replay {
    count: u64,
    batches: Vec<Batch>,
    next: usize,
}

impl Replay {
    fn new(count: u64) -> Self {
        Self { count: count.max(1), batches: Vec::new(), next: 0 }
    }

    /// Returns the next repeated batch, once all of them have arrived.
    fn next_replayed(&mut self) -> Option<Batch> {
        if (self.batches.len() as u64) < self.count {
            return None;
        }
        let batch = self.batches[self.next].clone();
        self.next = (self.next + 1) % self.batches.len();
        Some(batch)
    }
}
