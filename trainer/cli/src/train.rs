//! `cloze train`: runs a training from a configuration.
//!
//! [`run_session`] lists the steps; [`session`] has one function for each of them. [`data_source`] provides the
//! pipeline's batches to the trainer. [`run_host`] provides the run folder, the signals and the observers.

mod concurrent_prepare;
mod data_source;
mod monitoring;
mod options;
mod outcome;
mod profiler;
mod ranks;
mod run_host;
mod run_phase;
mod session;
mod start;
mod task_scorer;
#[cfg(test)]
mod tests;
mod trainer_thread;

use std::process::ExitCode;

use cloze::cli::ConfigArgs;
use cloze::config::{Config, Parsed};
use cloze::exit::Usage;
use telemetry::alerts::Alerts;
use trainer_plan::identity::check_allowed;

pub(crate) use self::options::Options;
pub(crate) use self::ranks::{connect_launched, launched};
use self::session::TrainSession;
pub(crate) use self::trainer_thread::data_without_records;

/// Plans and trains. The exit code distinguishes a finished run from one that a signal stopped.
pub(crate) fn run(args: &ConfigArgs, options: Options<'_>) -> anyhow::Result<ExitCode> {
    check_allowed(options.allow_change).map_err(|problem| Usage(format!("--allow-change: {problem}")))?;
    let config = Parsed::read(&args.config, &args.set)?.config;
    let alerts = monitoring::start_alerts(&config, options)?;
    let result = run_session(args, options, config, alerts.as_ref()).inspect_err(ranks::report_error);
    if let (Some(alerts), Err(error)) = (&alerts, &result) {
        alerts.failed(error);
    }
    // Sends the last alerts before the process ends, after everything is saved.
    drop(alerts);
    result
}

/// Runs the steps of `cloze train` in order.
fn run_session(
    args: &ConfigArgs,
    options: Options<'_>,
    config: Config,
    alerts: Option<&Alerts>,
) -> anyhow::Result<ExitCode> {
    let mut session = TrainSession::open(args, options, config)?;
    session.watch_run_folder()?;
    let plan = session.wait_for_plan()?;
    session.log_warnings(&plan);
    session.check_profiled_steps(&plan)?;
    let outcome = session.train(plan, alerts);
    session.notify_finished(&outcome);
    let outcome = session.end_preparation(outcome)?;
    Ok(outcome::exit_code(&outcome, options))
}
