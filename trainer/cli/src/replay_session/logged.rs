//! What the log of a run says of a step.

use schemas::Step;
use store::{Lines, Store};
use telemetry::{EventKind, jsonl};

/// What was read of it. The log has loss and norm of each step, and the hash of the stream where it was reported.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Logged {
    /// Its loss and its norm.
    pub(crate) figures: Option<(f64, f64)>,
    /// The first report that tells of it: its step, and the hash of all rows up to that.
    pub(crate) hash: Option<(Step, String)>,
}

impl Logged {
    /// Looks for the last word on a step, counted from 1. What nobody can read is skipped.
    pub(crate) fn of(run: &Store, step: u64) -> std::io::Result<Self> {
        let mut found = Self::default();
        for line in Lines::of(run, jsonl::LOG)? {
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
