//! Exit codes: what a supervisor (a person, Slurm, Kubernetes) may conclude.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | the run reached its end |
//! | 1 | it failed; what is finished is kept, the same command continues |
//! | 2 | configuration or usage: change it, trying again will not help |
//! | 42 | the corpus is not fit to be used: do not try again |
//! | 130 | SIGINT; the run is saved |
//! | 143 | SIGTERM; the run is saved, start it again |

use std::process::ExitCode;

use schemas::ManifestError;

use crate::config::Mistakes;

const FAILED: u8 = 1;
const CONFIGURATION: u8 = 2;
const POISON: u8 = 42;

/// A request that makes no sense as it stands (code 2).
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub(crate) struct Usage(pub(crate) String);

/// The code that belongs to an error.
pub(crate) fn code(error: &anyhow::Error) -> ExitCode {
    ExitCode::from(error.chain().find_map(code_of).unwrap_or(FAILED))
}

fn code_of(cause: &(dyn std::error::Error + 'static)) -> Option<u8> {
    if cause.is::<Mistakes>() || cause.is::<Usage>() {
        return Some(CONFIGURATION);
    }
    #[cfg(feature = "train")]
    if let Some(error) = cause.downcast_ref::<trainer::Error>() {
        return Some(match error {
            // It came through the trainer from where batches are made.
            trainer::Error::Foreign(error) => code_of(&**error).unwrap_or(FAILED),
            error if error.is_usage() => CONFIGURATION,
            _ => FAILED,
        });
    }
    match cause.downcast_ref::<pipeline::Error>()? {
        pipeline::Error::Config(_)
        | pipeline::Error::Tokenizer { .. }
        | pipeline::Error::Manifest { why: ManifestError::Version { .. }, .. } => Some(CONFIGURATION),
        pipeline::Error::Poison(_) => Some(POISON),
        _ => Some(FAILED),
    }
}
