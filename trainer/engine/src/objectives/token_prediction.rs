//! Prediction at every position (the "MLM + TP" ablation of TACO).
//!
//! # What
//! Reads the masked row and predicts the original id everywhere: at masked positions as masked language modelling
//! does, at the others as well.
//!
//! # Why
//! The control for token contrast, which also teaches at all positions: is it the contrast, or just more positions?
//!
//! # Definition
//! Two sums of cross-entropies by one head, over the masked positions `M` and over the other valid ones. They are two
//! terms of weight 1, so two means; or with `pool = "joint"` one term, in which `M` weighs as many as it has.
//!
//! # Columns
//! `labels` and `attention_mask` of the masked view.
//!
//! # Reference
//! Fu, Zhou, Zhang, Zhou & Huang 2022 (TACO), section 4.4; how the parts are weighted is not said there.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `n` positions of one part.

use tch::Tensor;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::token_prediction::{PredictionReduction, TokenPrediction};

use super::masked_lm::{self, Prediction};
use super::{Build, Computed, Loss, Metric, Term};
use crate::model::forward::Forward;
use crate::model::head_weights::TokenHeadWeights;
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// The name of what is sent of tokens that are not to be predicted.
const UNMASKED_POSITIONS: &str = "unmasked_positions";

/// Flat positions `row · t + column` and the ids that belong there, int64, `[n]`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Targets<'a> {
    /// Where.
    pub positions_n: &'a Tensor,
    /// What.
    pub targets_n: &'a Tensor,
}

/// What [`loss`] gives.
#[derive(Debug)]
pub(crate) struct Predictions {
    /// Over the masked positions.
    pub masked: Prediction,
    /// Over the others.
    pub unmasked: Prediction,
}

/// Both sums for hidden states `[b, t, d]`. The vocabulary meets one part at a time.
#[must_use]
pub(crate) fn loss(hidden_btd: &Tensor, head: &TokenHead, masked: Targets<'_>, unmasked: Targets<'_>) -> Predictions {
    let of = |part: Targets<'_>| masked_lm::loss(hidden_btd, head, part.positions_n, part.targets_n, None);
    Predictions { masked: of(masked), unmasked: of(unmasked) }
}

impl Build for TokenPrediction {
    fn build(&self, _name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let words = Some(networks.word_table(MAIN));
        let weights = TokenHeadWeights::build(networks.config(), words, head);
        Box::new(PredictingAll { config: self.clone(), weights })
    }
}

struct PredictingAll {
    config: TokenPrediction,
    weights: TokenHeadWeights,
}

impl Loss for PredictingAll {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        let view = &self.config.view;
        let (masked, valid) = (batch.predicted(view) as f64, batch.valid(view) as f64);
        match self.config.reduction {
            PredictionReduction::Joint => vec![Term { name: "", weight: 1.0, count: valid }],
            PredictionReduction::Separate => vec![
                Term { name: "masked", weight: 1.0, count: masked },
                Term { name: "unmasked", weight: 1.0, count: valid - masked },
            ],
        }
    }

    fn send(&self, batch: &HostBatch<'_>, freight: &mut Staging) {
        freight.add_list(&self.config.view, UNMASKED_POSITIONS, &batch.unmasked_positions(&self.config.view));
    }

    fn compute(&self, forward: &Forward<'_>) -> Computed {
        let view = &self.config.view;
        let (uploaded, predicted) = (forward.view(view), forward.predicted(view));
        let positions_n = forward.sent(view, UNMASKED_POSITIONS);
        let targets_n = uploaded.ids_bt.reshape([-1]).index_select(0, &positions_n);
        let head = self.weights.lend(forward.networks().precision());
        let masked = Targets { positions_n: &predicted.positions_n, targets_n: &predicted.targets_n };
        let unmasked = Targets { positions_n: &positions_n, targets_n: &targets_n };
        let found = loss(&forward.encoded(MAIN, view).hidden_btd, &head, masked, unmasked);
        let count = positions_n.size()[0] as f64;
        let metrics = vec![
            Metric::of("accuracy_masked", found.masked.hits, predicted.count as f64),
            Metric::of("accuracy_unmasked", found.unmasked.hits, count),
        ];
        let sums = match self.config.reduction {
            PredictionReduction::Joint => vec![found.masked.sum + found.unmasked.sum],
            PredictionReduction::Separate => vec![found.masked.sum, found.unmasked.sum],
        };
        Computed { sums, metrics }
    }

    fn token_head(&self, networks: &Networks) -> Option<TokenHead> {
        Some(self.weights.lend(networks.precision()))
    }
}
