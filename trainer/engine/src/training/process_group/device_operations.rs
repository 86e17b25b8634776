//! Operations of a CUDA device that have started, and their failures.
//!
//! The host does not wait for them: it enqueues the next work of the device. So the monitor looks for those that do not
//! end, and ends all of them after a failure. Otherwise a host that reads a result would wait forever.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tch::Tensor;
use trainer_plan::Error;

use super::failure::{Cause, reason};
use crate::device::native::nccl::{DeviceWork, NcclGroup};

/// Operations of the device of this rank.
#[derive(Debug)]
pub(super) struct DeviceOperations {
    group: NcclGroup,
    pending: Mutex<Vec<Pending>>,
}

#[derive(Debug)]
struct Pending {
    number: u64,
    name: String,
    begun: Instant,
    // Nothing while the call of NCCL has not returned, which waits for the other ranks at the first operation.
    work: Option<Arc<DeviceWork>>,
}

impl DeviceOperations {
    pub(super) fn new(group: NcclGroup) -> Self {
        Self { group, pending: Mutex::new(Vec::new()) }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Pending>> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts the all-reduce of a tensor.
    pub(super) fn all_reduce(&self, tensor: &Tensor, number: u64, name: &str) -> Result<Arc<DeviceWork>, Error> {
        self.lock().push(Pending { number, name: name.to_owned(), begun: Instant::now(), work: None });
        let work = Arc::new(self.group.all_reduce(tensor)?);
        for pending in self.lock().iter_mut().filter(|pending| pending.number == number) {
            pending.work = Some(Arc::clone(&work));
        }
        Ok(work)
    }

    /// Returns the failure of the first operation that has not ended, if NCCL has noticed one, or after `limit`.
    pub(super) fn failure(&self, limit: Option<Duration>) -> Option<Cause> {
        let noticed = self.group.check();
        let mut pending = self.lock();
        pending.retain(|pending| !pending.work.as_ref().is_some_and(|work| work.is_done().unwrap_or(false)));
        let first = pending.first()?;
        let message = match (noticed, limit) {
            (Err(problem), _) => reason(&problem),
            (Ok(()), Some(limit)) if first.begun.elapsed() >= limit => {
                format!("the device did not end it within {} s", limit.as_secs_f64())
            }
            _ => return None,
        };
        Some(Cause::Operation { number: first.number, operation: first.name.clone(), message })
    }

    /// Ends all operations. Their results are undefined.
    pub(super) fn abort(&self) {
        if let Err(problem) = self.group.abort() {
            tracing::debug!(%problem, "process group: NCCL does not abort");
        }
    }
}
