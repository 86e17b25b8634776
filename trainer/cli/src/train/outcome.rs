//! Exit code of `cloze train`, and a hint after a failure.

use std::process::ExitCode;

use cloze::cli::ConfigArgs;
use cloze::exit::PAUSED;
use cloze::run::control::Signal;
use schemas::shell_quoted;
use telemetry::terminal::note;
use trainer::training::RunOutcome;
use trainer_plan::stop_request::StopRequest;

use super::options::Options;

/// Returns the exit code of an outcome. Logs the end of a `--replay`, which leaves no other trace.
pub(super) fn exit_code(outcome: &RunOutcome, options: Options<'_>) -> ExitCode {
    match outcome {
        RunOutcome::Finished(step) => {
            if options.replay.is_some() {
                note(format_args!("done: {step} steps on repeated batches; nothing was saved"));
            }
            ExitCode::SUCCESS
        }
        RunOutcome::Stopped(_, stop) => ExitCode::from(stop_code(*stop)),
    }
}

/// Logs the command that shows the batch at which a run failed.
pub(super) fn log_hint(error: &anyhow::Error, args: &ConfigArgs) {
    if let Some(line) = replay_line(error, args) {
        note(format_args!("hint: to inspect the batch, run `{line}`"));
    }
}

fn stop_code(stop: StopRequest) -> u8 {
    match stop {
        StopRequest::Interrupt => Signal::Interrupt.exit_code(),
        StopRequest::Terminate => Signal::Terminate.exit_code(),
        StopRequest::Hangup => Signal::Hangup.exit_code(),
        StopRequest::Requeue => Signal::Requeue.exit_code(),
        StopRequest::Guard => PAUSED,
    }
}

/// Returns the shell command that shows the batch at which a run failed, with the configuration of the run.
fn replay_line(error: &anyhow::Error, args: &ConfigArgs) -> Option<String> {
    let trainer_plan::Error::NonFinite { batch, .. } = error.downcast_ref()? else { return None };
    let mut words = vec![format!("cloze inspect batch {batch} --config"), shell_quoted(&args.config)];
    words.extend(args.set.iter().flat_map(|set| ["--set".to_owned(), shell_quoted(set)]));
    Some(words.join(" "))
}
