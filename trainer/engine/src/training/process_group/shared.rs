//! State of a rank that its training thread and its monitor share, and the time limits of both.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use trainer_plan::Error;

use super::device_operations::DeviceOperations;
use super::failure::{Cause, Report, Status, error};

/// Maximum time for answers of other ranks.
const MAX_GRACE: Duration = Duration::from_secs(5);

/// Limit of c10d for operations of a group without a limit, and maximum of a limit.
pub(super) const MAX_TIMEOUT: Duration = Duration::from_secs(30 * 24 * 3600);

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
        let total = total.map(|total| total.min(MAX_TIMEOUT));
        Self { total, grace: total.map_or(MAX_GRACE, |total| (total / 4).min(MAX_GRACE)) }
    }

    /// Returns the limit of a wait for the verdict on a failure. Together with the limit of an operation it leaves some time
    /// of the total for the end of the process.
    pub(super) fn verdict(self) -> Duration {
        self.grace * 3 / 2
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
    /// This rank.
    pub rank: u32,
    /// Operations of the CUDA device, after the first one.
    pub device: OnceLock<DeviceOperations>,
}

#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent facts, each read alone")]
struct State {
    // Latest operation, counted from 1, and its name.
    number: u64,
    operation: String,
    is_waiting: bool,
    since: Instant,
    // Failure that this rank has noticed.
    report: Option<Report>,
    verdict: Option<String>,
    is_closing: bool,
    is_store_lost: bool,
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
            is_store_lost: false,
            has_ended: false,
        };
        Arc::new(Self { state: Mutex::new(state), changed: Condvar::new(), rank, device: OnceLock::new() })
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
    ///
    /// Only the first report waits: the others of a process that ends would wait for the same silent store.
    pub(super) fn report(&self, cause: Cause, limit: Duration) -> Option<Error> {
        let is_first = self.lock().report.is_none();
        self.update(|state| state.report = Some(Report { rank: self.rank, cause }));
        let limit = if is_first { limit } else { Duration::ZERO };
        let is_settled = |state: &State| state.verdict.is_some() || state.is_store_lost || state.has_ended;
        self.wait(limit, is_settled).verdict.clone().map(error)
    }

    /// Ends the monitor, and waits for it, at most `limit`; not if its store has not answered to a report.
    pub(super) fn close(&self, limit: Duration) {
        let is_silent = {
            let state = self.lock();
            state.report.is_some() && state.verdict.is_none()
        };
        let limit = if is_silent { Duration::ZERO } else { limit };
        self.update(|state| state.is_closing = true);
        drop(self.wait(limit, |state| state.has_ended));
    }

    /// Waits for a report of this rank or for the end of the group, at most `limit`. Returns the report.
    pub(super) fn next_report(&self, limit: Duration) -> Option<Report> {
        self.wait(limit, |state| state.report.is_some() || state.is_closing).report.clone()
    }

    /// Waits for the end of the group, at most `limit`. Returns whether it ends.
    pub(super) fn is_closing_within(&self, limit: Duration) -> bool {
        self.wait(limit, |state| state.is_closing).is_closing
    }

    /// Sets the error of a failure of any rank.
    pub(super) fn set_verdict(&self, message: String) {
        self.update(|state| state.verdict = Some(message));
    }

    /// Enters that the store does not answer.
    pub(super) fn set_store_lost(&self) {
        self.update(|state| state.is_store_lost = true);
    }

    /// Enters that the monitor has ended.
    pub(super) fn set_ended(&self) {
        self.update(|state| state.has_ended = true);
    }

    /// Returns the state for other ranks.
    pub(super) fn status(&self) -> Status {
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
