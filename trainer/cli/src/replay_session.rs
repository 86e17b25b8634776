//! Repetition of a step of a run: its rows and their effect, for `explain` and `replay`.
//!
//! The run may be in progress: the session changes nothing of it and does not take its lock.

mod config_at_step;
mod logged;

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cloze::commands::checkpoints::existing;
use cloze::exit::Usage;
use cloze::plan::Plan;
use cloze::run::bad_rows::RunBadRows;
use pipeline::load::{BatchStream, ExcludedRows, LoadPlan, RowPolicy, StreamOptions};
use schemas::{Batch, RankShard, RowIndex, Step};
use store::Store;
use telemetry::terminal::note;
use trainer::training::Replay;
use trainer_plan::checkpoint;

use self::config_at_step::ConfigAtStep;
pub(crate) use self::logged::Logged;

/// Interval between progress lines.
const PROGRESS_EVERY: Duration = Duration::from_secs(10);

/// Run in the state before a step.
pub(crate) struct ReplaySession {
    pub(crate) plan: Plan,
    pub(crate) store: Store,
    pub(crate) replay: Replay,
    /// Number of steps that were repeated to reach this state.
    pub(crate) steps: u64,
    left_out: Arc<RunBadRows>,
}

impl ReplaySession {
    /// Opens a run in the state before step `step`, counted from 1 as in reports.
    ///
    /// `set` may change keys that do not affect the numbers.
    pub(crate) fn prepare(run: &Path, step: u64, set: &[String]) -> anyhow::Result<Self> {
        let store = existing(run)?;
        let config = ConfigAtStep::new(step, checkpoint::newest_state(&store)?);
        let plan = config.plan(|config| Plan::from_run_read_only(run, &[&config[..], set].concat()))?;
        check(&plan, step)?;
        let left_out = Arc::new(plan.left_out()?);
        let replay = Replay::start(plan.train(), &store, Step(step - 1))?;
        config.check_between(replay.done())?;
        let steps = step - 1 - replay.done().0;
        let mut session = Self { plan, store, replay, steps, left_out };
        session.advance_to(step - 1)?;
        Ok(session)
    }

    fn advance_to(&mut self, done: u64) -> anyhow::Result<()> {
        if self.steps == 0 {
            return Ok(());
        }
        let mut stream = self.stream(self.replay.rows_consumed());
        let mut last_note = Instant::now();
        while self.replay.done().0 < done {
            let batches = self.next_of(&mut stream)?;
            self.replay.step(&batches)?;
            if last_note.elapsed() >= PROGRESS_EVERY {
                last_note = Instant::now();
                note(format_args!("replay: step {} of {done}", self.replay.done()));
            }
        }
        Ok(())
    }

    /// Returns the micro-batches of the next step. Rows of `without` and bad rows of the run are padding.
    pub(crate) fn batches(&self, without: ExcludedRows) -> anyhow::Result<Vec<Batch>> {
        let load = self.load();
        let first = self.replay.rows_consumed().0;
        let groups = load.groups();
        let care = RowPolicy { excluded: without, ..self.row_policy() };
        let per_step = self.plan.train().train.global_batch_size / load.rows_per_batch();
        let numbers = (first / load.rows_per_batch()..).take(usize::try_from(per_step)?);
        numbers.map(|number| Ok(load.batch_with(&groups, schemas::BatchIndex(number), &care)?)).collect()
    }

    /// Returns the rows of the next step.
    pub(crate) fn rows(&self) -> std::ops::Range<u64> {
        let first = self.replay.rows_consumed().0;
        first..first + self.plan.train().train.global_batch_size
    }

    /// Runs the next step.
    pub(crate) fn step(&mut self, batches: &[Batch]) -> anyhow::Result<()> {
        Ok(self.replay.step(batches)?)
    }

    /// Returns the hash of the stream after `until` steps. Reads the rows without training on them.
    pub(crate) fn hash_after(&self, until: Step) -> anyhow::Result<String> {
        let mut hash = *self.replay.batch_hash();
        let mut stream = self.stream(self.replay.rows_consumed());
        for _ in self.replay.done().0..until.0 {
            let batches = self.next_of(&mut stream)?;
            hash.step(batches.iter().flat_map(Batch::row_digests).copied());
        }
        Ok(hash.to_hex())
    }

    pub(crate) fn load(&self) -> &Arc<LoadPlan> {
        self.plan.load()
    }

    /// Returns the row policy with the bad rows of the run.
    pub(crate) fn row_policy(&self) -> RowPolicy {
        RowPolicy { bad_rows: Some(Arc::clone(&self.left_out) as _), ..RowPolicy::default() }
    }

    fn stream(&self, from: RowIndex) -> BatchStream {
        let options = StreamOptions { digests: true, policy: self.row_policy(), ..StreamOptions::default() };
        BatchStream::new(self.load(), from, RankShard::ALONE, options)
    }

    fn next_of(&self, stream: &mut BatchStream) -> anyhow::Result<Vec<Batch>> {
        let train = &self.plan.train().train;
        let count = usize::try_from(train.global_batch_size / train.micro_batch_size)?;
        Ok(stream.take(count).collect::<Result<_, _>>()?)
    }
}

/// Checks that the run has the step, and that its data is decided.
fn check(plan: &Plan, step: u64) -> anyhow::Result<()> {
    let steps = plan.train().train.steps;
    if step == 0 || step > steps {
        return Err(Usage(format!("--step {step}: steps are counted from 1, and the run has {steps}")).into());
    }
    let rows = step * plan.train().train.global_batch_size;
    match plan.load().rows_decided()? {
        Some(decided) if rows > decided.0 => Err(Usage(format!(
            "--step {step}: the run has not reached this step, and the data of its rows is not decided yet (decided up to \
             row {decided})"
        ))
        .into()),
        _ => Ok(()),
    }
}

/// Parses rows of a step by their numbers in the stream, like `12,40-43`.
pub(crate) fn parse_rows(text: &str, within: &std::ops::Range<u64>) -> anyhow::Result<ExcludedRows> {
    let refuse = |part: &str| {
        Usage(format!(
            "`{part}`: expected rows of the step, {} to {}, like `{}` or `{}-{}`",
            within.start,
            within.end - 1,
            within.start,
            within.start,
            within.end - 1
        ))
    };
    let mut rows = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |digits: &str| digits.trim().parse::<u64>().ok().filter(|row| within.contains(row));
        let (Some(first), Some(last)) = (number(first), number(last)) else { return Err(refuse(part).into()) };
        rows.extend((first..=last).map(RowIndex));
    }
    Ok(rows.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbers_and_ranges_within_the_step() {
        let rows = |text: &str| {
            parse_rows(text, &(8..16))
                .map(|rows| (0..20).filter(|&row| rows.contains(RowIndex(row))).collect::<Vec<_>>())
        };
        assert_eq!(rows("9").expect("one"), [9]);
        assert_eq!(rows("8,10-12, 15").expect("three parts"), [8, 10, 11, 12, 15]);
        for wrong in ["", "7", "16", "8-16", "x", "9-", "-9", "9,,10"] {
            let error = rows(wrong).expect_err(wrong).to_string();
            assert!(error.contains("8 to 15"), "{error}");
        }
    }
}
