//! Log entries of a step of a run.

use schemas::Step;
use store::{Lines, Store};
use telemetry::{EventKind, jsonl};

/// Logged numbers of a step. The log has loss and norm of each step, and the hash of the stream at each report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Logged {
    /// Loss and gradient norm.
    pub(crate) figures: Option<(f64, f64)>,
    /// Step of the first report that includes the step, and the hash of all rows up to that report.
    pub(crate) hash: Option<(Step, String)>,
}

impl Logged {
    /// Finds the last log entry of a step, counted from 1. Skips unreadable lines.
    pub(crate) fn read(run: &Store, step: u64) -> std::io::Result<Self> {
        let mut found = Self::default();
        for line in Lines::new(run, jsonl::LOG)? {
            let Ok(event) = jsonl::parse(&line?) else { continue };
            let (EventKind::Report(report), Some(at)) = (&event.what, event.at.step) else { continue };
            let Some(before) = at.0.checked_sub(step).and_then(|before| usize::try_from(before).ok()) else { continue };
            if before == 0 || before < report.losses.len() {
                let place = report.losses.len().checked_sub(1 + before);
                let figures =
                    place.and_then(|place| Some((*report.losses.get(place)?, *report.grad_norms.get(place)?)));
                found = Self { figures, hash: Some((at, report.batch_hash.clone())) };
            }
        }
        Ok(found)
    }
}
