//! What the processes that train one model together have to agree on.
//!
//! Each takes its share of every step's micro-batches. What a sum is divided by, which rows a step has seen, what is
//! reported and when to stop are questions to all of them. There is one process today, [`SingleProcess`], whose own answer is
//! everybody's; the places that ask are these already.

use std::fmt;

use schemas::RankShard;
use trainer_plan::stop_request::StopRequest;

/// The ranks of a run, seen from one of them. Every rank asks the same questions in the same order.
pub trait ProcessGroup: fmt::Debug + Send {
    /// Which of them this is.
    fn share(&self) -> RankShard;

    /// Adds up, number by number, what each has counted.
    fn sum(&self, counts: &mut [f64]);

    /// The digests of a step's rows in the order of the stream, of those that this rank has seen.
    fn rows(&self, own: Vec<blake3::Hash>) -> Vec<blake3::Hash>;

    /// Whether one of them was asked to stop.
    fn stop(&self, own: Option<StopRequest>) -> Option<StopRequest>;
}

/// One process that does it all.
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
