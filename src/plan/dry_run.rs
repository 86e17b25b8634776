//! Dry run: the plan of a run, for users and programs to read.

use std::io::ErrorKind;
use std::path::Path;

use pipeline::load::{self, RowOrder};
use schemas::manifest;

use super::run_progress::{self, RunProgress};
use super::step_estimate::TargetMachine;
use super::{Plan, assumed_data, describe, preparing, ranks, run_cost, run_time, warnings};
use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::config::corpora::NamedCorpus;
use crate::exit::Usage;
use crate::run::data::{PreparedData, Purpose, SourceProblems};

/// Whether a corpus is prepared in this folder. If the folder cannot be read, returns `true`; opening it reports the
/// error.
fn is_prepared(folder: &Path) -> bool {
    match remote_store::existing_path(folder) {
        Ok(store) => store.head(manifest::NAME).map_or(true, |found| found.is_some()),
        Err(error) => error.kind() != ErrorKind::NotFound,
    }
}

/// Plan of a run for reading only. If no corpus is prepared yet, it uses the data that the configuration expects. No
/// run can be started from it.
pub struct DryRun {
    plan: Plan,
    target: TargetMachine,
}

impl DryRun {
    /// Plans a configuration.
    ///
    /// # Errors
    /// The same as those of [`Plan::new`], and if the ranks cannot share a step. Unprepared data is no mistake.
    pub fn new(args: &ConfigArgs, target: TargetMachine) -> anyhow::Result<Self> {
        let purpose = if target.gpu.is_some() { Purpose::DryRunElsewhere } else { Purpose::DryRun };
        let found = Self::with_purpose(args, purpose, target)?;
        match target.ranks.and_then(|ranks| found.plan.train.ranks_problem(ranks)) {
            Some(problem) => Err(Usage(problem).into()),
            None => Ok(found),
        }
    }

    /// Plans a configuration whose steps are timed on synthetic batches: nothing of a run is read or written.
    ///
    /// # Errors
    /// As [`new`](Self::new), without the checks of a run's folders.
    pub fn for_timing(args: &ConfigArgs) -> anyhow::Result<Self> {
        Self::with_purpose(args, Purpose::ReadOnly, TargetMachine::default())
    }

    fn with_purpose(args: &ConfigArgs, purpose: Purpose, target: TargetMachine) -> anyhow::Result<Self> {
        let parsed = Parsed::read(&args.config, &args.set)?;
        let config = &parsed.config;
        let sources = config.sources_read();
        let are_prepared = match &sources[..] {
            [] => is_prepared(&config.data.folder),
            sources => sources.iter().all(|(_, source)| is_prepared(&source.folder)),
        };
        if are_prepared {
            return Plan::opened(parsed, load::find, purpose).map(|plan| Self { plan, target });
        }
        if config.data.order == RowOrder::Streamed
            && let Ok(data) = PreparedData::open(config, load::find, purpose)
        {
            return Plan::checked(parsed, data, purpose, SourceProblems::new()).map(|plan| Self { plan, target });
        }
        let data = assumed_data::data(config)?;
        Plan::checked(parsed, data, purpose, SourceProblems::new()).map(|plan| Self { plan, target })
    }

    /// Returns text lines: the preparation, the plan, and warnings.
    pub fn lines(&self) -> Vec<String> {
        self.lines_of(&mut None)
    }

    /// Returns text lines as [`lines`](Self::lines) does, and in `unusable` the error of a corpus that cannot be prepared.
    pub(crate) fn lines_of(&self, unusable: &mut Option<pipeline::Error>) -> Vec<String> {
        let mut lines = Vec::new();
        for NamedCorpus { source, prepare, .. } in self.plan.config.corpora() {
            let is_prepared = match source {
                None => !self.plan.data.is_expected(),
                Some(_) => is_prepared(&prepare.folder),
            };
            lines.extend(preparing::lines(&prepare, is_prepared, unusable));
        }
        let progress = self.progress();
        lines.extend(describe::lines(&self.plan));
        lines.push(format!("           {}", run_progress::description(progress, &self.plan.train)));
        let time = run_time::find(&self.plan, progress, self.target);
        lines.push(run_time::line(&time));
        lines.extend(run_cost::lines(&self.plan, time.as_ref().ok(), self.target));
        lines.extend(self.target.ranks.into_iter().flat_map(|ranks| ranks::lines(&self.plan, ranks, self.target)));
        lines.extend(self.warnings().iter().map(|warning| format!("warning    {warning}")));
        lines
    }

    /// Returns warnings: legal settings that are probably unintended.
    pub fn warnings(&self) -> Vec<String> {
        let warnings = warnings::collect(&self.plan).into_iter().chain(warnings::of_folders(&self.plan));
        warnings.chain(warnings::of_precision(&self.plan, self.target.gpu)).collect()
    }

    /// Returns the plan as one JSON object.
    pub(crate) fn json(&self) -> String {
        let ranks = self.target.ranks.map(|ranks| ranks::json(&self.plan, ranks, self.target));
        let progress = self.progress();
        let found = run_time::find(&self.plan, progress, self.target).ok();
        let mut time = run_time::json(found.as_ref(), progress);
        time.as_object_mut().expect("an object").extend(run_cost::json(&self.plan, found.as_ref(), self.target));
        describe::json_with(&self.plan, time, ranks)
    }

    /// Progress of the run in the folder of the plan.
    fn progress(&self) -> Option<RunProgress> {
        self.plan.resumed.as_ref().map(|state| RunProgress::new(&self.plan.config.run.folder, state))
    }

    /// Plan of the trainer.
    pub fn train(&self) -> &trainer_plan::TrainPlan {
        &self.plan.train
    }

    /// Views with their columns.
    pub fn views(&self) -> Vec<pipeline::load::ViewFacts> {
        self.plan.load.facts().views
    }

    /// Whether the packing fills all rows to their full length. Views may cut them.
    pub fn fills_rows(&self) -> bool {
        self.plan.data.manifest.pack.cuts
    }
}
