//! Classification of tokens.
//!
//! # What
//! Predicts the class of each labelled token.
//!
//! # Why
//! Fine-tuning on named entities and other labels of words.
//!
//! # Definition
//! `S = Σ w_y CE(W drop(h_t) + b, y_t)` over the tokens with a class, with `N = Σ w_y`; all `w` are 1 by default.
//!
//! # Columns
//! `targets` of the view `labelled_example` with `target = "tokens"`.
//!
//! # Reference
//! Devlin et al. 2019, section 5.3; `BertForTokenClassification` of Hugging Face.
//!
//! Axes: `b` rows, `t` positions, `n` labelled tokens, `k` classes.

use schemas::columns::{IGNORE, TARGETS};
use tch::Tensor;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::token_classification::TokenClassification;
use trainer_plan::pass::Pass;

use super::classification::{ClassWeights, loss};
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::device::precision::PrecisionCast as _;
use crate::model::forward::Forward;
use crate::model::head_weights::DenseWeights;
use crate::model::host_batch::HostBatch;
use crate::model::layers::dropout;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Names of the arrays that are uploaded.
const POSITIONS: &str = "labelled positions";
const CLASSES: &str = "classes";

impl Build for TokenClassification {
    fn build(&self, name: &str, head: &Path<'_>, _networks: &Networks) -> Box<dyn Loss> {
        Box::new(TokenClassificationLoss {
            name: name.to_owned(),
            view: self.view.clone(),
            pass: Pass::to_layer(MAIN, &self.view, self.layer),
            class_weights: ClassWeights(self.class_weights.clone()),
            dropout: self.dropout,
            classifier: DenseWeights::build(&head.sub("classifier")),
        })
    }
}

struct TokenClassificationLoss {
    name: String,
    view: String,
    pass: Pass,
    class_weights: ClassWeights,
    dropout: f64,
    classifier: DenseWeights,
}

/// Returns the flat positions and the classes of the labelled tokens of a view.
pub(super) fn labelled(batch: &HostBatch<'_>, view: &str) -> (Vec<i64>, Vec<i64>) {
    let targets = batch.column(view, TARGETS);
    let is_counted = |at: i64| !batch.is_gap(view, usize::try_from(at).unwrap_or(0) / targets.width());
    let cells = (0..).zip(targets.values()).filter(|&(at, &target)| target != IGNORE && is_counted(at));
    cells.map(|(at, &class)| (at, i64::from(class))).unzip()
}

impl TokenClassificationLoss {
    /// Returns the scores `[…, k]` of hidden states `[…, d]`.
    fn logits(&self, forward: &Forward<'_>, hidden: &Tensor) -> Tensor {
        let precision = forward.networks().precision();
        forward.seed(&self.name);
        let hidden = dropout(hidden, self.dropout, forward.mode());
        precision.upcast(&self.classifier.leaves(precision).apply(&hidden, precision))
    }
}

impl Loss for TokenClassificationLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        let count = self.class_weights.sum(labelled(batch, &self.view).1.into_iter());
        vec![Term { name: "", weight: 1.0, count }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        let (positions, classes) = labelled(batch, &self.view);
        staging.add_list(&self.name, POSITIONS, &positions);
        staging.add_list(&self.name, CLASSES, &classes);
        self.class_weights.send(&self.name, staging);
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let positions_n = forward.uploaded(&self.name, POSITIONS);
        let hidden_nd = Forward::gather(&forward.output(&self.pass).hidden_btd, &positions_n);
        let logits_nk = self.logits(forward, &hidden_nd);
        let weights_k = self.class_weights.uploaded(&self.name, forward);
        let found = loss(&logits_nk, &forward.uploaded(&self.name, CLASSES), weights_k.as_ref());
        let tokens = labelled(forward.batch(), &self.view).0.len() as f64;
        ObjectiveOutput { sums: vec![found.sum], metrics: vec![Metric::new("accuracy", found.hits, tokens)] }
    }

    fn scores(&self, forward: &Forward<'_>) -> Option<Tensor> {
        Some(self.logits(forward, &forward.output(&self.pass).hidden_btd))
    }
}
