//! Next sentence prediction (BERT).
//!
//! # What
//! Predicts for two segments whether the second follows the first or comes from elsewhere.
//!
//! # Why
//! Trains the pooler, from which fine-tuning and continual pretraining start.
//!
//! # Definition
//! `S = Σ_rows CE(tanh(h_0 Wᵀ + b) Uᵀ + c, y)` with the hidden state `h_0` of the first position. `y = 1` if the second
//! segment is random, as in the released checkpoints.
//!
//! # Columns
//! `is_random` of the pair view.
//!
//! # Reference
//! Devlin et al. 2019, section 3.1; `BertForNextSentencePrediction` of Hugging Face (0 = follows, 1 = random).
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `2` classes.

use schemas::columns::{IGNORE, IS_RANDOM};
use tch::Kind;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::Activation;
use trainer_plan::objectives::next_sentence::NextSentence;
use trainer_plan::pass::Pass;

use super::classification::loss;
use super::row_head::RowHeadWeights;
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

impl Build for NextSentence {
    fn build(&self, name: &str, head: &Path<'_>, _networks: &Networks) -> Box<dyn Loss> {
        let head = RowHeadWeights::build(head, Activation::Tanh, 0.0, 0.0);
        Box::new(NextSentenceLoss { name: name.to_owned(), view: self.view.clone(), head })
    }
}

struct NextSentenceLoss {
    name: String,
    view: String,
    head: RowHeadWeights,
}

impl Loss for NextSentenceLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: batch.rows_with_tokens(&self.view).len() as f64 }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        let labels = batch.column(&self.view, IS_RANDOM);
        let shape = [labels.rows(), labels.width()];
        let label = |(at, &flag): (usize, &u8)| {
            let has_label = !batch.is_gap(&self.view, at / labels.width());
            i64::from(if has_label { flag.into() } else { IGNORE })
        };
        staging.add(&self.view, IS_RANDOM.spec().name, &shape, labels.values().iter().enumerate().map(label));
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let logits_b2 = self.head.scores(forward, &Pass::new(MAIN, &self.view), &self.name);
        // The column repeats the row's label in every cell.
        let is_random_b = forward.uploaded(&self.view, IS_RANDOM.spec().name).select(1, 0);
        let found = loss(&logits_b2, &is_random_b, None);
        let rows = forward.batch().rows_with_tokens(&self.view).len() as f64;
        let random = is_random_b.eq(1).sum(Kind::Int64);
        let metrics = vec![Metric::new("accuracy", found.hits, rows), Metric::new("random_rate", random, rows)];
        ObjectiveOutput { sums: vec![found.sum], metrics }
    }
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Tensor};

    use super::loss;
    use crate::device::precision::Precision;
    use crate::model::heads::Dense;
    use crate::model::layers::Mode;
    use crate::objectives::row_head::RowHead;

    fn number(tensor: &Tensor) -> f64 {
        f64::try_from(tensor.to_kind(Kind::Double)).expect("one number")
    }

    #[test]
    fn random_is_class_one() {
        let logits_b2 = Tensor::from_slice(&[2.0, 0.0, 2.0, 0.0]).view([2, 2]);
        let found = loss(&logits_b2, &Tensor::from_slice(&[0_i64, 1]), None);
        let expected = 2.0 * 2.0_f64.exp().ln_1p() - 2.0;
        assert!((number(&found.sum) - expected).abs() < 1e-12, "{found:?}");
        assert!((number(&found.hits) - 1.0).abs() < 0.5, "{found:?}");
    }

    #[test]
    fn the_first_position_is_pooled() {
        let tensor = |values: &[f64], shape: &[i64]| Tensor::from_slice(values).view(shape);
        let weight_oi = tensor(&[0.5, 0.0, 0.0, 2.0], &[2, 2]);
        let bias_o = tensor(&[0.0, 0.1], &[2]);
        let out_oi = tensor(&[1.0, 0.0, 0.0, -1.0], &[2, 2]);
        let out_o = tensor(&[0.0, 0.25], &[2]);
        let head =
            RowHead::of_pairs(Dense { weight_oi, bias_o }, Dense { weight_oi: out_oi, bias_o: out_o }, Precision::F32);
        let logits = head.logits(&tensor(&[1.0, 0.2, 9.0, 9.0], &[1, 2, 2]), Mode::Train);
        let found: Vec<f64> = Vec::try_from(logits.view([-1])).expect("a vector");
        assert!((found[0] - 0.5_f64.tanh()).abs() < 1e-12 && (found[1] - 0.25 + 0.5_f64.tanh()).abs() < 1e-12);
    }
}
