//! Prediction at every position (the "MLM + TP" ablation of TACO).
//!
//! # What
//! Reads the masked row and predicts the original id everywhere: at masked positions, as masked language modelling
//! does, and at all others.
//!
//! # Why
//! The control experiment for token contrast, which also trains at all positions. It separates the effect of the
//! contrast from that of more positions.
//!
//! # Definition
//! Two sums of cross-entropies by one head, over the masked positions `M` and over the other valid ones. By default
//! they are two terms of weight 1, so two means. With `reduction = "joint"` they are one term, in which every position
//! has the same weight.
//!
//! # Columns
//! `labels` and `attention_mask` of the masked view.
//!
//! # Reference
//! Fu, Zhou, Zhang, Zhou & Huang 2022 (TACO), section 4.4. The paper does not state the weights of the parts.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `n` positions of one part.

use tch::Tensor;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::token_prediction::{PredictionReduction, TokenPrediction};

use super::masked_lm::{self, Prediction};
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::model::forward::Forward;
use crate::model::head_weights::TokenHeadWeights;
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Array name of the positions that are not masked.
const UNMASKED_POSITIONS: &str = "unmasked_positions";

/// Flat positions `row · t + column` and their original ids, int64, `[n]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets<'a> {
    /// Positions.
    pub positions_n: &'a Tensor,
    /// Original ids.
    pub targets_n: &'a Tensor,
}

/// Result of [`loss`].
#[derive(Debug)]
pub(crate) struct Predictions {
    /// Prediction at the masked positions.
    pub masked: Prediction,
    /// Prediction at the other positions.
    pub unmasked: Prediction,
}

/// Computes both sums for hidden states `[b, t, d]`. The parts are projected to the vocabulary one after the other.
#[must_use]
pub(crate) fn loss(hidden_btd: &Tensor, head: &TokenHead, masked: Targets<'_>, unmasked: Targets<'_>) -> Predictions {
    let of = |part: Targets<'_>| masked_lm::loss(hidden_btd, head, part.positions_n, part.targets_n, None);
    Predictions { masked: of(masked), unmasked: of(unmasked) }
}

impl Build for TokenPrediction {
    fn build(&self, _name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let words = Some(networks.word_table(MAIN));
        let weights = TokenHeadWeights::build(networks.config(), words, head);
        Box::new(TokenPredictionLoss { config: self.clone(), weights })
    }
}

struct TokenPredictionLoss {
    config: TokenPrediction,
    weights: TokenHeadWeights,
}

impl Loss for TokenPredictionLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        let view = &self.config.view;
        let masked = batch.predicted(view) as f64;
        let valid = batch.valid(view) as f64;
        match self.config.reduction {
            PredictionReduction::Joint => vec![Term { name: "", weight: 1.0, count: valid }],
            PredictionReduction::Separate => vec![
                Term { name: "masked", weight: 1.0, count: masked },
                Term { name: "unmasked", weight: 1.0, count: valid - masked },
            ],
        }
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        staging.add_list(&self.config.view, UNMASKED_POSITIONS, &batch.unmasked_positions(&self.config.view));
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let view = &self.config.view;
        let uploaded = forward.view(view);
        let predicted = forward.predicted(view);
        let positions_n = forward.uploaded(view, UNMASKED_POSITIONS);
        let targets_n = uploaded.ids_bt.reshape([-1]).index_select(0, &positions_n);
        let head = self.weights.leaves(forward.networks().precision());
        let masked = Targets { positions_n: &predicted.positions_n, targets_n: &predicted.targets_n };
        let unmasked = Targets { positions_n: &positions_n, targets_n: &targets_n };
        let found = loss(&forward.encoded(MAIN, view).hidden_btd, &head, masked, unmasked);
        let count = positions_n.size()[0] as f64;
        let metrics = vec![
            Metric::new("accuracy_masked", found.masked.hits, predicted.count as f64),
            Metric::new("accuracy_unmasked", found.unmasked.hits, count),
        ];
        let sums = match self.config.reduction {
            PredictionReduction::Joint => vec![found.masked.sum + found.unmasked.sum],
            PredictionReduction::Separate => vec![found.masked.sum, found.unmasked.sum],
        };
        ObjectiveOutput { sums, metrics }
    }

    fn token_head(&self, networks: &Networks) -> Option<TokenHead> {
        Some(self.weights.leaves(networks.precision()))
    }
}
