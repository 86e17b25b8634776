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
    /// Number of ranks that did the step.
    pub(crate) ranks: usize,
}

/// Largest relative difference of loss and norm that the order of a sum explains, with some room.
const ROUNDING: f64 = 1e-3;

impl Logged {
    /// Whether loss and norm of a replay, which is a single process, differ from those of the log. Several ranks add gradients in
    /// another order, so the weights after each of their steps are equal except for rounding.
    pub(crate) fn differs(&self, loss: f64, norm: f64) -> Option<bool> {
        let is_equal = |then: f64, now: f64| {
            then.to_bits() == now.to_bits()
                || (then.is_nan() && now.is_nan())
                || (self.ranks > 1 && (then - now).abs() <= ROUNDING * then.abs())
        };
        self.figures.map(|(then_loss, then_norm)| !is_equal(then_loss, loss) || !is_equal(then_norm, norm))
    }

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
                let ranks = report.ranks.len().max(1);
                found = Self { figures, hash: Some((at, report.batch_hash.clone())), ranks };
            }
        }
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_rank_repeats_bits_and_several_repeat_numbers() {
        let logged = |ranks| Logged { figures: Some((2.0, 0.5)), hash: None, ranks };
        let near = 2.0 * (1.0 + 1e-6);
        assert_eq!([logged(1), logged(2)].map(|it| it.differs(near, 0.5)), [Some(true), Some(false)]);
        assert_eq!([logged(1), logged(2)].map(|it| it.differs(2.0, 0.5)), [Some(false); 2]);
        assert_eq!([logged(1), logged(2)].map(|it| it.differs(2.0, 0.6)), [Some(true); 2]);
        assert_eq!(Logged::default().differs(2.0, 0.5), None);
    }
}
