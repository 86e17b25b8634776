//! Objectives: the loss sums that a model is trained on. Each has one file and one line in the table below. The file of
//! the same name in [`trainer_plan::objectives`] holds the configuration.
//!
//! An objective file has two layers: a pure function on tensors, called by `cloze parity`, and a thin [`Loss`] that
//! reads its inputs from a [`Forward`], called by training.

use std::ops::Range;

use tch::Tensor;
use trainer_plan::objectives::AnyObjective;

use crate::model::forward::Forward;
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

pub(crate) mod combine;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "tests read values back to the host")]
mod contract;
pub(crate) mod row_head;
pub(crate) mod similarity;

/// Builder of a configured objective.
pub(crate) trait Build {
    /// Builds the objective from the head's weights below `head` (`heads.NAME`). `name` is the objective's key in the
    /// configuration, which seeds its draws.
    fn build(&self, name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss>;
}

builders! {
    /// Returns the builder of a configured objective.
    AnyObjective {
        classification::Classification,
        corrective_lm::CorrectiveLm,
        masked_lm::MaskedLm,
        next_sentence::NextSentence,
        prompt_classification::PromptClassification,
        regression::Regression,
        replaced_token::ReplacedToken,
        sequence_contrastive::SequenceContrastive,
        span_extraction::SpanExtraction,
        teacher_contrastive::TeacherContrastive,
        token_classification::TokenClassification,
        token_contrastive::TokenContrastive,
        token_prediction::TokenPrediction,
    }
}

/// Objective with its weights.
pub(crate) trait Loss: Send {
    /// Returns the names, inner weights and counts of the terms of this batch, computed on the host only. Names and
    /// order are always the same.
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term>;

    /// Packs the arrays that `compute` needs on the device in addition to the views of its passes.
    fn send(&self, _batch: &HostBatch<'_>, _staging: &mut Staging) {}

    /// Computes the sums of the terms, and the metrics.
    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput;

    /// Returns its contrast with the rows of all micro-batches of a step, if it has one.
    fn global_contrast(&self) -> Option<&dyn GlobalContrast> {
        None
    }

    /// Returns the head that predicts tokens from hidden states of the main network, if the objective has one.
    /// `valid/mlm` and `cloze fill` use the first objective that has such a head.
    fn token_head(&self, _networks: &Networks) -> Option<TokenHead> {
        None
    }

    /// Returns the scores that predictions of labelled examples are made of, `[rows, outputs]` or `[rows, width,
    /// outputs]`, if the objective predicts targets.
    fn scores(&self, _forward: &Forward<'_>) -> Option<Tensor> {
        None
    }
}

/// Contrast of the rows of a micro-batch with those of all micro-batches of a step.
pub(crate) trait GlobalContrast {
    /// Returns the unit vectors of both views, `[2, n, d]`, without gradient.
    fn vectors(&self, forward: &Forward<'_>) -> Tensor;

    /// Returns the logarithms of the sums over the candidates of the anchors of `rows`, `[2, n]`, among the vectors of
    /// all rows, `[2, N, d]`.
    fn log_sums(&self, all_vnd: &Tensor, rows: Range<i64>) -> Tensor;
}

/// Summand of an objective.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    /// Name within the objective; empty if there is only one term.
    pub name: &'static str,
    /// Weight within the objective.
    pub weight: f64,
    /// Number of positions in its sum.
    pub count: f64,
}

/// Output of an objective for a micro-batch.
#[derive(Debug)]
pub(crate) struct ObjectiveOutput {
    /// Sums of the terms: float32 scalars on the device, one per [`Term`], in the same order.
    pub sums: Vec<Tensor>,
    /// Metrics for reports, without gradient.
    pub metrics: Vec<Metric>,
}

/// Ratio for reports, such as an accuracy. Numerator and denominator are summed between reports, then divided.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Name within the objective.
    pub name: &'static str,
    /// Scalar on the device.
    pub numerator: Tensor,
    /// Divisor of the numerator.
    pub denominator: Denominator,
    /// Name of a rate, another metric of the same objective, whose entropy is added to the ratio.
    pub entropy_of: Option<&'static str>,
}

/// Denominator of a metric.
#[derive(Debug)]
pub(crate) enum Denominator {
    /// Known on the host.
    Host(f64),
    /// Scalar on the device, because its value depends on the samples of a generator.
    Device(Tensor),
}

impl Metric {
    /// Creates the ratio of a sum on the device to a number on the host.
    #[must_use]
    pub(crate) fn new(name: &'static str, numerator: Tensor, count: f64) -> Self {
        Self { name, numerator, denominator: Denominator::Host(count), entropy_of: None }
    }

    /// Creates the ratio of two numbers on the device.
    #[must_use]
    pub(crate) fn ratio(name: &'static str, numerator: Tensor, denominator: Tensor) -> Self {
        Self { name, numerator, denominator: Denominator::Device(denominator), entropy_of: None }
    }

    /// Creates a metric from a mean on the device over `count` items, a number on the host.
    #[must_use]
    pub(crate) fn mean(name: &'static str, mean: &Tensor, count: f64) -> Self {
        Self::new(name, mean * count, count)
    }

    /// Creates the gain over a constant guess: the entropy of the metric `rate`, in nats, less the mean of `count`
    /// cross-entropies. The entropy is that of the rate of the whole report, so the gain is exact over a report.
    #[must_use]
    pub(crate) fn gain(name: &'static str, cross_entropies: &Tensor, count: f64, rate: &'static str) -> Self {
        Self { entropy_of: Some(rate), ..Self::new(name, -cross_entropies.detach(), count) }
    }
}
