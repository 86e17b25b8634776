//! Waits for operations with other ranks, and their failures.

use std::sync::Arc;
use std::time::{Duration, Instant};

use trainer_plan::Error;

use super::failure::{Cause, error, reason};
use super::shared::{Limits, Shared};
use crate::device::native::c10d::Work;

/// Interval of looks for a failure of another rank, while this one waits.
const LOOK: Duration = Duration::from_millis(100);

/// Connection of a rank's training thread to its monitor.
#[derive(Clone, Debug)]
pub(super) struct Link {
    /// State that the monitor sees.
    pub shared: Arc<Shared>,
    /// Time limits.
    pub limits: Limits,
    /// This rank.
    pub rank: u32,
    /// Description of the store, for errors.
    pub store: String,
}

/// Operation that has started.
#[derive(Debug)]
pub(super) struct Operation {
    /// Number, counted from 1.
    pub number: u64,
    /// Name for errors.
    pub name: String,
}

impl Link {
    /// Begins an operation, unless a rank has failed.
    pub(super) fn start(&self, name: String) -> Result<Operation, Error> {
        match self.shared.verdict() {
            Some(verdict) => Err(verdict),
            None => Ok(Operation { number: self.shared.start(&name), name }),
        }
    }

    /// Waits for the end of an operation.
    pub(super) fn wait(&self, work: &Work, operation: &Operation) -> Result<(), Error> {
        self.wait_for(operation, |limit| Ok(work.wait(limit)?.then_some(())))
    }

    /// Waits for the result of an operation. `look` waits for it a limited time.
    pub(super) fn wait_for<T>(
        &self,
        operation: &Operation,
        look: impl Fn(Duration) -> Result<Option<T>, Error>,
    ) -> Result<T, Error> {
        self.shared.set_waiting(true);
        let begun = Instant::now();
        let limit = self.limits.operation();
        let found = loop {
            match look(LOOK) {
                Ok(Some(found)) => break found,
                Ok(None) => {}
                Err(problem) => return Err(self.fail(operation, reason(&problem))),
            }
            if let Some(verdict) = self.shared.verdict() {
                return Err(verdict);
            }
            if let Some(limit) = limit.filter(|limit| begun.elapsed() >= *limit) {
                return Err(self.fail(operation, format!("no answer for {} s", limit.as_secs_f64())));
            }
        };
        self.shared.set_waiting(false);
        Ok(found)
    }

    /// Reports a failed operation, and returns the error that names the rank which caused the failure.
    pub(super) fn fail(&self, operation: &Operation, message: String) -> Error {
        if let Some(verdict) = self.shared.verdict() {
            return verdict;
        }
        let Operation { number, name } = operation;
        let cause = Cause::Operation { number: *number, operation: name.clone(), message };
        let alone = cause.without_store(self.rank, &self.store);
        self.shared.report(cause, self.limits.verdict()).unwrap_or_else(|| error(alone))
    }
}
