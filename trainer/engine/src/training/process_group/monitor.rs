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

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;
use trainer_plan::Error;
use trainer_plan::launch::Launch;

use super::failure::{Cause, Report, Status, Verdict, error};
use super::rendezvous;
use crate::device::native::c10d::KeyStore;

/// Interval of looks for a failure. A thousand ranks look 4,000 times a second, which a store answers easily.
const WATCH: Duration = Duration::from_millis(250);
/// Interval of looks for answers.
const POLL: Duration = Duration::from_millis(20);
/// Maximum time for answers of other ranks.
const MAX_GRACE: Duration = Duration::from_secs(5);

/// Time limits of a process group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Limit of joining, and of an operation with the description of its failure. `None`: no limit.
    pub total: Option<Duration>,
    /// Limit of the other ranks' answers after a failure, and then of their reading.
    pub grace: Duration,
}

impl Limits {
    /// Returns the limits of a run whose ranks end within `total`.
    pub(super) fn new(total: Option<Duration>) -> Self {
        Self { total, grace: total.map_or(MAX_GRACE, |total| (total / 4).min(MAX_GRACE)) }
    }

    /// Returns the limit of an operation.
    pub(super) fn operation(self) -> Option<Duration> {
        self.total.map(|total| total.saturating_sub(2 * self.grace))
    }
}

/// State of a rank that its training thread and its monitor share.
#[derive(Debug)]
pub(super) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    rank: u32,
}

#[derive(Debug)]
struct State {
    /// Latest operation, counted from 1, and its name.
    number: u64,
    operation: String,
    is_waiting: bool,
    since: Instant,
    /// Failure that this rank has noticed.
    report: Option<Report>,
    verdict: Option<String>,
    is_closing: bool,
    has_ended: bool,
}

impl Shared {
    pub(super) fn new(rank: u32) -> Arc<Self> {
        let state = State {
            number: 0,
            operation: String::new(),
            is_waiting: false,
            since: Instant::now(),
            report: None,
            verdict: None,
            is_closing: false,
            has_ended: false,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), rank })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.lock());
        self.changed.notify_all();
    }

    /// Waits until `is_reached`, at most `limit`.
    fn wait(&self, limit: Duration, is_reached: impl Fn(&State) -> bool) -> MutexGuard<'_, State> {
        let waits = |state: &mut State| !is_reached(state);
        self.changed.wait_timeout_while(self.lock(), limit, waits).unwrap_or_else(PoisonError::into_inner).0
    }

    /// Enters the next operation and returns its number.
    pub(super) fn start(&self, operation: &str) -> u64 {
        let mut state = self.lock();
        state.number += 1;
        operation.clone_into(&mut state.operation);
        state.number
    }

    /// Enters that this rank begins or ends to wait for an operation.
    pub(super) fn set_waiting(&self, is_waiting: bool) {
        let mut state = self.lock();
        state.is_waiting = is_waiting;
        state.since = Instant::now();
    }

    /// Returns the error of a failure of any rank.
    pub(super) fn verdict(&self) -> Option<Error> {
        self.lock().verdict.clone().map(error)
    }

    /// Reports a failure, and waits for the verdict, at most `limit`.
    pub(super) fn report(&self, cause: Cause, limit: Duration) -> Option<Error> {
        self.update(|state| state.report = Some(Report { rank: self.rank, cause }));
        self.wait(limit, |state| state.verdict.is_some() || state.has_ended).verdict.clone().map(error)
    }

    /// Ends the monitor, and waits for it, at most `limit`.
    pub(super) fn close(&self, limit: Duration) {
        self.update(|state| state.is_closing = true);
        drop(self.wait(limit, |state| state.has_ended));
    }

    fn status(&self) -> Status {
        let state = self.lock();
        Status {
            rank: self.rank,
            number: state.number,
            operation: state.operation.clone(),
            is_waiting: state.is_waiting,
            seconds: state.since.elapsed().as_secs(),
        }
    }
}

/// Monitor of a rank.
#[derive(Debug)]
pub(super) struct Monitor {
    shared: Arc<Shared>,
    store: KeyStore,
    world_size: u32,
    is_server: bool,
    grace: Duration,
}

impl Monitor {
    pub(super) fn new(shared: Arc<Shared>, store: KeyStore, launch: &Launch, limits: Limits) -> Self {
        let is_server = rendezvous::is_server(launch);
        Self { shared, store, world_size: launch.world_size, is_server, grace: limits.grace }
    }

    /// Watches until a failure, or until the group closes. An error means that the store has not answered: the operations
    /// of this rank then fail by themselves.
    pub(super) fn watch(&self) -> Result<(), Error> {
        loop {
            let state = self.shared.wait(WATCH, |state| state.report.is_some() || state.is_closing);
            let report = state.report.clone();
            let is_closing = state.is_closing;
            drop(state);
            if let Some(report) = report {
                self.store.set_first("failure", &json(&report))?;
            } else if is_closing {
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
        self.shared.update(|state| state.verdict = Some(verdict.message));
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
        while begun.elapsed() < self.grace + self.grace / 2 {
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
        while self.store.add(key, 0)? < i64::from(count) && begun.elapsed() < self.grace {
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
        self.0.update(|state| state.has_ended = true);
    }
}

fn state_key(rank: u32) -> String {
    format!("states/{rank}")
}

fn json<T: Serialize>(value: &T) -> Vec<u8> {
    serde_json::to_vec(value).expect("numbers and texts become JSON")
}
