//! Interface between the processes that train one model together.
//!
//! Each process takes its share of the micro-batches of every step. The denominators of sums, the rows of a step, the
//! reported numbers and the decision to stop depend on all ranks. The only implementation is [`SingleProcess`], which
//! returns its own values; the trainer already calls the interface wherever ranks must agree.

use std::fmt;

use schemas::RankShard;
use trainer_plan::stop_request::StopRequest;

/// Ranks of a run, as seen by one of them. Every rank must make the same calls in the same order.
pub trait ProcessGroup: fmt::Debug + Send {
    /// Share of this rank.
    fn share(&self) -> RankShard;

    /// Replaces each count by its sum over all ranks.
    fn sum(&self, counts: &mut [f64]);

    /// Returns the digests of all rows of a step, in the order of the stream. `own` are the digests of this rank's
    /// rows.
    fn rows(&self, own: Vec<blake3::Hash>) -> Vec<blake3::Hash>;

    /// Returns the stop request of any rank.
    fn stop(&self, own: Option<StopRequest>) -> Option<StopRequest>;
}

/// Process group of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleProcess;

impl ProcessGroup for SingleProcess {
    fn share(&self) -> RankShard {
        RankShard::ALONE
    }

    fn sum(&self, _: &mut [f64]) {}

    fn rows(&self, own: Vec<blake3::Hash>) -> Vec<blake3::Hash> {
        own
    }

    fn stop(&self, own: Option<StopRequest>) -> Option<StopRequest> {
        own
    }
}
