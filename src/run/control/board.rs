//! What all actors of a run do now: for who asks, and for who watches over them.

use std::fmt::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runtime::{Activity, PoolStats, WorkerStats};
use server::ActorStatus;

use super::signal::Phase;
use crate::run::worker_status;

/// Where everybody says what they do.
#[derive(Debug)]
pub struct Board(Mutex<State>);

/// What all do now.
pub(crate) struct Look {
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
    begun: Instant,
    phase: Phase,
    /// When something was last said of the phase, even if it was the same again.
    since: Instant,
    /// Batches that were taken: each by a step that has begun.
    batches: u64,
    /// Rows of the stream that steps have consumed.
    rows: u64,
    workers: Option<PoolStats>,
    /// Workers of a validation under way.
    validation: Option<PoolStats>,
    /// Since when a checkpoint is being written, and the newest that is kept.
    writing: Option<Instant>,
    kept: Option<String>,
}

impl Board {
    pub(super) fn new() -> Self {
        let (phase, since) = (Phase::Start, Instant::now());
        let state = State {
            begun: since,
            phase,
            since,
            batches: 0,
            rows: 0,
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

    pub(super) fn enter(&self, phase: Phase) {
        let mut state = self.lock();
        state.batches += u64::from((state.phase, phase) == (Phase::Data, Phase::Step));
        (state.phase, state.since) = (phase, Instant::now());
    }

    pub fn phase(&self) -> Phase {
        self.lock().phase
    }

    /// Steps have consumed the rows up to there.
    pub fn consumed(&self, rows: u64) {
        self.lock().rows = rows;
    }

    /// Up to where, and what it does now.
    pub fn course(&self) -> (u64, Phase) {
        let state = self.lock();
        (state.rows, state.phase)
    }

    /// The workers that make batches from now on.
    pub fn workers(&self, gauges: PoolStats) {
        self.lock().workers = Some(gauges);
    }

    /// Their clocks.
    pub fn gauges(&self) -> Option<PoolStats> {
        self.lock().workers.clone()
    }

    /// Those of a validation, while there is one.
    pub fn validation(&self, gauges: Option<PoolStats>) {
        self.lock().validation = gauges;
    }

    /// A checkpoint is being written.
    pub fn writes(&self) {
        self.lock().writing = Some(Instant::now());
    }

    /// It is kept there; or it is not.
    pub fn wrote(&self, place: Option<String>) {
        let mut state = self.lock();
        state.writing = None;
        state.kept = place.or(state.kept.take());
    }

    /// Batches that were taken so far.
    pub(crate) fn batches(&self) -> u64 {
        self.lock().batches
    }

    /// What all do now.
    pub(crate) fn look(&self) -> Look {
        let state = self.lock();
        Look {
            phase: state.phase,
            since: state.since.elapsed(),
            actors: state.workers.as_ref().map_or_else(Vec::new, worker_status::actors),
            validation: state.validation.as_ref().map_or_else(Vec::new, worker_status::actors),
            writing: state.writing.map(|since| since.elapsed()),
            kept: state.kept.clone(),
            uptime: state.begun.elapsed(),
        }
    }

    /// How full the queues of batches are: 0 to 1; none where there are none.
    pub(crate) fn queue_fill(&self) -> Option<f64> {
        let state = self.lock();
        let workers: Vec<WorkerStats> = state.workers.iter().flat_map(PoolStats::workers).collect();
        let sum = |of: fn(&WorkerStats) -> usize| workers.iter().map(of).sum::<usize>();
        let (queued, capacity) = (sum(|worker| worker.queued), sum(|worker| worker.capacity));
        (capacity > 0).then(|| queued as f64 / capacity as f64)
    }

    /// The newest checkpoint that this process has kept.
    pub(super) fn kept(&self) -> Option<String> {
        self.lock().kept.clone()
    }

    /// One line for each actor: what it does and for how long, where its time went, what waits behind it.
    pub(super) fn report(&self) -> Vec<String> {
        let state = self.lock();
        let age = state.since.elapsed().as_secs_f64();
        let mut lines =
            vec![format!("trainer: {} for {age:.1} s, {} batches taken", state.phase.name(), state.batches)];
        for gauges in state.workers.iter().chain(&state.validation) {
            lines.extend(worker_status::actors(gauges).iter().map(of));
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

    /// Whether something happens, or what stands still waits for parts of a corpus that others prepare: that wait watches
    /// them by itself, and ends when nobody does. Who stands still for longer than `patience`, and for how long, if not.
    pub(super) fn goes_on(&self, patience: Duration) -> Result<(), (Duration, String)> {
        let state = self.lock();
        let age = state.since.elapsed();
        if age < patience {
            return Ok(());
        }
        let mut found = format!("the trainer is in phase `{}` for {:.0} s", state.phase.name(), age.as_secs_f64());
        let workers = || state.workers.iter().chain(&state.validation).flat_map(PoolStats::workers);
        // Whoever waits stands still because of another.
        let stuck: Vec<WorkerStats> =
            workers().filter(|worker| worker.doing == Some(Activity::Busy) && worker.age >= patience).collect();
        let waits = |worker: &WorkerStats| worker.doing == Some(Activity::Starved);
        if state.phase == Phase::Data
            && stuck.is_empty()
            && state.workers.iter().flat_map(PoolStats::workers).any(|it| waits(&it))
        {
            return Ok(());
        }
        for worker in stuck {
            let _ = write!(found, "; `{}` works at one batch for {:.0} s", worker.name, worker.age.as_secs_f64());
        }
        if let Some(since) = state.writing.filter(|since| since.elapsed() >= patience) {
            let _ = write!(found, "; a checkpoint is being written for {:.0} s", since.elapsed().as_secs_f64());
        }
        Err((age, found))
    }
}

fn of(actor: &ActorStatus) -> String {
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
    fn whoever_stands_still_is_named_and_who_goes_on_is_not() {
        let board = Board::new();
        board.enter(Phase::Validation);
        assert_eq!(board.goes_on(Duration::from_secs(60)), Ok(()));
        let (_, found) = board.goes_on(Duration::ZERO).expect_err("no patience at all");
        assert!(found.contains("phase `validation`") && !found.contains("checkpoint is"), "{found}");
        board.writes();
        let (_, found) = board.goes_on(Duration::ZERO).expect_err("no patience at all");
        assert!(found.contains("a checkpoint is being written"), "{found}");
        board.wrote(Some("run/checkpoints/step-00000040".to_owned()));
        assert!(board.report().iter().any(|line| line.contains("step-00000040")), "{:?}", board.report());
        board.wrote(None);
        assert_eq!(board.kept().as_deref(), Some("run/checkpoints/step-00000040"), "what failed takes nothing away");
    }
}
