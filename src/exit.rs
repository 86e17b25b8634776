//! Exit codes: what a supervisor (a person, Slurm, Kubernetes) may conclude.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | the run reached its end |
//! | 1 | it failed; what is finished is kept, the same command continues |
//! | 2 | configuration or usage: change it, trying again will not help |
//! | 3 | `cloze profile compare`: the second is surely slower by more than the limit |
//! | 42 | the corpus is not fit to be used: do not try again |
//! | 43 | a training diverged, and would again, to the bit: do not try again as it is |
//! | 44 | the device's memory does not suffice: change what the error says first |
//! | 45 | a step spike_step, and `spike_guard.action` is `pause`; the run is saved, somebody should look |
//! | 127 | libtorch is missing: the system cannot load `cloze-train`; install it again |
//! | 129 | SIGHUP, the terminal went away; the run is saved |
//! | 130 | SIGINT; the run is saved, unless a second one came |
//! | 138 | SIGUSR1; the run is saved, start it again |
//! | 143 | SIGTERM; the run is saved, start it again |

use std::process::ExitCode;

use schemas::ManifestError;

use crate::config::Mistakes;

const FAILED: u8 = 1;
const CONFIGURATION: u8 = 2;
/// What a comparison ends with whose second half is surely worse.
pub(crate) const WORSE: u8 = 3;
const POISON: u8 = 42;
const DIVERGED: u8 = 43;
const FULL: u8 = 44;
/// What a guard that pauses ends a training with.
pub const PAUSED: u8 = 45;

/// A request that makes no sense as it stands (code 2).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// The code that belongs to an error.
pub fn code(error: &anyhow::Error) -> ExitCode {
    // As the context of another error, a request is not in its chain.
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
            // It came through the trainer from where batches are made.
            trainer_plan::Error::Foreign(error) => code_of(&**error).unwrap_or(FAILED),
            trainer_plan::Error::NonFinite { .. } | trainer_plan::Error::Leaps { .. } => DIVERGED,
            trainer_plan::Error::Memory { .. } => FULL,
            error if error.is_usage() => CONFIGURATION,
            _ => FAILED,
        });
    }
    match cause.downcast_ref::<pipeline::Error>()? {
        pipeline::Error::Config(_)
        | pipeline::Error::Tokenizer { .. }
        | pipeline::Error::Manifest { why: ManifestError::Version { .. }, .. } => Some(CONFIGURATION),
        pipeline::Error::Poison(_) | pipeline::Error::Unfit { .. } => Some(POISON),
        _ => Some(FAILED),
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;

    use super::*;

    fn check(error: &anyhow::Error, expected: u8) {
        assert_eq!(format!("{:?}", code(error)), format!("{:?}", ExitCode::from(expected)), "{error:#}");
    }

    #[test]
    fn a_request_that_makes_no_sense_is_one_wherever_it_stands_in_an_error() {
        let usage = || Usage("no such thing".to_owned());
        check(&anyhow::Error::from(usage()), CONFIGURATION);
        check(&anyhow::Error::from(usage()).context("while it was read"), CONFIGURATION);
        check(&None::<()>.with_context(usage).expect_err("nothing"), CONFIGURATION);
        let io = std::fs::File::open("/nowhere/at/all").with_context(usage).expect_err("nothing");
        check(&io.context("while it was read"), CONFIGURATION);
        check(&anyhow::anyhow!("a cable is loose"), FAILED);
    }

    #[test]
    fn a_training_that_diverged_has_a_code_of_its_own() {
        let (step, batch) = (schemas::Step(2), schemas::BatchIndex(2));
        let error = trainer_plan::Error::NonFinite { step, objective: String::new(), skipped: 1, allowed: 0, batch };
        check(&anyhow::Error::from(error), DIVERGED);
    }
}
