//! Exit codes, for supervisors such as users, Slurm and Kubernetes.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | the run reached its end |
//! | 1 | it failed; finished work is kept, and the same command continues |
//! | 2 | configuration or usage error: change it; a retry does not help |
//! | 3 | `cloze profile compare`: the second is slower by more than the limit with certainty |
//! | 42 | the corpus is unusable: do not retry |
//! | 43 | the training diverged, and a retry diverges in the same way: change the run |
//! | 44 | insufficient memory of the device (GPU, or host for the CPU): change the setting that the error names |
//! | 45 | a loss spike, and `spike_guard.action` is `pause`; the run is saved and needs a decision |
//! | 46 | a stop that did not save: a second SIGINT, or `run.shutdown_timeout_seconds`; the same command repeats the steps |
//! | 127 | libtorch is missing: the system cannot load `cloze-train`; install it again |
//! | 129 | SIGHUP, the terminal was closed; the run is saved |
//! | 130 | SIGINT; the run is saved |
//! | 138 | SIGUSR1; the run is saved, start it again |
//! | 143 | SIGTERM; the run is saved, start it again |

use std::process::ExitCode;

use schemas::ManifestError;

use crate::config::Mistakes;

const FAILED: u8 = 1;
const CONFIGURATION: u8 = 2;
/// Exit code of a comparison whose second profile is slower with certainty.
pub(crate) const SLOWER: u8 = 3;
const UNUSABLE_CORPUS: u8 = 42;
const DIVERGED: u8 = 43;
const OUT_OF_DEVICE_MEMORY: u8 = 44;
/// Exit code of a training that the spike guard paused.
pub const PAUSED: u8 = 45;

/// Exit code of a stop that lost the steps since the newest checkpoint.
pub(crate) const UNSAVED: u8 = 46;

/// Invalid request (code 2).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Returns the exit code of an error.
pub fn code(error: &anyhow::Error) -> ExitCode {
    // An error that is the context of another error is not in its chain.
    let is_request = error.is::<Usage>() || error.is::<profiler::InvalidProfile>();
    let asked = is_request.then_some(CONFIGURATION);
    ExitCode::from(asked.or_else(|| error.chain().find_map(code_of)).unwrap_or(FAILED))
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if cause.is::<Mistakes>() || cause.is::<Usage>() || cause.is::<profiler::InvalidProfile>() {
        return Some(CONFIGURATION);
    }
    if let Some(error) = cause.downcast_ref::<trainer_plan::Error>() {
        return Some(match error {
            // An error of the loader, passed on by the trainer.
            trainer_plan::Error::Foreign(error) => code_of(&**error).unwrap_or(FAILED),
            trainer_plan::Error::NonFinite { .. } | trainer_plan::Error::LossSpikes { .. } => DIVERGED,
            trainer_plan::Error::Memory { .. } => OUT_OF_DEVICE_MEMORY,
            trainer_plan::Error::Io(error) => of_io(error).unwrap_or(FAILED),
            error if error.is_usage() => CONFIGURATION,
            _ => FAILED,
        });
    }
    if let Some(error) = cause.downcast_ref::<std::io::Error>() {
        return of_io(error);
    }
    match cause.downcast_ref::<pipeline::Error>()? {
        pipeline::Error::Io(error) => of_io(error).or(Some(FAILED)),
        pipeline::Error::Config(_)
        | pipeline::Error::Tokenizer { .. }
        | pipeline::Error::Manifest { why: ManifestError::Version { .. }, .. } => Some(CONFIGURATION),
        pipeline::Error::UnusableCorpus(_) | pipeline::Error::UnusableFile { .. } => Some(UNUSABLE_CORPUS),
        _ => Some(FAILED),
    }
}

/// Returns the code of a store that lacks something, such as hard links or ranges: a retry does not help.
fn of_io(error: &std::io::Error) -> Option<u8> {
    (error.kind() == std::io::ErrorKind::Unsupported).then_some(CONFIGURATION)
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn check(error: &anyhow::Error, expected: u8) {
        assert_eq!(format!("{:?}", code(error)), format!("{:?}", ExitCode::from(expected)), "{error:#}");
    }

    #[test]
    fn a_usage_error_is_found_anywhere_in_the_chain() {
        let usage = || Usage("no such thing".to_owned());
        check(&anyhow::Error::from(usage()), CONFIGURATION);
        check(&anyhow::Error::from(usage()).context("while it was read"), CONFIGURATION);
        check(&None::<()>.with_context(usage).expect_err("nothing"), CONFIGURATION);
        let io = std::fs::File::open("/nowhere/at/all").with_context(usage).expect_err("nothing");
        check(&io.context("while it was read"), CONFIGURATION);
        check(&anyhow::anyhow!("a cable is loose"), FAILED);
    }

    #[test]
    fn a_store_that_lacks_something_is_no_reason_to_try_again() {
        let lacking = || std::io::Error::new(std::io::ErrorKind::Unsupported, "no ranges");
        for (error, code) in [(lacking(), CONFIGURATION), (std::io::ErrorKind::TimedOut.into(), FAILED)] {
            let again = || std::io::Error::new(error.kind(), "as it was");
            check(&anyhow::Error::from(again()).context("while it was read"), code);
            check(&anyhow::Error::from(pipeline::Error::Io(again())), code);
            check(&anyhow::Error::from(trainer_plan::Error::Io(again())), code);
        }
    }

    #[test]
    fn a_diverged_training_has_its_own_code() {
        let step = schemas::Step(2);
        let batch = schemas::BatchIndex(2);
        let error = trainer_plan::Error::NonFinite { step, objective: String::new(), skipped: 1, allowed: 0, batch };
        check(&anyhow::Error::from(error), DIVERGED);
    }
}
