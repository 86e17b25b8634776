//! Results of the runs of a sweep, read from their folders.

use std::collections::BTreeSet;
use std::path::Path;

use serde::{Deserialize, Serialize};
use store::Store;

use super::grid::Setting;
use super::plan::{RunSpec, SweepPlan, varied};
use crate::finetune::{RESULTS, TaskResults};

/// Record of a failed run, in its folder.
const FAILURE: &str = "failure.json";

/// Sweep with the state of its runs.
pub(crate) struct SweepResults {
    pub(crate) plan: SweepPlan,
    pub(crate) runs: Vec<RunOutcome>,
    /// Keys of settings that are not the same in all runs.
    pub(crate) varied: BTreeSet<String>,
}

/// Run with its state.
#[derive(Clone, Debug)]
pub(crate) struct RunOutcome {
    pub(crate) spec: RunSpec,
    pub(crate) state: RunState,
}

/// State of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum RunState {
    Finished(TaskResults),
    Failed(Failure),
    /// Not started, in progress, or stopped.
    Unfinished,
}

/// End of a run that failed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Failure {
    /// End of the process: `exit code 1`, `signal 9`.
    pub(crate) end: String,
    /// Its last error.
    pub(crate) error: String,
    /// Process that reports the failure, and its time in milliseconds since the Unix epoch.
    pub(crate) reporter: String,
    pub(crate) time: u64,
}

impl Failure {
    /// Records the failure in the folder of a run.
    pub(crate) fn write(&self, folder: &Store) -> std::io::Result<()> {
        folder.put(FAILURE, &serde_json::to_vec_pretty(self)?).map(drop)
    }

    /// Removes the record before another attempt.
    pub(crate) fn clear(folder: &Store) -> std::io::Result<()> {
        if folder.head(FAILURE)?.is_some() { folder.delete(FAILURE) } else { Ok(()) }
    }
}

impl RunState {
    /// Reads the state of a run of the sweep in `folder`.
    pub(crate) fn of(folder: &Path, run: &RunSpec) -> anyhow::Result<Self> {
        let folder = SweepPlan::run_folder(folder, run);
        if folder.is_dir() { Self::read(&Store::existing(folder)?) } else { Ok(Self::Unfinished) }
    }

    /// Reads the state of the run in that folder.
    pub(crate) fn read(folder: &Store) -> anyhow::Result<Self> {
        let run = folder.prefixed("run");
        if let Some((bytes, _)) = run.get_with_stat(RESULTS)? {
            let place = || run.place(RESULTS);
            let result = serde_json::from_slice(&bytes);
            return Ok(Self::Finished(result.map_err(|error| anyhow::anyhow!("{}: {error}", place()))?));
        }
        let failure = folder.get_with_stat(FAILURE)?.and_then(|(bytes, _)| serde_json::from_slice(&bytes).ok());
        Ok(failure.map_or(Self::Unfinished, Self::Failed))
    }
}

impl SweepResults {
    /// Reads the state of every run of the sweep in `folder`.
    pub(crate) fn read(plan: SweepPlan, folder: &Path) -> anyhow::Result<Self> {
        let specs = plan.runs();
        let states = specs.iter().map(|spec| RunState::of(folder, spec)).collect::<anyhow::Result<Vec<_>>>()?;
        Ok(Self::new(plan, specs, states))
    }

    /// Combines runs with their states.
    pub(crate) fn new(plan: SweepPlan, specs: Vec<RunSpec>, states: Vec<RunState>) -> Self {
        let varied = varied(&specs);
        let runs = specs.into_iter().zip(states).map(|(spec, state)| RunOutcome { spec, state }).collect();
        Self { plan, runs, varied }
    }

    /// Describes what distinguishes hyperparameters from those of other runs: `lr 1e-5, epochs 3`.
    pub(crate) fn describe(&self, settings: &[Setting]) -> String {
        let varied: Vec<&Setting> = settings.iter().filter(|it| self.varied.contains(&it.key)).collect();
        if varied.is_empty() { "the same".to_owned() } else { texts(&varied) }
    }

    /// Describes the hyperparameters that all runs share; `None` without any.
    pub(crate) fn shared_settings(&self) -> Option<String> {
        let settings = self.runs.first().into_iter().flat_map(|run| &run.spec.settings);
        let shared: Vec<&Setting> = settings.filter(|it| !self.varied.contains(&it.key)).collect();
        (!shared.is_empty()).then(|| texts(&shared))
    }

    /// Returns the finished runs with their metrics.
    pub(crate) fn finished(&self) -> impl Iterator<Item = (&RunSpec, &TaskResults)> {
        self.runs.iter().filter_map(|run| match &run.state {
            RunState::Finished(result) => Some((&run.spec, result)),
            _ => None,
        })
    }

    /// Returns the failed runs.
    pub(crate) fn failed(&self) -> impl Iterator<Item = (&RunSpec, &Failure)> {
        self.runs.iter().filter_map(|run| match &run.state {
            RunState::Failed(failure) => Some((&run.spec, failure)),
            _ => None,
        })
    }
}

fn texts(settings: &[&Setting]) -> String {
    settings.iter().map(|it| format!("{} {}", it.key, it.value)).collect::<Vec<_>>().join(", ")
}
