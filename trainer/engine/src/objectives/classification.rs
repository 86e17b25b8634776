//! Classification of rows.
//!
//! # What
//! Predicts the class of each labelled example from its first position, in the last layer or an earlier one.
//!
//! # Why
//! Fine-tuning on the tasks of GLUE and on any other labelled texts.
//!
//! # Definition
//! `S = Σ_rows w_y · CE(W₂ drop(f(W₁ drop(h_0) + b₁)) + b₂, y)`, with `N = Σ_rows w_y`; all `w` are 1 by default.
//! Rows without a class do not count.
//!
//! # Columns
//! `targets` of the view `labelled_example`: the class in the first cell.
//!
//! # Reference
//! Devlin et al. 2019, section 4.1; `BertForSequenceClassification` (`tanh`, dropout before the classifier),
//! `RobertaClassificationHead` (dropout before both layers) and `ElectraClassificationHead` (GELU) of Hugging Face.
//!
//! Axes: `b` rows, `k` classes.

use schemas::columns::IGNORE;
use tch::{Kind, Reduction, Tensor};
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::classification::Classification;
use trainer_plan::pass::Pass;

use super::row_head::{RowHeadWeights, row_targets};
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Names of the arrays that are uploaded.
const CLASSES: &str = "classes";
const WEIGHTS: &str = "class weights";

/// Result of [`loss`].
#[derive(Debug)]
pub(crate) struct ClassLoss {
    /// Sum of the weighted cross-entropies in nats, scalar.
    pub sum: Tensor,
    /// Number of correctly classified rows, scalar int64, without gradient.
    pub hits: Tensor,
}

/// Computes the loss of scores `[b, k]`. `classes_b` is int64, −100 for rows without a class; `weights_k` are float32.
#[must_use]
pub(crate) fn loss(logits_bk: &Tensor, classes_b: &Tensor, weights_k: Option<&Tensor>) -> ClassLoss {
    let weights_k = weights_k.map(|weights_k| weights_k.to_kind(logits_bk.kind()));
    let sum = logits_bk.cross_entropy_loss(classes_b, weights_k.as_ref(), Reduction::Sum, IGNORE.into(), 0.0);
    let hits = logits_bk.detach().argmax(-1, false).eq_tensor(classes_b).sum(Kind::Int64);
    ClassLoss { sum, hits }
}

/// Weights of the classes in a loss, as `CrossEntropyLoss(weight=…)` of PyTorch: the loss is the mean of the
/// cross-entropies, weighted by the class of each target. Empty if all are 1.
#[derive(Clone, Debug)]
pub(crate) struct ClassWeights(pub Vec<f64>);

impl ClassWeights {
    /// Returns the sum of the weights of targets; those without a class, −100, have none.
    pub(crate) fn sum(&self, targets: impl Iterator<Item = i64>) -> f64 {
        let weight = |class: usize| if self.0.is_empty() { 1.0 } else { self.0[class] };
        targets.filter_map(|target| usize::try_from(target).ok()).map(weight).sum()
    }

    /// Packs the weights for an objective.
    pub(crate) fn send(&self, objective: &str, staging: &mut Staging) {
        if !self.0.is_empty() {
            #[expect(clippy::cast_possible_truncation, reason = "the loss is computed in float32")]
            let weights: Vec<f32> = self.0.iter().map(|&weight| weight as f32).collect();
            staging.add_list(objective, WEIGHTS, &weights);
        }
    }

    /// Returns the uploaded weights of an objective.
    pub(crate) fn uploaded(&self, objective: &str, forward: &Forward<'_>) -> Option<Tensor> {
        (!self.0.is_empty()).then(|| forward.uploaded(objective, WEIGHTS))
    }
}

impl Build for Classification {
    fn build(&self, name: &str, head: &Path<'_>, _networks: &Networks) -> Box<dyn Loss> {
        Box::new(ClassificationLoss {
            name: name.to_owned(),
            view: self.view.clone(),
            pass: Pass::to_layer(MAIN, &self.view, self.layer),
            class_weights: ClassWeights(self.class_weights.clone()),
            head: RowHeadWeights::build(head, self.activation, self.input_dropout, self.dropout),
        })
    }
}

struct ClassificationLoss {
    name: String,
    view: String,
    pass: Pass,
    class_weights: ClassWeights,
    head: RowHeadWeights,
}

impl Loss for ClassificationLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        let classes = row_targets(batch, &self.view).into_iter().map(i64::from);
        vec![Term { name: "", weight: 1.0, count: self.class_weights.sum(classes) }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        let classes = row_targets(batch, &self.view);
        staging.add(&self.name, CLASSES, &[classes.len()], classes.into_iter().map(i64::from));
        self.class_weights.send(&self.name, staging);
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let logits_bk = self.head.scores(forward, &self.pass, &self.name);
        let classes_b = forward.uploaded(&self.name, CLASSES);
        let weights_k = self.class_weights.uploaded(&self.name, forward);
        let found = loss(&logits_bk, &classes_b, weights_k.as_ref());
        let targets = row_targets(forward.batch(), &self.view);
        let rows = targets.iter().filter(|&&class| class != IGNORE).count() as f64;
        ObjectiveOutput { sums: vec![found.sum], metrics: vec![Metric::new("accuracy", found.hits, rows)] }
    }

    fn scores(&self, forward: &Forward<'_>) -> Option<Tensor> {
        Some(self.head.scores(forward, &self.pass, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(tensor: &Tensor) -> f64 {
        f64::try_from(tensor.to_kind(Kind::Double)).expect("one number")
    }

    #[test]
    fn weights_scale_the_cross_entropies_and_rows_without_a_class_do_not_count() {
        let logits_bk = Tensor::from_slice(&[2.0, 0.0, 0.0, 1.0, 5.0, 5.0]).view([3, 2]);
        let classes_b = Tensor::from_slice(&[0_i64, 0, -100]);
        let [first, second] = [(-2.0_f64).exp().ln_1p(), 1.0_f64.exp().ln_1p()];
        let plain = loss(&logits_bk, &classes_b, None);
        assert!((number(&plain.sum) - first - second).abs() < 1e-12, "{plain:?}");
        assert!((number(&plain.hits) - 1.0).abs() < 1e-12, "{plain:?}");
        let weighted = loss(&logits_bk, &classes_b, Some(&Tensor::from_slice(&[3.0_f32, 1.0])));
        assert!((number(&weighted.sum) - 3.0 * (first + second)).abs() < 1e-12, "{weighted:?}");
    }

    /// `torch.nn.CrossEntropyLoss(weight=[0.2, 1.0, 3.5])` of these scores is 0.663631370 and, without the third row,
    /// 0.493261707.
    #[test]
    fn weighted_mean_equals_that_of_pytorch() {
        let logits_bk =
            Tensor::from_slice(&[0.5, -1.0, 2.0, 1.5, 0.25, -0.75, -0.5, 0.0, 1.0, 2.0, 1.0, 0.0]).view([4, 3]);
        let weights = ClassWeights(vec![0.2, 1.0, 3.5]);
        let weights_k = Tensor::from_slice(&weights.0);
        for (classes, expected) in [([2, 0, 1, 1_i64], 0.663_631_370), ([2, 0, -100, 1], 0.493_261_707)] {
            let classes_b = Tensor::from_slice(&classes);
            let found = loss(&logits_bk, &classes_b, Some(&weights_k));
            let mean = number(&found.sum) / weights.sum(classes.into_iter());
            let pytorch = logits_bk.cross_entropy_loss(&classes_b, Some(&weights_k), Reduction::Mean, -100, 0.0);
            assert!((mean - number(&pytorch)).abs() < 1e-12, "{found:?}");
            assert!((mean - expected).abs() < 1e-9, "{mean}");
        }
    }
}
