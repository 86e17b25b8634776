//! Detection of collapsed detectors of replaced tokens, from the gains in the reports.
//!
//! # What
//! A detector that guesses the rate of replacement for each token has collapsed. Its loss looks low, and it trains the
//! encoder no more.
//!
//! # Why
//! With too high a learning rate for the rows of a step, ELECTRA's detector falls back to the constant guess and does
//! not recover. The loss curve does not show it, because the constant guess is nearly as good as an early detector.
//!
//! # Definition
//! The gain of a report is the entropy of the rate of replacement less the cross-entropy of the detector. It is within
//! noise if it is at most `max(0.001, 8 / n)` nats, where `n` is the number of tokens in the report: outputs that are
//! independent of the labels gain more than `k² / 2n` with the probability of `k` standard deviations, and `k` is 4.
//!
//! A detector has learned if [`LEARNED`] consecutive gains were above noise. It is warned of once if [`COLLAPSED`]
//! consecutive gains are within noise, and if it had learned before, or if the run has seen [`TOKENS`] tokens and twice
//! its warm-up. If it learns again, the next collapse is warned of too.

use std::collections::BTreeMap;

use telemetry::training::Warning;
use trainer_plan::checkpoint::SavedDetector;
use trainer_plan::metric_name::MetricName;

use crate::training::metric_accumulator::Gain;

/// Consecutive reports above noise after which a detector has learned.
const LEARNED: i64 = 3;
/// Consecutive reports within noise after which a detector has collapsed.
const COLLAPSED: i64 = 10;
/// Tokens of a run after which a detector should have learned.
const TOKENS: u64 = 10_000_000;
/// Nats per token that are noise in a report of any length.
const NOISE: f64 = 1e-3;

/// Watched detectors, by the name of their gain.
#[derive(Debug, Default)]
pub(crate) struct DetectorHealth {
    pub(crate) detectors: BTreeMap<String, SavedDetector>,
}

impl DetectorHealth {
    /// Records the gains of a report. Returns the warnings about detectors that have collapsed.
    ///
    /// `tokens` are those of the run so far; `is_warm` says whether the run has done twice its warm-up.
    pub(crate) fn check(&mut self, gains: &BTreeMap<MetricName, Gain>, tokens: u64, is_warm: bool) -> Vec<Warning> {
        let is_late = tokens >= TOKENS && is_warm;
        let check = |(name, gain): (&MetricName, &Gain)| {
            if !gain.value.is_finite() {
                return None;
            }
            let detector = self.detectors.entry(name.to_string()).or_default();
            detector.streak = match (gain.value > noise(gain.tokens), detector.streak) {
                (true, streak) => streak.max(0) + 1,
                (false, streak) => streak.min(0) - 1,
            };
            if detector.streak >= LEARNED {
                *detector = SavedDetector { has_learned: true, is_warned: false, ..*detector };
            }
            let has_collapsed = detector.streak <= -COLLAPSED && (detector.has_learned || is_late);
            let warns = has_collapsed && !std::mem::replace(&mut detector.is_warned, has_collapsed);
            warns.then(|| warning(name, gain, detector.has_learned))
        };
        gains.iter().filter_map(check).collect()
    }
}

/// Largest gain over a constant guess that is within noise, from the number of tokens in the report.
fn noise(tokens: f64) -> f64 {
    NOISE.max(8.0 / tokens)
}

fn warning(name: &MetricName, gain: &Gain, has_learned: bool) -> Warning {
    let since = if has_learned {
        "after it was better".to_owned()
    } else {
        format!("after {} million tokens", TOKENS / 1_000_000)
    };
    let objective = &name.objective;
    Warning {
        topic: "detector".to_owned(),
        message: format!(
            "the detector of `{objective}` guesses the rate of replacement, {since}: `{name}` is {:.4} nats, and within \
             noise of 0 in the last {COLLAPSED} reports",
            gain.value
        ),
        hint: Some(format!(
            "lower `optimizer.lr`; more rows per step (`train.global_batch_size`); a smaller generator; a lower weight \
             `loss.{objective}`"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Health of one detector, fed with reports of 10,000 tokens.
    #[derive(Default)]
    struct Fed {
        health: DetectorHealth,
        tokens: u64,
    }

    impl Fed {
        /// Number of warnings in `reports` reports with this gain.
        fn feed(&mut self, value: f64, reports: u64) -> usize {
            let gains = [(MetricName::new("rtd", "gain"), Gain { value, tokens: 10_000.0 })].into();
            let check = |_| {
                self.tokens += 10_000;
                self.health.check(&gains, self.tokens, true).len()
            };
            (0..reports).map(check).sum()
        }
    }

    #[test]
    fn collapse_after_learning_is_warned_of_once_until_it_learns_again() {
        let mut fed = Fed::default();
        assert_eq!(fed.feed(-0.01, 30), 0, "it has not begun to learn");
        assert_eq!((fed.feed(0.02, 3), fed.feed(0.0009, 9)), (0, 0));
        assert_eq!((fed.feed(0.0009, 1), fed.feed(0.0, 500)), (1, 0));
        assert_eq!((fed.feed(0.02, 2), fed.feed(0.0, 10)), (0, 0), "two reports are an accident");
        assert_eq!((fed.feed(0.02, 3), fed.feed(0.0, 10)), (0, 1));
    }

    #[test]
    fn detector_that_never_learns_is_warned_of_after_the_stated_tokens() {
        let mut fed = Fed::default();
        assert_eq!((fed.feed(0.0, 999), fed.feed(0.0, 1)), (0, 1));
        let gains = [(MetricName::new("clm", "copy.gain"), Gain { value: 0.0, tokens: 1e4 })].into();
        let mut cold = DetectorHealth::default();
        assert_eq!((0..50).map(|_| cold.check(&gains, 2 * TOKENS, false).len()).sum::<usize>(), 0);
        let warnings = cold.check(&gains, 2 * TOKENS, true);
        assert!(warnings[0].message.contains("`clm.copy.gain`"), "{warnings:?}");
        assert!(warnings[0].hint.as_ref().is_some_and(|hint| hint.contains("`loss.clm`")), "{warnings:?}");
    }

    #[test]
    fn small_gain_counts_in_a_long_report_and_not_in_a_short_one() {
        for (tokens, is_above) in [(1e3, false), (1e5, true)] {
            let gains = [(MetricName::new("rtd", "gain"), Gain { value: 0.005, tokens })].into();
            let mut health = DetectorHealth::default();
            (0..3).for_each(|_| assert!(health.check(&gains, 0, true).is_empty()));
            assert_eq!(health.detectors["rtd.gain"].has_learned, is_above, "{tokens}");
        }
    }

    #[test]
    fn gain_that_is_not_a_number_changes_nothing() {
        let mut fed = Fed::default();
        fed.feed(0.02, 3);
        let before = fed.health.detectors.clone();
        assert_eq!((fed.feed(f64::NAN, 100), &fed.health.detectors), (0, &before));
    }
}
