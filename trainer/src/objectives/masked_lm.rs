//! Masked language modelling.
//!
//! # What
//! Predicts the original ids at the positions that a mask chose.
//!
//! # Why
//! The baseline of every method here, and the yardstick `valid/mlm`.
//!
//! # Definition
//! `S = Σ_{i ∈ M} CE(logits_i, original_i)`, `CE(l, y) = ln Σ_v exp(l_v) − l_y`,
//! `logits = LN(gelu(h Wᵀ + b)) Eᵀ + c`: `E` is the word table, tied, and `c` one free number per id. The rows of `M`
//! are gathered before the head, which then costs `|M|` rows of the vocabulary and not all positions. An empty `M`
//! gives 0 and gradients of 0.
//!
//! # Columns
//! `labels` of the view.
//!
//! # Reference
//! Devlin et al. 2019, section 3.1; `BertForMaskedLM` of Hugging Face, equal in value and gradient though that one
//! projects all positions and ignores the rest.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `n` predicted positions, `v` ids.

use schemas::Batch;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};
use tch::{Kind, Reduction, Tensor};

use super::heads::{Decoder, Dense, Transform};
use super::{Computed, Loss, Metric, Objective, Pass, Reads, Term};
use crate::forward::Forward;
use crate::networks::{MAIN, Networks};
use crate::parameters::Path;
use crate::plan::Gelu;
use crate::upload::predicted_count;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct MaskedLm {
    /// The masked view.
    pub view: String,
}

impl Default for MaskedLm {
    fn default() -> Self {
        Self { view: "masked".to_owned() }
    }
}

/// The prediction head: a transform, then the tied word table.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// `LN(gelu(h Wᵀ + b))`.
    pub transform: Transform<'a>,
    /// `· Eᵀ + c`.
    pub decoder: Decoder<'a>,
}

impl Head<'_> {
    /// Scores `[n, rows of E]` of all ids for hidden states `[n, d]`; padding rows of `E` score −∞.
    pub fn logits(&self, hidden_nd: &Tensor) -> Tensor {
        self.decoder.logits(&self.transform.apply(hidden_nd))
    }
}

/// What [`loss`] gives.
#[derive(Debug)]
pub struct Prediction {
    /// Sum of the cross-entropies in nats, scalar.
    pub sum: Tensor,
    /// How many targets score highest, scalar int64, without gradient.
    pub hits: Tensor,
}

/// The loss over flat positions `row · t + column`, which may repeat, of hidden states `[b, t, d]`.
///
/// `positions_n` and `targets_n` are int64. The float type is that of `hidden_btd`.
#[must_use]
pub fn loss(hidden_btd: &Tensor, head: &Head<'_>, positions_n: &Tensor, targets_n: &Tensor) -> Prediction {
    let logits_nv = head.logits(&Forward::gather(hidden_btd, positions_n));
    // No target is negative, so nothing is ignored.
    let sum = logits_nv.cross_entropy_loss::<&Tensor>(targets_n, None, Reduction::Sum, -100, 0.0);
    let hits = if targets_n.numel() == 0 {
        targets_n.sum(Kind::Int64)
    } else {
        logits_nv.detach().argmax(-1, false).eq_tensor(targets_n).sum(Kind::Int64)
    };
    Prediction { sum, hits }
}

impl Objective for MaskedLm {
    fn reads(&self) -> Reads {
        Reads { passes: vec![Pass::new(MAIN, &self.view)], columns: vec![(self.view.clone(), LABELS.spec())] }
    }

    fn build(&self, _name: &str, head: &mut Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let width = networks.hidden();
        let encoder = networks.config();
        let mut dense = head.sub("dense");
        let (dense_dd, dense_bias_d) = (dense.matrix("weight", &[width, width]), dense.bias("bias", width));
        let mut norm = head.sub("norm");
        let (norm_gain_d, norm_bias_d) = (norm.gain("weight", width), norm.bias("bias", width));
        Box::new(Weights {
            view: self.view.clone(),
            dense_dd,
            dense_bias_d,
            norm_gain_d,
            norm_bias_d,
            bias_v: head.bias("bias", networks.vocab_size()),
            gelu: encoder.gelu,
            norm_eps: encoder.layer_norm_eps,
        })
    }
}

struct Weights {
    view: String,
    dense_dd: Tensor,
    dense_bias_d: Tensor,
    norm_gain_d: Tensor,
    norm_bias_d: Tensor,
    bias_v: Tensor,
    gelu: Gelu,
    norm_eps: f64,
}

impl Weights {
    fn head<'a>(&'a self, networks: &'a Networks) -> Head<'a> {
        let precision = networks.precision();
        let transform = Transform {
            dense: Dense { weight_oi: &self.dense_dd, bias_o: &self.dense_bias_d },
            norm_gain_d: &self.norm_gain_d,
            norm_bias_d: &self.norm_bias_d,
            gelu: self.gelu,
            norm_eps: self.norm_eps,
            precision,
        };
        let decoder = Decoder { words_vd: networks.word_table(MAIN), bias_v: &self.bias_v, precision };
        Head { transform, decoder }
    }
}

impl Loss for Weights {
    fn terms(&self, batch: &Batch) -> Vec<Term> {
        let count = predicted_count(batch, &self.view).expect("the plan checked columns");
        vec![Term { name: "", weight: 1.0, count: count as f64 }]
    }

    fn compute(&self, forward: &Forward<'_>) -> Computed {
        let predicted = forward.predicted(&self.view);
        let hidden_btd = &forward.encoded(MAIN, &self.view).hidden_btd;
        let head = self.head(forward.networks());
        let Prediction { sum, hits } = loss(hidden_btd, &head, &predicted.positions_n, &predicted.targets_n);
        let accuracy = Metric { name: "accuracy", numerator: hits, denominator: predicted.count as f64 };
        Computed { sums: vec![sum], metrics: vec![accuracy] }
    }

    fn logits(&self, hidden_nd: &Tensor, networks: &Networks) -> Option<Tensor> {
        Some(self.head(networks).logits(hidden_nd))
    }
}
