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

use serde::{Deserialize, Serialize};
use tch::Tensor;

use super::masked_lm::{self, Head, Prediction};

/// How the two parts are averaged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Pool {
    /// Each by itself.
    #[default]
    Separate,
    /// As one.
    Joint,
}

/// Flat positions `row · t + column` and the ids that belong there, int64, `[n]`.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Where.
    pub positions_n: &'a Tensor,
    /// What.
    pub targets_n: &'a Tensor,
}

/// What [`loss`] gives.
#[derive(Debug)]
pub struct Predictions {
    /// Over the masked positions.
    pub masked: Prediction,
    /// Over the others.
    pub unmasked: Prediction,
}

/// Both sums for hidden states `[b, t, d]`. The vocabulary meets one part at a time.
#[must_use]
pub fn loss(hidden_btd: &Tensor, head: &Head<'_>, masked: Part<'_>, unmasked: Part<'_>) -> Predictions {
    let of = |part: Part<'_>| masked_lm::loss(hidden_btd, head, part.positions_n, part.targets_n);
    Predictions { masked: of(masked), unmasked: of(unmasked) }
}
