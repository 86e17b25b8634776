//! What a run would be, for people and programs to read.

use std::path::Path;

use pipeline::load::{self, RowOrder};
use schemas::manifest;

use super::{Plan, assumed_data, describe, preparing, warnings};
use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::config::corpora::NamedCorpus;
use crate::run::data::{PreparedData, Purpose, Troubles};

/// Whether a corpus is prepared there. What cannot be looked at is told by who opens it.
fn is_prepared(folder: &Path) -> bool {
    folder.join(manifest::NAME).try_exists().unwrap_or(true)
}

/// What a run would be: by its data, or, where no corpus is prepared yet, by what its configuration expects of them. It can
/// be read, and nothing can be started with it.
pub struct DryRun(Plan);

impl DryRun {
    /// # Errors
    /// As [`Plan::of`]; that nothing is prepared is no mistake.
    pub fn of(args: &ConfigArgs) -> anyhow::Result<Self> {
        let parsed = Parsed::read(&args.config, &args.set)?;
        let config = &parsed.config;
        let sources = config.sources_read();
        let are_prepared = match &sources[..] {
            [] => is_prepared(&config.data.folder),
            sources => sources.iter().all(|(_, source)| is_prepared(&source.folder)),
        };
        if are_prepared {
            return Plan::opened(parsed, load::find, Purpose::Look).map(Self);
        }
        if config.data.order == RowOrder::Streamed
            && let Ok(data) = PreparedData::open(config, load::find, Purpose::Look)
        {
            return Plan::checked(parsed, data, Purpose::Look, Troubles::new()).map(Self);
        }
        let data = assumed_data::data(config)?;
        Plan::checked(parsed, data, Purpose::Look, Troubles::new()).map(Self)
    }

    /// For people: what it comes to, what has to be done before, and what is legal and hardly meant.
    pub fn lines(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for NamedCorpus { source, prepare } in self.0.config.corpora() {
            let is_prepared = match source {
                None => !self.0.data.is_expected(),
                Some(_) => is_prepared(&prepare.folder),
            };
            lines.extend(preparing::lines(&prepare, is_prepared));
        }
        lines.extend(describe::lines(&self.0));
        lines.extend(self.warnings().iter().map(|warning| format!("warning    {warning}")));
        lines
    }

    /// What is worth knowing but need not be mended.
    pub fn warnings(&self) -> Vec<String> {
        warnings::of(&self.0).into_iter().chain(warnings::of_folders(&self.0)).collect()
    }

    /// One JSON object.
    pub(crate) fn json(&self) -> String {
        describe::json(&self.0)
    }

    /// What the trainer would do.
    pub fn train(&self) -> &trainer_plan::TrainPlan {
        &self.0.train
    }

    /// The views as batches would have them.
    pub fn views(&self) -> Vec<pipeline::load::ViewFacts> {
        self.0.load.facts().views
    }

    /// Whether the rows are as wide as they are long, but for those of views that cut them.
    pub fn fills_rows(&self) -> bool {
        self.0.data.manifest.pack.cuts
    }
}
