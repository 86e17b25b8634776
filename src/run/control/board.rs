//! Current status of all workers of a run, for status requests and the watchdog.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runtime::{Activity, PoolStats, WorkerStats};
use server::ActorStatus;

use super::signal::Phase;
use crate::run::worker_status;

/// Board on which the trainer and its workers record their status.
#[derive(Debug)]
pub struct StatusBoard(Mutex<State>);

/// Snapshot of the status of all workers.
pub(crate) struct BoardSnapshot {
    pub(crate) phase: Phase,
    pub(crate) since: Duration,
    pub(crate) actors: Vec<ActorStatus>,
    pub(crate) validation: Vec<ActorStatus>,
    pub(crate) writing: Option<Duration>,
    pub(crate) kept: Option<String>,
    pub(crate) uptime: Duration,
}

#[derive(Debug)]
struct State {
    started: Instant,
    phase: Phase,
    /// Time of the last record of the phase, even if the phase stayed the same.
    since: Instant,
    /// Number of batches that steps have taken.
    batches: u64,
    /// Rows of the stream that steps have consumed.
    rows: u64,
    /// Steps done, and steps done at the newest checkpoint.
    done: u64,
    saved: u64,
    workers: Option<PoolStats>,
    /// Workers of a validation under way.
    validation: Option<PoolStats>,
    /// Start of the checkpoint that is being written, and the newest checkpoint that was saved.
    writing: Option<Instant>,
    kept: Option<String>,
}

impl StatusBoard {
    pub(super) fn new() -> Self {
        let phase = Phase::Start;
        let since = Instant::now();
        let state = State {
            started: since,
            phase,
            since,
            batches: 0,
            rows: 0,
            done: 0,
            saved: 0,
            workers: None,
            validation: None,
            writing: None,
            kept: None,
        };
        Self(Mutex::new(state))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_phase(&self, phase: Phase) {
        let mut state = self.lock();
        state.batches += u64::from((state.phase, phase) == (Phase::Data, Phase::Step));
        (state.phase, state.since) = (phase, Instant::now());
    }

    pub fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Records that the run continues after `rows` rows and `done` steps, all of them saved.
    pub fn resume(&self, rows: u64, done: u64) {
        let mut state = self.lock();
        (state.rows, state.done, state.saved) = (rows, done, done);
    }

    /// Records the number of rows that steps have consumed, and of steps done.
    pub fn consumed(&self, rows: u64, done: u64) {
        let mut state = self.lock();
        (state.rows, state.done) = (rows, done);
    }

    /// Returns the number of consumed rows and the phase.
    pub fn progress(&self) -> (u64, Phase) {
        let state = self.lock();
        (state.rows, state.phase)
    }

    /// Sets the workers that make training batches.
    pub fn workers(&self, worker_stats: PoolStats) {
        self.lock().workers = Some(worker_stats);
    }

    /// Statistics of the training workers.
    pub fn worker_stats(&self) -> Option<PoolStats> {
        self.lock().workers.clone()
    }

    /// Sets the workers of a validation; `None` after it.
    pub fn validation(&self, worker_stats: Option<PoolStats>) {
        self.lock().validation = worker_stats;
    }

    /// Records that a checkpoint is being written.
    pub fn writes(&self) {
        self.lock().writing = Some(Instant::now());
    }

    /// Records the end of the write: the place of the checkpoint of `step`, or `None` if it failed.
    pub fn wrote(&self, step: u64, place: Option<String>) {
        let mut state = self.lock();
        state.writing = None;
        if place.is_some() {
            (state.kept, state.saved) = (place, step);
        }
    }

    /// First and last step that no checkpoint has; `None` if all steps done are saved.
    pub(super) fn unsaved(&self) -> Option<(u64, u64)> {
        let state = self.lock();
        (state.saved < state.done).then_some((state.saved + 1, state.done))
    }

    /// Number of batches that steps have taken.
    pub(crate) fn batches(&self) -> u64 {
        self.lock().batches
    }

    /// Returns a snapshot of the status.
    pub(crate) fn look(&self) -> BoardSnapshot {
        let state = self.lock();
        BoardSnapshot {
            phase: state.phase,
            since: state.since.elapsed(),
            actors: state.workers.as_ref().map_or_else(Vec::new, worker_status::actors),
            validation: state.validation.as_ref().map_or_else(Vec::new, worker_status::actors),
            writing: state.writing.map(|since| since.elapsed()),
            kept: state.kept.clone(),
            uptime: state.started.elapsed(),
        }
    }

    /// Fill level of the batch queues, from 0 to 1. `None` if there are no queues.
    pub(crate) fn queue_fill(&self) -> Option<f64> {
        let state = self.lock();
        let workers: Vec<WorkerStats> = state.workers.iter().flat_map(PoolStats::workers).collect();
        let sum = |of: fn(&WorkerStats) -> usize| workers.iter().map(of).sum::<usize>();
        let queued = sum(|worker| worker.queued);
        let capacity = sum(|worker| worker.capacity);
        (capacity > 0).then(|| queued as f64 / capacity as f64)
    }

    /// One line for each worker: its activity and the duration, the division of its time, the length of its queue.
    pub(super) fn report(&self) -> Vec<String> {
        let state = self.lock();
        let age = state.since.elapsed().as_secs_f64();
        let mut lines =
            vec![format!("trainer: {} for {age:.1} s, {} batches taken", state.phase.name(), state.batches)];
        for worker_stats in state.workers.iter().chain(&state.validation) {
            lines.extend(worker_status::actors(worker_stats).iter().map(actor_line));
        }
        let kept = state.kept.as_deref().unwrap_or("none in this process");
        lines.push(match state.writing {
            Some(since) => {
                format!("checkpoint: written for {:.1} s; kept before: {kept}", since.elapsed().as_secs_f64())
            }
            None => format!("checkpoint: none is being written; kept: {kept}"),
        });
        lines
    }

    /// Whether there is progress. Waiting for parts of a corpus that another process prepares counts as progress: that
    /// wait has its own check, and ends when no process prepares them. Otherwise returns the time without progress and
    /// the stalled workers.
    pub(super) fn check_progress(&self, stall_timeout: Duration) -> Result<(), (Duration, String)> {
        let state = self.lock();
        let age = state.since.elapsed();
        if age < stall_timeout {
            return Ok(());
        }
        let mut found =
            format!("the trainer has been in phase `{}` for {:.0} s", state.phase.name(), age.as_secs_f64());
        let workers = || state.workers.iter().chain(&state.validation).flat_map(PoolStats::workers);
        // Waiting workers are not named: they wait for another worker that is stalled.
        let stuck: Vec<WorkerStats> =
            workers().filter(|worker| worker.doing == Some(Activity::Busy) && worker.age >= stall_timeout).collect();
        let waits = |worker: &WorkerStats| worker.doing == Some(Activity::Starved);
        if state.phase == Phase::Data
            && stuck.is_empty()
            && state.workers.iter().flat_map(PoolStats::workers).any(|it| waits(&it))
        {
            return Ok(());
        }
        for worker in stuck {
            let _ = write!(found, "; `{}` has worked on one batch for {:.0} s", worker.name, worker.age.as_secs_f64());
        }
        if let Some(since) = state.writing.filter(|since| since.elapsed() >= stall_timeout) {
            let _ = write!(found, "; a checkpoint is being written (for {:.0} s)", since.elapsed().as_secs_f64());
        }
        Err((age, found))
    }
}

fn actor_line(actor: &ActorStatus) -> String {
    let ActorStatus { name, doing, since_s, items, queued, capacity, .. } = actor;
    let [busy, starved, blocked] = actor.shares().map(|share| 100.0 * share);
    format!(
        "{name}: {doing} for {since_s:.1} s, {items} items; busy {busy:.1} %, starved {starved:.1} %, \
         blocked {blocked:.1} %; queue {queued} of {capacity}"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stalled_worker_is_named_and_others_are_not() {
        let board = StatusBoard::new();
        board.set_phase(Phase::Validation);
        assert_eq!(board.check_progress(Duration::from_secs(60)), Ok(()));
        let (_, found) = board.check_progress(Duration::ZERO).expect_err("the timeout is zero");
        assert!(found.contains("phase `validation`") && !found.contains("checkpoint is"), "{found}");
        board.writes();
        let (_, found) = board.check_progress(Duration::ZERO).expect_err("the timeout is zero");
        assert!(found.contains("a checkpoint is being written"), "{found}");
        board.resume(80, 20);
        assert_eq!(board.unsaved(), None);
        board.consumed(172, 43);
        assert_eq!(board.unsaved(), Some((21, 43)));
        board.wrote(40, Some("run/checkpoints/step-00000040".to_owned()));
        assert_eq!(board.unsaved(), Some((41, 43)));
        assert!(board.report().iter().any(|line| line.contains("step-00000040")), "{:?}", board.report());
        board.wrote(43, None);
        assert_eq!(board.unsaved(), Some((41, 43)));
        assert_eq!(
            board.look().kept.as_deref(),
            Some("run/checkpoints/step-00000040"),
            "what failed takes nothing away"
        );
    }
}
