//! Whether a value leaps out of those before it.

use std::collections::VecDeque;

use telemetry::training::SpikeMetric;
use trainer_plan::GUARD_WINDOW_MIN;
use trainer_plan::config::{SpikeAction, SpikeGuardConfig};

use super::Observed;

/// Values that there must be before one is judged.
pub(super) const LEAST: usize = GUARD_WINDOW_MIN;
/// The median distance from the median, in standard deviations of a normal distribution.
const NORMAL: f64 = 1.4826;
/// The least standard deviation, as a share of the median: values that are all alike leap over nothing else.
const LEAST_SIGMA: f64 = 1e-3;

/// How a step spiked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spike {
    /// Which number did.
    pub(crate) figure: SpikeMetric,
    /// What it was.
    pub(crate) value: f64,
    /// What is usual.
    pub(crate) median: f64,
    /// How many robust standard deviations lie between them.
    pub(crate) sigmas: f64,
}

/// Compares each step with those before it.
#[derive(Debug)]
pub(super) struct SpikeDetector {
    losses: Record,
    norms: Record,
}

#[derive(Debug)]
struct Record {
    values: VecDeque<f64>,
    window: usize,
    /// None where nothing is judged.
    sigmas: Option<f64>,
}

impl SpikeDetector {
    pub(super) fn new(config: &SpikeGuardConfig) -> Self {
        let wanted = |sigmas: f64| (config.action != SpikeAction::Off && sigmas > 0.0).then_some(sigmas);
        let record = |sigmas| Record { values: VecDeque::new(), window: config.window, sigmas: wanted(sigmas) };
        Self { losses: record(config.loss_sigmas), norms: record(config.norm_sigmas) }
    }

    /// Whether a step leaps, and from now on it is one of those before. The loss speaks first.
    pub(super) fn look(&mut self, step: Observed) -> Option<Spike> {
        let loss = self.losses.look(SpikeMetric::Loss, step.loss);
        let norm = self.norms.look(SpikeMetric::GradNorm, step.norm);
        loss.or(norm)
    }

    pub(super) fn remembered(&self) -> (Vec<f64>, Vec<f64>) {
        let all = |record: &Record| record.values.iter().copied().collect();
        (all(&self.losses), all(&self.norms))
    }

    pub(super) fn remember(&mut self, losses: &[f64], norms: &[f64]) {
        self.losses.remember(losses);
        self.norms.remember(norms);
    }
}

impl Record {
    fn remember(&mut self, values: &[f64]) {
        let newest = values.len().saturating_sub(self.window);
        self.values = values[newest..].iter().copied().collect();
    }

    fn look(&mut self, figure: SpikeMetric, value: f64) -> Option<Spike> {
        let sigmas = self.sigmas?;
        if !value.is_finite() {
            return None;
        }
        let leap = self.leap(figure, value).filter(|leap| leap.sigmas > sigmas);
        // What leaps is remembered too: where a run stays on another level, that becomes the usual one.
        self.values.push_back(value);
        if self.values.len() > self.window {
            self.values.pop_front();
        }
        leap
    }

    /// How far a value lies above the usual one.
    fn leap(&self, figure: SpikeMetric, value: f64) -> Option<Spike> {
        if self.values.len() < LEAST {
            return None;
        }
        let median = median(self.values.iter().copied());
        let spread = median_distance(&self.values, median);
        let sigma = (NORMAL * spread).max(LEAST_SIGMA * median.abs()).max(f64::MIN_POSITIVE);
        Some(Spike { figure, value, median, sigmas: (value - median) / sigma })
    }
}

fn median_distance(values: &VecDeque<f64>, from: f64) -> f64 {
    median(values.iter().map(|value| (value - from).abs()))
}

/// The middle one of some finite numbers; of an even number, the upper.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
