//! The learning rate as a pure function of the step.

use std::f64::consts::PI;

use schemars::JsonSchema;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};

/// `[schedule]`: warm-up, then decay to the run's last step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScheduleConfig {
    /// What follows the warm-up.
    pub kind: ScheduleKind,
    /// Steps that rise linearly to the full rate.
    pub warmup_steps: u64,
}

impl Default for ScheduleConfig {
    fn default() -> Self {
        Self { kind: ScheduleKind::Linear, warmup_steps: 10_000 }
    }
}

/// How the learning rate falls after the warm-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ScheduleKind {
    /// In a straight line (Devlin et al. 2019).
    Linear,
    /// Along half a cosine (Loshchilov & Hutter 2017).
    Cosine,
    /// Not at all.
    Constant,
}

/// The share of the full learning rate that `step` (counted from 0) of `steps` uses.
///
/// Warm-up step `s` uses `(s + 1) / warmup_steps`: the first step learns already, where Hugging Face's and fairseq's
/// off-by-one spend it on a rate of 0. The decay is 1 at `s = warmup_steps` and would be 0 at `s = steps`, which is
/// never run: every step of the run learns.
#[must_use]
pub(crate) fn rate(schedule: &ScheduleConfig, steps: u64, step: Step) -> f64 {
    let warmup = schedule.warmup_steps;
    if step.0 < warmup {
        return (step.0 + 1) as f64 / warmup as f64;
    }
    let done = (step.0 - warmup) as f64 / steps.saturating_sub(warmup).max(1) as f64;
    match schedule.kind {
        ScheduleKind::Linear => (1.0 - done).max(0.0),
        ScheduleKind::Cosine => 0.5 * (1.0 + (PI * done.min(1.0)).cos()),
        ScheduleKind::Constant => 1.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(kind: ScheduleKind, warmup_steps: u64, steps: u64, expected: &[f64]) {
        let schedule = ScheduleConfig { kind, warmup_steps };
        for (step, expected) in (0..).zip(expected) {
            let got = rate(&schedule, steps, Step(step));
            assert!((got - expected).abs() < 1e-12, "{kind:?}, step {step}: {got}, not {expected}");
        }
    }

    #[test]
    fn every_step_learns() {
        check(ScheduleKind::Linear, 2, 6, &[0.5, 1.0, 1.0, 0.75, 0.5, 0.25]);
        check(ScheduleKind::Linear, 0, 4, &[1.0, 0.75, 0.5, 0.25]);
        check(ScheduleKind::Cosine, 1, 5, &[1.0, 1.0, 0.853_553_390_593_273_8, 0.5, 0.146_446_609_406_726_2]);
        check(ScheduleKind::Constant, 4, 8, &[0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0]);
    }

    #[test]
    fn a_warmup_longer_than_the_run_only_rises() {
        check(ScheduleKind::Linear, 10, 3, &[0.1, 0.2, 0.3]);
    }
}
