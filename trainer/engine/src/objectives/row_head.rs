//! Head over the first position of a row, shared by [`classification`](super::classification),
//! [`next_sentence`](super::next_sentence) and [`regression`](super::regression).
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `k` outputs.

use schemas::columns::{IGNORE, TARGETS};
use tch::Tensor;
use trainer_plan::objectives::Activation;
use trainer_plan::pass::Pass;

use crate::device::precision::{Precision, PrecisionCast as _};
use crate::model::forward::Forward;
use crate::model::head_weights::DenseWeights;
use crate::model::heads::Dense;
use crate::model::host_batch::HostBatch;
use crate::model::layers::{Mode, dropout};
use crate::model::parameters::Path;

/// Weights of the head: `W₂ drop(f(W₁ drop(h_0) + b₁)) + b₂`.
#[derive(Debug)]
pub(crate) struct RowHeadWeights {
    pooler: DenseWeights,
    classifier: DenseWeights,
    pub activation: Activation,
    pub input_dropout: f64,
    pub dropout: f64,
}

impl RowHeadWeights {
    /// Builds the head from `pooler` and `classifier` below `head`.
    pub(crate) fn build(head: &Path<'_>, activation: Activation, input_dropout: f64, dropout: f64) -> Self {
        let [pooler, classifier] = ["pooler", "classifier"].map(|name| DenseWeights::build(&head.sub(name)));
        Self { pooler, classifier, activation, input_dropout, dropout }
    }

    /// Returns leaves for products in `precision`.
    pub(crate) fn leaves(&self, precision: Precision) -> RowHead {
        RowHead {
            pooler: self.pooler.leaves(precision),
            classifier: self.classifier.leaves(precision),
            activation: self.activation,
            input_dropout: self.input_dropout,
            dropout: self.dropout,
            precision,
        }
    }

    /// Returns the scores `[b, k]` of the rows of a pass. Its dropout is drawn for `objective`.
    pub(crate) fn scores(&self, forward: &Forward<'_>, pass: &Pass, objective: &str) -> Tensor {
        forward.seed(objective);
        let hidden_btd = &forward.output(pass).hidden_btd;
        self.leaves(forward.networks().precision()).logits(hidden_btd, forward.mode())
    }
}

/// Head with leaves.
#[derive(Debug)]
pub(crate) struct RowHead {
    /// `W₁` and `b₁`, `[d, d]` and `[d]`.
    pub pooler: Dense,
    /// `W₂` and `b₂`, `[k, d]` and `[k]`.
    pub classifier: Dense,
    /// `f`.
    pub activation: Activation,
    /// Dropout of `h_0`.
    pub input_dropout: f64,
    /// Dropout before `W₂`.
    pub dropout: f64,
    /// Precision of matrix products.
    pub precision: Precision,
}

impl RowHead {
    /// Creates the head of next sentence prediction, which is BERT's without dropout.
    pub(crate) fn of_pairs(pooler: Dense, classifier: Dense, precision: Precision) -> Self {
        Self { pooler, classifier, activation: Activation::Tanh, input_dropout: 0.0, dropout: 0.0, precision }
    }

    /// Returns the scores `[b, k]` of hidden states `[b, t, d]`, at least float32. The first position represents the row.
    pub(crate) fn logits(&self, hidden_btd: &Tensor, mode: Mode) -> Tensor {
        let first_bd = dropout(&hidden_btd.select(1, 0), self.input_dropout, mode);
        let pooled_bd = self.pooler.apply(&first_bd, self.precision);
        let pooled_bd = match self.activation {
            Activation::Tanh => pooled_bd.tanh(),
            Activation::Gelu => pooled_bd.gelu("none"),
        };
        let pooled_bd = dropout(&pooled_bd, self.dropout, mode);
        self.precision.upcast(&self.classifier.apply(&pooled_bd, self.precision))
    }
}

/// Returns the target of each row: the first cell of its targets, or −100 for a row without one.
pub(crate) fn row_targets(batch: &HostBatch<'_>, view: &str) -> Vec<i32> {
    let targets = batch.column(view, TARGETS);
    let first = |row: usize| if batch.is_gap(view, row) { IGNORE } else { targets.row(row)[0] };
    (0..targets.rows()).map(first).collect()
}
