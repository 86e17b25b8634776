//! Objectives: the sums that a model is trained on. One file each, one line in the table below; its configuration is the file
//! of the same name in [`trainer_plan::objectives`].
//!
//! An objective file has two layers: a pure function on tensors, which `cloze parity` calls, and a thin [`Loss`] that
//! feeds it from a [`Forward`], which training calls.

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
#[expect(clippy::disallowed_methods, reason = "what is tested is looked at")]
mod contract;
pub(crate) mod similarity;

/// A configured objective that can be built.
pub(crate) trait Build {
    /// Takes the head's weights, below `head` (`heads.NAME`). `name` is the objective's key in the configuration; draws are
    /// seeded with it.
    fn build(&self, name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss>;
}

builders! {
    /// How each objective is built.
    AnyObjective {
        corrective_lm::CorrectiveLm,
        masked_lm::MaskedLm,
        next_sentence::NextSentence,
        replaced_token::ReplacedToken,
        sequence_contrastive::SequenceContrastive,
        teacher_contrastive::TeacherContrastive,
        token_contrastive::TokenContrastive,
        token_prediction::TokenPrediction,
    }
}

/// An objective with its weights.
pub(crate) trait Loss: Send {
    /// Names, inner weights and counts of this batch's terms. Host only; always the same names in the same order.
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term>;

    /// Packs what `compute` needs on the device next to the views of its passes.
    fn send(&self, _batch: &HostBatch<'_>, _freight: &mut Staging) {}

    /// The terms' sums and the metrics.
    fn compute(&self, forward: &Forward<'_>) -> Computed;

    /// The head that predicts tokens from hidden states of the main network, if the objective has one. `valid/mlm` and
    /// `cloze fill` use the first objective that has.
    fn token_head(&self, _networks: &Networks) -> Option<TokenHead> {
        None
    }
}

/// One summand of an objective.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    /// Its name within the objective; empty if there is only one.
    pub name: &'static str,
    /// Its weight within the objective.
    pub weight: f64,
    /// How many positions it adds up.
    pub count: f64,
}

/// What an objective makes of a micro-batch.
#[derive(Debug)]
pub(crate) struct Computed {
    /// float32 scalars on the device, one per [`Term`], in their order.
    pub sums: Vec<Tensor>,
    /// Numbers for people, without gradient.
    pub metrics: Vec<Metric>,
}

/// A ratio for reports, such as an accuracy. Both parts are added up between reports, then divided.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Its name within the objective.
    pub name: &'static str,
    /// Scalar on the device.
    pub numerator: Tensor,
    /// What it is divided by.
    pub denominator: Denominator,
}

/// How many things a metric counts.
#[derive(Debug)]
pub(crate) enum Denominator {
    /// Known on the host.
    Host(f64),
    /// Scalar on the device, because it depends on what a generator sampled.
    Device(Tensor),
}

impl Metric {
    /// A ratio of a sum on the device to a number of the host.
    #[must_use]
    pub(crate) fn of(name: &'static str, numerator: Tensor, count: f64) -> Self {
        Self { name, numerator, denominator: Denominator::Host(count) }
    }

    /// A ratio of two numbers of the device.
    #[must_use]
    pub(crate) fn ratio(name: &'static str, numerator: Tensor, denominator: Tensor) -> Self {
        Self { name, numerator, denominator: Denominator::Device(denominator) }
    }

    /// A mean of the device over `count` things of the host.
    #[must_use]
    pub(crate) fn mean(name: &'static str, mean: &Tensor, count: f64) -> Self {
        Self::of(name, mean * count, count)
    }
}
