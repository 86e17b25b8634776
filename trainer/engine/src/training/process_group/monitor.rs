//! Thread of a rank that watches the store for failures of any rank, and answers the rank that noticed one.
//!
//! # Keys
//! | key | written by | value |
//! |---|---|---|
//! | `failure` | the first rank that notices a failure | [`Report`] |
//! | `states/RANK` | every rank that answers | [`Status`] |
//! | `answers` | every rank that answers | count |
//! | `verdict` | the rank of the report | [`Verdict`] |
//! | `readers` | every rank that has the verdict | count |
//!
//! Only this thread uses the store after the start. So a store that does not answer blocks no other thread.

use std::sync::Arc;
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use trainer_plan::Error;
use trainer_plan::launch::Launch;

use super::failure::{Cause, Report, Status, Verdict};
use super::rendezvous;
use super::shared::{Limits, Shared};
use crate::device::native::c10d::KeyStore;

/// Interval of looks for a failure. A thousand ranks look 4,000 times a second, which a store answers easily.
const WATCH: Duration = Duration::from_millis(250);
/// Interval of looks for answers.
const POLL: Duration = Duration::from_millis(20);
/// Monitor of a rank.
#[derive(Debug)]
pub(super) struct Monitor {
    shared: Arc<Shared>,
    store: KeyStore,
    world_size: u32,
    is_server: bool,
    place: String,
    limits: Limits,
}

impl Monitor {
    pub(super) fn new(shared: Arc<Shared>, store: KeyStore, launch: &Launch, limits: Limits) -> Self {
        let is_server = rendezvous::is_server(launch);
        let place = rendezvous::place(launch);
        Self { shared, store, world_size: launch.world_size, is_server, place, limits }
    }

    /// Watches until a failure, or until the group closes.
    pub(super) fn watch(&self) {
        if let Err(problem) = self.watch_store() {
            // Rank 0 may have come to the end of the run. If it has failed, the operations of this rank fail, too.
            tracing::debug!(%problem, "process group: the store does not answer");
            self.shared.set_store_lost();
            self.watch_device();
        }
        if let (Some(device), Some(_)) = (self.shared.device.get(), self.shared.verdict()) {
            device.abort();
        }
    }

    /// Watches the device of this rank alone.
    fn watch_device(&self) {
        while !self.shared.is_closing_within(WATCH) {
            if let Some(cause) = self.device_failure() {
                return self.shared.set_verdict(cause.without_store(self.shared.rank, &self.place));
            }
        }
    }

    fn device_failure(&self) -> Option<Cause> {
        self.shared.device.get()?.failure(self.limits.operation())
    }

    fn watch_store(&self) -> Result<(), Error> {
        loop {
            let own = self.shared.next_report(WATCH);
            let of_device = || self.device_failure().map(|cause| Report { rank: self.shared.rank, cause });
            if let Some(report) = own.or_else(of_device) {
                self.store.set_first("failure", &json(&report))?;
            } else if self.shared.is_closing_within(Duration::ZERO) {
                return Ok(());
            }
            if let Some(report) = self.read::<Report>("failure")? {
                return self.settle(&report);
            }
        }
    }

    /// Finds the verdict, and publishes it to this rank.
    fn settle(&self, report: &Report) -> Result<(), Error> {
        let verdict = match &report.cause {
            Cause::End { message } => Verdict::of_end(report.rank, message, self.world_size),
            Cause::Operation { .. } => self.verdict(report)?,
        };
        self.store.add("readers", 1)?;
        if self.is_server {
            // The store ends with this process.
            self.wait_for_count("readers", verdict.readers)?;
        }
        self.shared.set_verdict(verdict.message);
        Ok(())
    }

    fn verdict(&self, report: &Report) -> Result<Verdict, Error> {
        self.store.set(&state_key(self.shared.rank), &json(&self.shared.status()))?;
        self.store.add("answers", 1)?;
        if report.rank == self.shared.rank {
            self.wait_for_count("answers", self.world_size)?;
            let verdict = Verdict::of_operation(report, &self.statuses()?, self.world_size);
            self.store.set("verdict", &json(&verdict))?;
            return Ok(verdict);
        }
        let begun = Instant::now();
        while begun.elapsed() < self.limits.grace + self.limits.grace / 2 {
            if let Some(verdict) = self.read("verdict")? {
                return Ok(verdict);
            }
            sleep(POLL);
        }
        // The rank that reports has ended before its verdict.
        Ok(Verdict::of_operation(report, &self.statuses()?, self.world_size))
    }

    /// Returns the states of the ranks that have answered.
    fn statuses(&self) -> Result<Vec<Status>, Error> {
        let mut statuses = Vec::new();
        for rank in 0..self.world_size {
            statuses.extend(self.read::<Status>(&state_key(rank))?.filter(|status| status.rank == rank));
        }
        Ok(statuses)
    }

    /// Waits until a count is reached, or for the time of grace.
    fn wait_for_count(&self, key: &str, count: u32) -> Result<(), Error> {
        let begun = Instant::now();
        while self.store.add(key, 0)? < i64::from(count) && begun.elapsed() < self.limits.grace {
            sleep(POLL);
        }
        Ok(())
    }

    /// Reads a value; `None` if there is none, or if it is not of this program.
    fn read<T: DeserializeOwned>(&self, key: &str) -> Result<Option<T>, Error> {
        Ok(self.store.get(key)?.and_then(|bytes| serde_json::from_slice(&bytes).ok()))
    }
}

/// Sets the end of the monitor when it is dropped, also by a panic.
#[derive(Debug)]
pub(super) struct EndGuard(pub Arc<Shared>);

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.0.set_ended();
    }
}

fn state_key(rank: u32) -> String {
    format!("states/{rank}")
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers and texts become JSON")
}
