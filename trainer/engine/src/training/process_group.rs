//! Interface between the processes that train one model together.
//!
//! Each process takes its share of the micro-batches of every step. The denominators of sums, the rows of a step, the
//! gradients, the reported numbers and the decision to stop depend on all ranks. [`SingleProcess`] returns its own
//! values. [`connect`] connects several processes through libtorch's c10d.
//!
//! Every rank must make the same calls in the same order. If a rank fails, ends or does not answer, the calls of all
//! other ranks return an error that names it.

mod c10d;
mod device_operations;
mod failure;
mod frame;
mod grid;
mod link;
mod measured;
mod monitor;
mod rendezvous;
mod shared;
#[cfg(test)]
pub(crate) mod test_ranks;
#[cfg(test)]
mod tests;

use std::fmt;
use std::time::Duration;

use schemas::RankShard;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tch::{Device, Tensor};
use trainer_plan::Error;
use trainer_plan::stop_request::StopRequest;

pub use self::c10d::connect;

/// Place of a rank among those of its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HostShare {
    /// Number of the rank on its host, counted from 0.
    pub rank: u32,
    /// Number of ranks on the host.
    pub ranks: u32,
}

impl Default for HostShare {
    fn default() -> Self {
        Self { rank: 0, ranks: 1 }
    }
}

/// Ranks of a run, as seen by one of them.
///
/// `what` names the contents of an operation for errors, such as `stop requests`.
pub trait ProcessGroup: fmt::Debug + Send + Sync {
    /// Share of this rank.
    fn share(&self) -> RankShard;

    /// Place of this rank among those of its host.
    fn host_share(&self) -> HostShare {
        HostShare::default()
    }

    /// All-gather: returns the bytes of all ranks in the order of the ranks. Lengths may differ.
    fn gather(&self, what: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error>;

    /// Broadcast: returns the bytes of rank 0. `own` is ignored on other ranks.
    fn broadcast(&self, what: &'static str, own: &[u8]) -> Result<Vec<u8>, Error>;

    /// Starts to replace `tensor` by its sum over all ranks. The tensor must not be used before
    /// [`wait`](PendingReduction::wait).
    fn all_reduce(&self, what: &'static str, tensor: &Tensor) -> Result<Box<dyn PendingReduction>, Error>;

    /// Connects the devices of all ranks, if they are CUDA devices. Otherwise their first all-reduce does it, in the middle of
    /// a step.
    fn connect_device(&self, _device: Device) -> Result<(), Error> {
        Ok(())
    }

    /// Time that this rank has waited for slower ranks, in all operations but the last ones. The cost of the operations
    /// is not included.
    fn waited(&self) -> Duration {
        Duration::ZERO
    }

    /// Tells the other ranks that this one fails. Their calls return an error with the reason.
    fn abort(&self, reason: &str);

    /// Waits until all ranks have come to the end of the run. A group that is dropped before counts as failed.
    fn finish(&self) -> Result<(), Error>;

    /// Waits until all ranks have come to this call.
    fn barrier(&self, what: &'static str) -> Result<(), Error> {
        self.gather(what, &[]).map(drop)
    }

    /// Replaces each count by its sum over all ranks. All ranks add up in the same order, so the sums have equal bits.
    fn sum(&self, counts: &mut [f64]) -> Result<(), Error> {
        let own: Vec<u8> = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
        let all = self.gather("counts", &own)?;
        if let Some((rank, bytes)) = all.iter().enumerate().find(|(_, bytes)| bytes.len() != own.len()) {
            let [theirs, ours] = [bytes.len() / 8, counts.len()];
            return Err(Error::Foreign(
                format!("rank {rank} sums {theirs} counts, but this rank {ours}: the ranks do not run the same plan")
                    .into(),
            ));
        }
        // The neutral element of addition: 0.0 would change -0.0.
        counts.fill(-0.0);
        for bytes in &all {
            for (sum, count) in counts.iter_mut().zip(bytes.as_chunks().0) {
                *sum += f64::from_le_bytes(*count);
            }
        }
        Ok(())
    }

    /// Returns the digests of all rows of a step, in the order of the stream. `own` are the digests of this rank's
    /// rows, one list for each of its micro-batches.
    fn rows(&self, own: &[&[blake3::Hash]]) -> Result<Vec<blake3::Hash>, Error> {
        let all = self.gather("row digests", &frame::encode_digests(own))?;
        let ranks: Vec<_> = all.iter().map(|bytes| frame::decode_digests(bytes)).collect::<Result<_, _>>()?;
        Ok(in_stream(&ranks).flatten().copied().collect())
    }

    /// Returns the stop request of the first rank that has one.
    fn stop(&self, own: Option<StopRequest>) -> Result<Option<StopRequest>, Error> {
        let all = self.gather("stop requests", &frame::encode_stop(own))?;
        all.iter().find_map(|bytes| frame::decode_stop(bytes).transpose()).transpose()
    }
}

/// Returns the items of all ranks in the order of the stream, one for each micro-batch.
pub(crate) fn in_stream<T>(ranks: &[Vec<T>]) -> impl Iterator<Item = &T> {
    let most = ranks.iter().map(Vec::len).max().unwrap_or(0);
    (0..most).flat_map(|nth| ranks.iter().filter_map(move |rank| rank.get(nth)))
}

/// All-reduce that has started.
pub trait PendingReduction: fmt::Debug + Send {
    /// Waits for the sum. On a CUDA device, later work of the current stream waits for it, not the host: if a rank fails
    /// meanwhile, the sum is not whole, and only the next operation of the group returns the error.
    fn wait(self: Box<Self>) -> Result<(), Error>;
}

impl dyn ProcessGroup + '_ {
    /// Returns a decision that rank 0 makes for all ranks, such as one by its clock or its files. `T` must survive
    /// JSON.
    ///
    /// # Errors
    /// On every rank, if the decision of rank 0 fails.
    pub fn decide<T: Serialize + DeserializeOwned>(
        &self,
        what: &'static str,
        decision: impl FnOnce() -> Result<T, Error>,
    ) -> Result<T, Error> {
        if self.share().ranks() == 1 {
            return decision();
        }
        if !self.share().is_first() {
            let bytes = self.broadcast(what, &[])?;
            let decided: Result<T, String> = serde_json::from_slice(&bytes)
                .map_err(|error| Error::Foreign(format!("{what} of rank 0 cannot be read: {error}").into()))?;
            return decided.map_err(|message| Error::Foreign(format!("{what} of rank 0: {message}").into()));
        }
        let decided = decision();
        let told = decided.as_ref().map_err(ToString::to_string);
        let bytes = serde_json::to_vec(&told)
            .map_err(|error| Error::Foreign(format!("{what} cannot be sent to the other ranks: {error}").into()))?;
        self.broadcast(what, &bytes)?;
        decided
    }
}

/// Process group of one process.
#[derive(Clone, Copy, Debug, Default)]
pub struct SingleProcess;

impl ProcessGroup for SingleProcess {
    fn share(&self) -> RankShard {
        RankShard::ALONE
    }

    fn gather(&self, _: &'static str, own: &[u8]) -> Result<Vec<Vec<u8>>, Error> {
        Ok(vec![own.to_vec()])
    }

    fn broadcast(&self, _: &'static str, own: &[u8]) -> Result<Vec<u8>, Error> {
        Ok(own.to_vec())
    }

    fn all_reduce(&self, _: &'static str, _: &Tensor) -> Result<Box<dyn PendingReduction>, Error> {
        Ok(Box::new(SingleProcess))
    }

    fn abort(&self, _: &str) {}

    fn finish(&self) -> Result<(), Error> {
        Ok(())
    }
}

impl PendingReduction for SingleProcess {
    fn wait(self: Box<Self>) -> Result<(), Error> {
        Ok(())
    }
}
