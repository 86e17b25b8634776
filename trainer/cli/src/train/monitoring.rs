//! Observers of a training: alerts, the server, an OpenTelemetry collector, TensorBoard files and the terminal.

use std::path::PathBuf;
use std::sync::Arc;

use cloze::config::Config;
use cloze::plan::Plan;
use cloze::run::control::Phase;
use cloze::run::monitoring::TrainingBackend;
use telemetry::Observer;
use telemetry::alerts::Alerts;
use telemetry::otlp::{Otlp, RunResource};
use telemetry::tensorboard::TensorBoard;
use telemetry::terminal::{PhaseText, RunProgress};
use trainer_plan::config::TrainConfig;
use trainer_plan::launch::Launch;

use super::options::Options;
use super::ranks;
use super::run_phase::Phases;

/// Starts the alerts of `[alerts]`. `None` for `--replay`, which only measures, and on ranks other than 0.
pub(super) fn start_alerts(config: &Config, options: Options<'_>) -> anyhow::Result<Option<Alerts>> {
    // If the section has problems, planning reports them. An alert must not, because a mistyped value may be a secret.
    let is_other_rank = Launch::from_env().is_ok_and(|launch| !ranks::is_first(launch.as_ref()));
    if options.replay.is_some() || is_other_rank || !config.alerts.problems().is_empty() {
        return Ok(None);
    }
    let folder = &config.run.folder;
    Ok(Alerts::start(&config.alerts, &folder.display().to_string(), folder)?)
}

/// Exporters of `[run]`.
pub(super) struct Exporters {
    otlp: Option<Otlp>,
    /// Folder of TensorBoard files.
    tensorboard: Option<PathBuf>,
}

impl Exporters {
    /// Starts the configured exporters.
    pub(super) fn start(plan: &Plan) -> Self {
        let run = &plan.config().run;
        let resource = RunResource {
            name: run.folder.display().to_string(),
            identity: Some(plan.train().identity.hash().to_owned()),
            steps: plan.train().steps_expected(),
        };
        let otlp = Otlp::start(run.otlp, &resource);
        Self { otlp, tensorboard: run.tensorboard.then(|| run.folder.clone()) }
    }

    /// Returns all observers of a run, in the order in which they receive events.
    pub(super) fn observers(
        &self,
        server: Option<&TrainingBackend>,
        alerts: Option<&Alerts>,
    ) -> Vec<Box<dyn Observer>> {
        // TensorBoard is last, so that a slow disk delays no other observer.
        let tensorboard = self.tensorboard.as_deref().map(|folder| Box::new(TensorBoard::new(folder)) as _);
        let server = server.map(TrainingBackend::reader);
        let alerts = alerts.and_then(Alerts::reader);
        let otlp = self.otlp.as_ref().map(Otlp::reader);
        [server, alerts, otlp, tensorboard].into_iter().flatten().collect()
    }
}

/// Returns the progress of a training for the terminal.
pub(super) fn progress(plan: &Plan, phases: &Phases) -> RunProgress {
    let config = &plan.train().train;
    let steps = config.steps;
    let global_batch_size = config.global_batch_size.max(1);
    let control = Arc::clone(&phases.control);
    let look = move || {
        let (rows, phase) = control.board().progress();
        let is_learning = matches!(phase, Phase::Data | Phase::Step);
        PhaseText { steps: rows / global_batch_size, phase: (!is_learning).then(|| phase.name()) }
    };
    RunProgress { steps: (steps < TrainConfig::STEPS_ENDLESS).then_some(steps), look: Box::new(look) }
}
