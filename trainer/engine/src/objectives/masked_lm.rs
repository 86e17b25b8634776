//! Masked language modelling.
//!
//! # What
//! Predicts the original ids at the masked positions.
//!
//! # Why
//! The baseline of all other objectives, and the validation loss `valid/mlm`.
//!
//! # Definition
//! `S = Σ_{i ∈ M} CE(logits_i, original_i)`, `CE(l, y) = ln Σ_v exp(l_v) − l_y`, `logits = LN(gelu(h Wᵀ + b)) Eᵀ + c`:
//! `E` is the tied word table, and `c` a free bias per id. The rows of `M` are gathered before the head, so the head
//! costs `|M|` rows of the vocabulary instead of all positions. An empty `M` gives 0 and gradients of 0.
//!
//! # Columns
//! `labels` of the view.
//!
//! # Reference
//! Devlin et al. 2019, section 3.1. `BertForMaskedLM` of Hugging Face has the same value and gradient, although it
//! projects all positions and ignores the others.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `n` predicted positions, `v` ids.

use tch::{Kind, Tensor};
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::Reduction;
use trainer_plan::objectives::masked_lm::MaskedLm;

use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::model::chunked_cross_entropy::CrossEntropyOutput;
use crate::model::forward::Forward;
use crate::model::head_weights::TokenHeadWeights;
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Array name of the weights of predicted tokens.
const ROW_WEIGHTS: &str = "row_weights";

/// Returns the divisor of the sum over the predicted tokens of a view.
pub(super) fn count(reduction: Reduction, batch: &HostBatch<'_>, view: &str) -> f64 {
    let count = match reduction {
        Reduction::Tokens => batch.predicted(view),
        Reduction::Sequences => batch.predicted_per_row(view).count(),
    };
    count as f64
}

/// Packs the factor of each predicted token's loss, unless all factors are 1.
#[expect(clippy::cast_possible_truncation, reason = "a share of one, in the float32 of its loss")]
pub(super) fn send_weights(reduction: Reduction, batch: &HostBatch<'_>, view: &str, staging: &mut Staging) {
    if reduction == Reduction::Sequences {
        let each = |count: usize| std::iter::repeat_n((1.0 / count as f64) as f32, count);
        let weights: Vec<f32> = batch.predicted_per_row(view).flat_map(each).collect();
        staging.add_list(view, ROW_WEIGHTS, &weights);
    }
}

/// Returns the uploaded factors, `[n]`, float32; `None` if all are 1.
pub(super) fn sent_weights(reduction: Reduction, forward: &Forward<'_>, view: &str) -> Option<Tensor> {
    (reduction == Reduction::Sequences).then(|| forward.uploaded(view, ROW_WEIGHTS))
}

/// Result of [`loss`].
#[derive(Debug)]
pub(crate) struct Prediction {
    /// Sum of the cross-entropies in nats, scalar.
    pub sum: Tensor,
    /// Number of targets with the highest score, scalar int64, without gradient.
    pub hits: Tensor,
}

/// Computes the loss over flat positions `row · t + column`, which may repeat, of hidden states `[b, t, d]`.
///
/// `positions_n` and `targets_n` are int64. `weights_n` has the factor of each loss; `None` means 1. The float type is
/// that of `hidden_btd`.
#[must_use]
pub(crate) fn loss(
    hidden_btd: &Tensor,
    head: &TokenHead,
    positions_n: &Tensor,
    targets_n: &Tensor,
    weights_n: Option<&Tensor>,
) -> Prediction {
    let scored = head.score(&Forward::gather(hidden_btd, positions_n), targets_n, |_| {});
    of_scored(&scored, targets_n, weights_n)
}

/// Computes the loss from the statistics of the scores.
#[must_use]
pub(crate) fn of_scored(scored: &CrossEntropyOutput, targets_n: &Tensor, weights_n: Option<&Tensor>) -> Prediction {
    let sum = match weights_n {
        None => scored.nll_n.sum(scored.nll_n.kind()),
        Some(weights_n) => scored.nll_n.dot(weights_n),
    };
    Prediction { sum, hits: scored.best_id_n.eq_tensor(targets_n).sum(Kind::Int64) }
}

impl Build for MaskedLm {
    fn build(&self, _name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let own = (self.network == MAIN).then(|| {
            let words = self.tied.then(|| networks.word_table(MAIN));
            TokenHeadWeights::build(networks.config(), words, head)
        });
        Box::new(MaskedLmLoss { config: self.clone(), own })
    }
}

struct MaskedLmLoss {
    config: MaskedLm,
    // `None` for a generator: the network owns its head.
    own: Option<TokenHeadWeights>,
}

impl MaskedLmLoss {
    fn head(&self, networks: &Networks) -> TokenHead {
        let weights = self.own.as_ref().unwrap_or_else(|| networks.head(&self.config.network));
        weights.leaves(networks.precision())
    }
}

impl Loss for MaskedLmLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: count(self.config.reduction, batch, &self.config.view) }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        send_weights(self.config.reduction, batch, &self.config.view, staging);
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let predicted = forward.predicted(&self.config.view);
        let hidden_btd = &forward.encoded(&self.config.network, &self.config.view).hidden_btd;
        let head = self.head(forward.networks());
        let weights_n = sent_weights(self.config.reduction, forward, &self.config.view);
        let Prediction { sum, hits } = match forward.scored(&self.config.network, &self.config.view) {
            Some(scored) => of_scored(scored, &predicted.targets_n, weights_n.as_ref()),
            None => loss(hidden_btd, &head, &predicted.positions_n, &predicted.targets_n, weights_n.as_ref()),
        };
        ObjectiveOutput { sums: vec![sum], metrics: vec![Metric::new("accuracy", hits, predicted.count as f64)] }
    }

    fn token_head(&self, networks: &Networks) -> Option<TokenHead> {
        self.own.as_ref().map(|head| head.leaves(networks.precision()))
    }
}
