//! Comparison of a value with the median of the values before it.

use std::collections::VecDeque;

use telemetry::training::SpikeMetric;
use trainer_plan::GUARD_WINDOW_MIN;
use trainer_plan::config::{SpikeAction, SpikeGuardConfig};

use super::Observed;

/// Minimum number of recorded values before a value is compared.
pub(super) const LEAST: usize = GUARD_WINDOW_MIN;
/// Standard deviation of a normal distribution, in median distances from the median.
const NORMAL: f64 = 1.4826;
/// Minimum standard deviation relative to the median. Without it, any deviation from equal values would be a spike.
const LEAST_SIGMA: f64 = 1e-3;

/// Spike of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spike {
    /// Metric that spiked.
    pub(crate) figure: SpikeMetric,
    /// Value of the metric.
    pub(crate) value: f64,
    /// Median of the values before it.
    pub(crate) median: f64,
    /// Distance between them in robust standard deviations.
    pub(crate) sigmas: f64,
}

/// Detector that compares each step with the steps before it.
#[derive(Debug)]
pub(super) struct SpikeDetector {
    losses: Record,
    norms: Record,
}

#[derive(Debug)]
struct Record {
    values: VecDeque<f64>,
    window: usize,
    /// Threshold; `None` if the metric is not checked.
    sigmas: Option<f64>,
}

impl SpikeDetector {
    pub(super) fn new(config: &SpikeGuardConfig) -> Self {
        let wanted = |sigmas: f64| (config.action != SpikeAction::Off && sigmas > 0.0).then_some(sigmas);
        let record = |sigmas| Record { values: VecDeque::new(), window: config.window, sigmas: wanted(sigmas) };
        Self { losses: record(config.loss_sigmas), norms: record(config.norm_sigmas) }
    }

    /// Returns the spike of a step, if it is one, and records the step. The loss takes precedence over the norm.
    pub(super) fn check(&mut self, step: Observed) -> Option<Spike> {
        let loss = self.losses.check_metric(SpikeMetric::Loss, step.loss);
        let norm = self.norms.check_metric(SpikeMetric::GradNorm, step.norm);
        loss.or(norm)
    }

    pub(super) fn remembered(&self) -> (Vec<f64>, Vec<f64>) {
        let all = |record: &Record| record.values.iter().copied().collect();
        (all(&self.losses), all(&self.norms))
    }

    pub(super) fn add_all(&mut self, losses: &[f64], norms: &[f64]) {
        self.losses.add_all(losses);
        self.norms.add_all(norms);
    }
}

impl Record {
    fn add_all(&mut self, values: &[f64]) {
        let newest = values.len().saturating_sub(self.window);
        self.values = values[newest..].iter().copied().collect();
    }

    fn check_metric(&mut self, figure: SpikeMetric, value: f64) -> Option<Spike> {
        let sigmas = self.sigmas?;
        if !value.is_finite() {
            return None;
        }
        let spike = self.distance(figure, value).filter(|spike| spike.sigmas > sigmas);
        // Spikes are recorded too: if the metric stays at the new level, the median follows.
        self.values.push_back(value);
        if self.values.len() > self.window {
            self.values.pop_front();
        }
        spike
    }

    /// Distance of a value above the median; `None` if there are too few values.
    fn distance(&self, figure: SpikeMetric, value: f64) -> Option<Spike> {
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

/// Median of finite numbers; of an even number of them, the upper one.
fn median(values: impl Iterator<Item = f64>) -> f64 {
    let mut values: Vec<f64> = values.collect();
    let middle = values.len() / 2;
    *values.select_nth_unstable_by(middle, f64::total_cmp).1
}
