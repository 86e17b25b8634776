//! Regression.
//!
//! # What
//! Predicts the score of each labelled example from its first position.
//!
//! # Why
//! Fine-tuning on STS-B and on any other texts with scores.
//!
//! # Definition
//! `S = Σ_rows (x − y)²` with `x = W₂ drop(f(W₁ drop(h_0) + b₁)) + b₂`. Rows without a score do not count.
//!
//! # Columns
//! `targets` of the view `labelled_example`: the bits of the float32 score in the first cell.
//!
//! # Reference
//! Devlin et al. 2019, section 4.1; `BertForSequenceClassification` of Hugging Face with one label.
//!
//! Axes: `b` rows.

use schemas::columns::IGNORE;
use tch::Tensor;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::regression::Regression;
use trainer_plan::pass::Pass;

use super::row_head::{RowHeadWeights, row_targets};
use super::{Build, Loss, ObjectiveOutput, Term};
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Names of the arrays that are uploaded.
const SCORES: &str = "scores";
const COUNTED: &str = "counted";

/// Computes the sum of the squared errors of outputs `[b]`. `counted_b` is 1 for rows with a score, 0 for others.
pub(crate) fn loss(outputs_b: &Tensor, scores_b: &Tensor, counted_b: &Tensor) -> Tensor {
    ((outputs_b - scores_b).square() * counted_b).sum(outputs_b.kind())
}

impl Build for Regression {
    fn build(&self, name: &str, head: &Path<'_>, _networks: &Networks) -> Box<dyn Loss> {
        Box::new(RegressionLoss {
            name: name.to_owned(),
            view: self.view.clone(),
            pass: Pass::to_layer(MAIN, &self.view, self.layer),
            head: RowHeadWeights::build(head, self.activation, self.input_dropout, self.dropout),
        })
    }
}

struct RegressionLoss {
    name: String,
    view: String,
    pass: Pass,
    head: RowHeadWeights,
}

impl RegressionLoss {
    /// Returns the scores of a batch, 0 for rows without one, and the flags of those that have one.
    fn targets(&self, batch: &HostBatch<'_>) -> (Vec<f32>, Vec<f32>) {
        let of =
            |target: i32| if target == IGNORE { (0.0, 0.0) } else { (f32::from_bits(target.cast_unsigned()), 1.0) };
        row_targets(batch, &self.view).into_iter().map(of).unzip()
    }
}

impl Loss for RegressionLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        let count = self.targets(batch).1.into_iter().map(f64::from).sum();
        vec![Term { name: "", weight: 1.0, count }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        let (scores, counted) = self.targets(batch);
        staging.add_list(&self.name, SCORES, &scores);
        staging.add_list(&self.name, COUNTED, &counted);
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let outputs_b = self.head.scores(forward, &self.pass, &self.name).select(1, 0);
        let [scores_b, counted_b] = [SCORES, COUNTED].map(|array| forward.uploaded(&self.name, array));
        ObjectiveOutput { sums: vec![loss(&outputs_b, &scores_b, &counted_b)], metrics: Vec::new() }
    }

    fn scores(&self, forward: &Forward<'_>) -> Option<Tensor> {
        Some(self.head.scores(forward, &self.pass, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use tch::Kind;

    use super::*;

    #[test]
    fn squared_errors_of_rows_with_a_score_are_summed() {
        let of = |values: &[f64]| Tensor::from_slice(values);
        let found = loss(&of(&[1.0, 2.5, 9.0]), &of(&[3.0, 2.0, 0.0]), &of(&[1.0, 1.0, 0.0]));
        let found = f64::try_from(found.to_kind(Kind::Double)).expect("one number");
        assert!((found - 4.25).abs() < 1e-12, "{found}");
    }
}
