//! Learning-rate schedule: a pure function of the step, or of the fraction of the run that is done.

use std::f64::consts::PI;

use schemars::JsonSchema;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};

/// `[schedule]`: warm-up, then decay until the end of the run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    /// Shape of the learning rate after the warm-up.
    pub kind: ScheduleKind,
    /// Number of steps in which the rate rises linearly to its maximum.
    pub warmup_steps: u64,
    /// Last fraction of the run, in which the rate of `wsd` falls (10 %: Hu et al. 2024, section 4.2).
    pub decay_fraction: f64,
    /// Shape of that decay.
    pub decay_shape: DecayShape,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self { kind: ScheduleKind::Linear, warmup_steps: 10_000, decay_fraction: 0.1, decay_shape: DecayShape::Linear }
    }
}

/// Shape of the learning rate after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleKind {
    /// Linear decay (Devlin et al. 2019).
    Linear,
    /// Decay along half a cosine (Loshchilov & Hutter 2017).
    Cosine,
    /// No decay.
    Constant,
    /// Warm-up, stable, decay: constant, then falling to 0 in the last `decay_fraction` of the run (Hu et al. 2024,
    /// section 4.2). The stable part can be extended, and branched into decays of any length.
    Wsd,
}

/// Shape of the decay of [`ScheduleKind::Wsd`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DecayShape {
    /// Linear decay.
    Linear,
    /// Decay as 1 − √x, first fast and then slow (Hägele et al. 2024, section 3).
    OneMinusSqrt,
}

/// Number of steps of the run, valid from a step on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Span {
    /// First step, counted from 0, to which this number applies.
    pub from: Step,
    /// Steps of the whole run.
    pub steps: u64,
}

/// Learning rate of a run as a function of the step.
#[derive(Clone, Debug)]
pub struct LrSchedule {
    schedule: ScheduleConfig,
    // Never empty; oldest first.
    spans: Vec<Span>,
    // Fraction of the tokens or hours that is spent, if they limit the run.
    share: Option<f64>,
}

impl LrSchedule {
    /// Creates the schedule of a run with `steps` steps. `spans` replace that number if they are not empty.
    pub fn new(schedule: &ScheduleConfig, steps: u64, spans: &[Span]) -> Self {
        let spans = if spans.is_empty() { vec![Span { from: Step(0), steps }] } else { spans.to_vec() };
        Self { schedule: schedule.clone(), spans, share: None }
    }

    /// Sets the fraction of the tokens or hours that is spent. From then on the rate depends on it, or on the fraction of
    /// the steps, if that is larger.
    pub fn set_share(&mut self, share: f64) {
        self.share = Some(share);
    }

    /// Returns the fraction of the maximum learning rate at `step` (counted from 0).
    ///
    /// Warm-up step `s` has the rate `(s + 1) / warmup_steps`, so the first step already updates the weights. The
    /// off-by-one of Hugging Face and fairseq gives it a rate of 0. The decay is 1 at `s = warmup_steps` and would be 0
    /// at `s = steps`, which is never run. So every step of the run updates the weights.
    ///
    /// If tokens or hours limit the run, the decay depends on the fraction of the budget that is spent when the step
    /// starts. It is counted from the run's first step, as in BERT's released code (`optimization.py`), because the end
    /// of the warm-up is not known in tokens or hours.
    ///
    /// If the number of steps was changed, the rate from that step on equals the rate of a run with the new number.
    #[must_use]
    pub fn rate(&self, step: Step) -> f64 {
        let warmup = self.schedule.warmup_steps;
        if step.0 < warmup {
            return (step.0 + 1) as f64 / warmup as f64;
        }
        let steps = self.steps(step);
        let of_steps = step.0 as f64 / steps.max(1) as f64;
        let (decayed, run) = self.share.map_or_else(
            || ((step.0 - warmup) as f64 / steps.saturating_sub(warmup).max(1) as f64, of_steps),
            |share| (share.max(of_steps), share.max(of_steps)),
        );
        match self.schedule.kind {
            ScheduleKind::Linear => (1.0 - decayed).max(0.0),
            ScheduleKind::Cosine => 0.5 * (1.0 + (PI * decayed.min(1.0)).cos()),
            ScheduleKind::Constant => 1.0,
            ScheduleKind::Wsd => self.stable_or_decayed(run),
        }
    }

    /// Number of steps of the whole run that was valid at `step`.
    fn steps(&self, step: Step) -> u64 {
        let span = self.spans.iter().rev().find(|span| span.from <= step);
        span.unwrap_or(&self.spans[0]).steps
    }

    fn stable_or_decayed(&self, run: f64) -> f64 {
        let decay = self.schedule.decay_fraction;
        let into = (run - (1.0 - decay)) / decay;
        match self.schedule.decay_shape {
            _ if into <= 0.0 => 1.0,
            DecayShape::Linear => (1.0 - into).max(0.0),
            DecayShape::OneMinusSqrt => (1.0 - into.sqrt()).max(0.0),
        }
    }
}

impl ScheduleConfig {
    /// First step, counted from 0, whose rate depends on the end of the run. From there on, another number of steps
    /// makes another run. `None` for a rate that never falls.
    #[must_use]
    pub(crate) fn falls_from(&self, steps: u64) -> Option<Step> {
        match self.kind {
            ScheduleKind::Constant => None,
            ScheduleKind::Linear | ScheduleKind::Cosine => Some(Step(self.warmup_steps)),
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "steps, times a share")]
            ScheduleKind::Wsd => Some(Step(((1.0 - self.decay_fraction) * steps as f64).ceil() as u64)),
        }
    }

    /// Describes to the user the learning rate of a run whose number of steps changes from `from` to `to` after `done`
    /// steps.
    ///
    /// # Errors
    /// Reason why the number cannot change.
    pub fn extended(&self, spans: &[Span], [from, to]: [u64; 2], done: Step) -> Result<String, String> {
        let rate = |steps: u64| LrSchedule::new(self, steps, &[]).rate(done);
        let warmup = self.warmup_steps;
        if to <= warmup && done.0 < warmup {
            return Ok(format!(
                "the run now ends within its warm-up of {warmup} steps: the learning rate rises to {:.3} of its maximum and never falls",
                to as f64 / warmup as f64
            ));
        }
        match self.kind {
            ScheduleKind::Constant => Ok("the learning rate does not change".to_owned()),
            ScheduleKind::Wsd => {
                let falls = self.falls_from(from).unwrap_or_default();
                if done > falls {
                    return Err(format!(
                        "the decay started at step {falls} and cannot be reverted: roll back to an earlier step \
                         (`cloze rollback`), or branch from there (`cloze branch`)"
                    ));
                }
                let falls = self.falls_from(to).unwrap_or_default();
                if done > falls {
                    return Ok(format!(
                        "the decay of a run of {to} steps starts at step {falls}, which has passed: from here on the learning \
                         rate changes from {:.3} to {:.3} of its maximum, and falls towards the new last step",
                        rate(from),
                        rate(to)
                    ));
                }
                Ok(format!("the learning rate does not change, and falls from step {falls} on"))
            }
            ScheduleKind::Linear | ScheduleKind::Cosine if done.0 < self.warmup_steps => {
                Ok("the warm-up does not change; after it the learning rate falls towards the new last step".to_owned())
            }
            ScheduleKind::Linear | ScheduleKind::Cosine => {
                let before = LrSchedule::new(self, from, spans).rate(done);
                let now = rate(to);
                Ok(format!(
                    "from here on the learning rate is that of a run of {to} steps: it changes from {before:.3} to {now:.3} \
                     of its maximum, and falls towards the new last step; the warm-up does not change"
                ))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schedule(kind: ScheduleKind, warmup_steps: u64) -> ScheduleConfig {
        ScheduleConfig { kind, warmup_steps, decay_fraction: 0.5, ..ScheduleConfig::default() }
    }

    fn check_rates(schedule: &LrSchedule, expected: &[f64]) {
        for (step, expected) in (0..).zip(expected) {
            let got = schedule.rate(Step(step));
            assert!((got - expected).abs() < 1e-12, "{schedule:?}, step {step}: {got}, not {expected}");
        }
    }

    fn check(kind: ScheduleKind, warmup_steps: u64, steps: u64, expected: &[f64]) {
        check_rates(&LrSchedule::new(&schedule(kind, warmup_steps), steps, &[]), expected);
    }

    #[test]
    fn every_step_has_a_positive_rate() {
        check(ScheduleKind::Linear, 2, 6, &[0.5, 1.0, 1.0, 0.75, 0.5, 0.25]);
        check(ScheduleKind::Linear, 0, 4, &[1.0, 0.75, 0.5, 0.25]);
        check(ScheduleKind::Cosine, 1, 5, &[1.0, 1.0, 0.853_553_390_593_273_8, 0.5, 0.146_446_609_406_726_2]);
        check(ScheduleKind::Constant, 4, 8, &[0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0]);
        check(ScheduleKind::Wsd, 2, 8, &[0.5, 1.0, 1.0, 1.0, 1.0, 0.75, 0.5, 0.25]);
        let sqrt = ScheduleConfig { decay_shape: DecayShape::OneMinusSqrt, ..schedule(ScheduleKind::Wsd, 0) };
        check_rates(&LrSchedule::new(&sqrt, 8, &[]), &[1.0, 1.0, 1.0, 1.0, 1.0, 0.5, 1.0 - 0.5_f64.sqrt()]);
    }

    #[test]
    fn a_warmup_longer_than_the_run_only_rises() {
        check(ScheduleKind::Linear, 10, 3, &[0.1, 0.2, 0.3]);
    }

    #[test]
    fn an_extended_run_has_the_rates_of_the_longer_run() {
        let [before, after] = [Span { from: Step(0), steps: 4 }, Span { from: Step(3), steps: 8 }];
        let of = |kind, spans: &[Span]| LrSchedule::new(&schedule(kind, 0), 8, spans);
        check_rates(&of(ScheduleKind::Linear, &[before, after]), &[1.0, 0.75, 0.5, 0.625, 0.5, 0.375, 0.25, 0.125]);
        for kind in [ScheduleKind::Constant, ScheduleKind::Linear, ScheduleKind::Cosine, ScheduleKind::Wsd] {
            let longer = of(kind, &[]);
            let extended = of(kind, &[before, after]);
            for step in (3..8).map(Step) {
                assert_eq!(extended.rate(step).to_bits(), longer.rate(step).to_bits(), "{kind:?} at {step}");
            }
        }
        let wsd = schedule(ScheduleKind::Wsd, 0);
        assert!(wsd.extended(&[], [8, 16], Step(4)).expect("it is stable").contains("from step 8 on"));
        assert!(wsd.extended(&[], [8, 16], Step(5)).expect_err("it has begun to fall").contains("rollback"));
        let linear = schedule(ScheduleKind::Linear, 0).extended(&[], [4, 8], Step(4)).expect("any time");
        assert!(linear.contains("from 0.000 to 0.500"), "{linear}");
    }

    #[test]
    fn the_rate_follows_the_share_of_another_budget() {
        let mut lr = LrSchedule::new(&schedule(ScheduleKind::Linear, 2), 1 << 40, &[]);
        for (share, step, expected) in [(0.0, 0, 0.5), (0.25, 2, 0.75), (0.25, 3, 0.75), (1.5, 9, 0.0)] {
            lr.set_share(share);
            assert!((lr.rate(Step(step)) - expected).abs() < 1e-12, "{share} at {step}");
        }
    }

    /// A replay of step 40 has the rate that the step had, although the run was extended at step 60.
    #[test]
    fn the_share_of_past_steps_is_of_the_steps_at_that_time() {
        let spans = [Span { from: Step(0), steps: 100 }, Span { from: Step(60), steps: 200 }];
        let mut lr = LrSchedule::new(&schedule(ScheduleKind::Linear, 0), 200, &spans);
        for (share, step, expected) in [(0.1, 40, 0.6), (0.5, 40, 0.5), (0.15, 60, 0.7), (0.15, 100, 0.5)] {
            lr.set_share(share);
            assert!((lr.rate(Step(step)) - expected).abs() < 1e-12, "{share} at {step}: {}", lr.rate(Step(step)));
        }
    }

    #[test]
    fn a_shorter_run_that_begins_its_decay_at_once_says_so() {
        let wsd = ScheduleConfig { decay_fraction: 0.1, ..schedule(ScheduleKind::Wsd, 0) };
        let now = wsd.extended(&[], [1000, 950], Step(900)).expect("the decay has not begun");
        assert!(now.contains("from 1.000 to 0.526"), "{now}");
        let later = wsd.extended(&[], [1000, 1001], Step(900)).expect("the decay has not begun");
        assert!(later.contains("does not change, and falls from step 901 on"), "{later}");
    }
}
