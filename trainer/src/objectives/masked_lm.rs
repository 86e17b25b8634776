//! Masked language modelling.
//!
//! # What
//! Predicts the original ids at the positions that a mask chose.
//!
//! # Why
//! The baseline of every method here, and the yardstick `valid/mlm`.
//!
//! # Definition
//! `S = Σ_{i ∈ M} CE(logits_i, original_i)` with `logits = LN(gelu(h W^T + b)) E^T + c`, where `E` is the word table
//! and `c` one free number per id. Rows of `M` are gathered before the head: it costs `|M|`, not all positions.
//!
//! # Columns
//! `labels` of the view.
//!
//! # Reference
//! Devlin et al. 2019, section 3.1; `BertForMaskedLM` of Hugging Face.

use schemas::Batch;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};
use tch::{Reduction, Tensor};

use super::{Computed, Loss, Metric, Objective, Pass, Reads, Term};
use crate::encoder::{LayerNorm, Linear};
use crate::forward::Forward;
use crate::networks::{MAIN, Networks};
use crate::parameters::Path;
use crate::plan::Gelu;
use crate::precision::MASTER;
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

impl Objective for MaskedLm {
    fn reads(&self) -> Reads {
        Reads { passes: vec![Pass::new(MAIN, &self.view)], columns: vec![(self.view.clone(), LABELS.spec())] }
    }

    fn build(&self, _name: &str, head: &mut Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let (d, encoder) = (networks.hidden(), networks.config());
        Box::new(Head {
            view: self.view.clone(),
            dense: Linear::build(&mut head.sub("dense"), d, d, networks.precision()),
            norm: LayerNorm::build(&mut head.sub("norm"), d, encoder.layer_norm_eps),
            bias_v: head.bias("bias", networks.vocab_size()),
            gelu: encoder.gelu,
        })
    }
}

struct Head {
    view: String,
    dense: Linear,
    norm: LayerNorm,
    bias_v: Tensor,
    gelu: Gelu,
}

impl Head {
    fn score(&self, hidden_nd: &Tensor, networks: &Networks) -> Tensor {
        let dense_nd = networks.precision().widen(&self.dense.forward(hidden_nd));
        let transformed_nd = self.norm.forward(&dense_nd.gelu(self.gelu.name()));
        networks.tied_logits(MAIN, &transformed_nd, &self.bias_v)
    }
}

impl Loss for Head {
    fn terms(&self, batch: &Batch) -> Vec<Term> {
        let count = predicted_count(batch, &self.view).expect("the plan checked columns");
        vec![Term { name: "", weight: 1.0, count: count as f64 }]
    }

    fn compute(&self, forward: &Forward<'_>) -> Computed {
        let predicted = forward.predicted(&self.view);
        let hidden_btd = &forward.encoded(MAIN, &self.view).hidden_btd;
        let logits_nv = self.score(&Forward::gather(hidden_btd, &predicted.positions_n), forward.networks());
        let sum = logits_nv.cross_entropy_loss::<&Tensor>(&predicted.targets_n, None, Reduction::Sum, -100, 0.0);
        let hits = logits_nv.detach().argmax(-1, false).eq_tensor(&predicted.targets_n).sum(MASTER);
        let accuracy = Metric { name: "accuracy", numerator: hits, denominator: predicted.count as f64 };
        Computed { sums: vec![sum], metrics: vec![accuracy] }
    }

    fn logits(&self, hidden_nd: &Tensor, networks: &Networks) -> Option<Tensor> {
        Some(self.score(hidden_nd, networks))
    }
}
