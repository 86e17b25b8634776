//! Sequence contrast (COCO-LM).
//!
//! # What
//! Pulls the sequence vectors of two views of one sample, a corrupted one and a crop, together, and those of other
//! samples apart.
//!
//! # Why
//! Without this objective the sequence vectors of a language model lie in a narrow cone, where similarity is not
//! informative.
//!
//! # Definition
//! With the `2n` unit vectors `s` of both views and `a′` the partner of anchor `a`:
//!
//! ```text
//! S = Σ_a ln Σ_{j ∈ N(a)} exp(s_a · s_j / τ) − s_a · s_a′ / τ
//! ```
//!
//! `N(a)` is all vectors except `a` itself (`both`), or the other view alone (`cross`); both contain the partner. Both
//! views get gradients. The negatives come from the rows of the micro-batch, so its size changes the objective and the
//! lower bound of its value, or from all rows of the step (`negatives_from = "global_batch"`). The mean cosines are
//! easier to compare.
//!
//! # Columns
//! Only those that the encoder reads. The sequence vector is the hidden state of the first position, with or without a
//! `Transform`.
//!
//! # Reference
//! Meng et al. 2021, "COCO-LM", section 3.2, equation 5; Chen et al. 2020, `SimCLR`, for the form; Wang & Isola 2020
//! for alignment and uniformity.
//!
//! Axes: `n` rows, `N` rows of the global batch, `m` = 2n vectors, `v` = 2 views, `d` hidden.

mod global;
mod scores;

use std::ops::Range;

use tch::Tensor;
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::RowSet;
use trainer_plan::objectives::sequence_contrastive::{Negatives, SequenceContrastive, VectorForm};

use self::scores::{Agreement, Scores};
use super::{Build, GlobalContrast, Loss, Metric, ObjectiveOutput, Term};
use crate::model::forward::Forward;
use crate::model::head_weights::TransformWeights;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;
use crate::objectives::similarity;

/// Computes the loss of two views `[n, d]` of the same rows, before they are normalised; float32 or float64.
#[must_use]
pub(crate) fn loss(one_nd: &Tensor, two_nd: &Tensor, temperature: f64, negatives: Negatives) -> Agreement {
    let rows = one_nd.size()[0];
    if rows == 0 {
        return Agreement::zero(one_nd);
    }
    let unit_md = similarity::unit(&Tensor::cat(&[one_nd, two_nd], 0));
    let scores = Scores::new(&unit_md, &unit_md, 0..rows, temperature, negatives);
    let sum = (scores.score_mc.logsumexp([1], false) - &scores.positive_m / temperature).sum(unit_md.kind());
    scores.agreement(sum, one_nd, two_nd)
}

impl Build for SequenceContrastive {
    fn build(&self, name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let shape = networks.config();
        let transform = (self.head == VectorForm::Transform).then(|| TransformWeights::build(shape, head));
        Box::new(SequenceContrastiveLoss { name: name.to_owned(), config: self.clone(), transform })
    }
}

/// Array name of the rows with tokens, if there are excluded rows.
const ROWS: &str = "rows_with_tokens";

struct SequenceContrastiveLoss {
    name: String,
    config: SequenceContrastive,
    transform: Option<TransformWeights>,
}

impl SequenceContrastiveLoss {
    /// Returns the sequence vectors `[n, d]` of both views.
    fn views(&self, forward: &Forward<'_>) -> [Tensor; 2] {
        [&self.config.view, &self.config.positive].map(|view| self.sequence_vectors(forward, view))
    }

    /// Returns the sequence vectors `[n, d]` of a pass, without excluded rows.
    fn sequence_vectors(&self, forward: &Forward<'_>, view: &str) -> Tensor {
        let first_nd = forward.encoded(MAIN, view).hidden_btd.select(1, 0);
        let first_nd = if forward.batch().has_gaps(&self.config.view) {
            first_nd.index_select(0, &forward.uploaded(&self.config.view, ROWS))
        } else {
            first_nd
        };
        let precision = forward.networks().precision();
        let transformed = self.transform.as_ref().map(|head| head.leaves(precision).apply(&first_nd));
        transformed.unwrap_or(first_nd)
    }
}

impl Loss for SequenceContrastiveLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: 2.0 * batch.rows_with_tokens(&self.config.view).len() as f64 }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        if batch.has_gaps(&self.config.view) {
            staging.add_list(&self.config.view, ROWS, &batch.rows_with_tokens(&self.config.view));
        }
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let config = &self.config;
        let [one_nd, two_nd] = self.views(forward);
        let found = match forward.global(&self.name) {
            Some(vectors) => global::loss(&one_nd, &two_nd, vectors, config.temperature, config.negatives),
            None => loss(&one_nd, &two_nd, config.temperature, config.negatives),
        };
        let rows = forward.batch().rows_with_tokens(&config.view).len() as f64;
        let metrics = vec![
            Metric::mean("positive_cosine", &found.positive, rows),
            Metric::mean("negative_cosine", &found.negative, rows),
            Metric::mean("alignment", &found.alignment, rows),
            Metric::mean("uniformity", &found.uniformity, rows),
        ];
        ObjectiveOutput { sums: vec![found.sum], metrics }
    }

    fn global_contrast(&self) -> Option<&dyn GlobalContrast> {
        (self.config.negatives_from == RowSet::GlobalBatch).then_some(self)
    }
}

impl GlobalContrast for SequenceContrastiveLoss {
    fn vectors(&self, forward: &Forward<'_>) -> Tensor {
        similarity::unit(&Tensor::stack(&self.views(forward), 0)).detach()
    }

    fn log_sums(&self, all_vnd: &Tensor, rows: Range<i64>) -> Tensor {
        global::log_sums(all_vnd, rows, self.config.temperature, self.config.negatives)
    }
}

#[cfg(test)]
mod tests {
    use tch::{Kind, Reduction, Tensor};

    use super::{Negatives, global, loss, similarity};
    use crate::model::forward::GlobalVectors;

    fn number(tensor: &Tensor) -> f64 {
        f64::try_from(tensor).expect("one number")
    }

    fn check(what: &str, found: f64, expected: f64, tolerance: f64) {
        assert!((found - expected).abs() < tolerance, "{what}: {found} is not {expected}");
    }

    fn pairs(values: [f64; 4]) -> Tensor {
        Tensor::from_slice(&values).view([2, 2])
    }

    #[test]
    fn the_mean_is_that_of_the_worked_example() {
        let masked_nd = pairs([1.0, 0.0, 0.0, 2.0]);
        let crop_nd = pairs([3.0, 0.0, 3.0, 4.0]);
        let found = loss(&masked_nd, &crop_nd, 1.0, Negatives::Both);
        check("mean", number(&found.sum) / 4.0, 0.758_774_453_636, 1e-12);
        check("positive", number(&found.positive), 0.9, 1e-12);
        check("negative", number(&found.negative), (0.0 + 0.6 + 0.0 + 0.6) / 4.0, 1e-12);
        check("alignment", number(&found.alignment), 0.2, 1e-12);
    }

    #[test]
    fn aligned_orthogonal_pairs_reach_the_bound() {
        let found = loss(&pairs([1.0, 0.0, 0.0, 3.0]), &pairs([2.0, 0.0, 0.0, 1.0]), 1.0, Negatives::Both);
        check("both", number(&found.sum) / 4.0, 0.551_444_714, 1e-9);
        let found = loss(&pairs([1.0, 0.0, 0.0, 3.0]), &pairs([2.0, 0.0, 0.0, 1.0]), 1.0, Negatives::Cross);
        check("cross", number(&found.sum) / 4.0, (-1.0_f64).exp().ln_1p(), 1e-12);
    }

    #[test]
    fn the_bound_grows_with_the_batch() {
        // Partners are equal, and all negatives are as far apart as a simplex of 8 allows.
        let simplex_nd = Tensor::eye(8, (Kind::Double, tch::Device::Cpu)) - 0.125;
        let found = loss(&simplex_nd, &(&simplex_nd * 3.0), 1.0, Negatives::Both);
        check("mean", number(&found.sum) / 16.0, 1.698, 5e-4);
        check("positive", number(&found.positive), 1.0, 1e-12);
        check("negative", number(&found.negative), -1.0 / 7.0, 1e-12);
    }

    #[test]
    fn cross_is_the_mean_of_two_retrievals() {
        let one_nd = Tensor::randn([5, 3], (Kind::Double, tch::Device::Cpu));
        let two_nd = &one_nd * 0.5 + 1.0;
        let unit = |rows: &Tensor| rows / rows.norm_scalaropt_dim(2, [-1], true);
        let score_nn = unit(&one_nd).matmul(&unit(&two_nd).tr()) / 0.3;
        let rows = Tensor::arange(5, (Kind::Int64, tch::Device::Cpu));
        let of =
            |score_nn: &Tensor| number(&score_nn.cross_entropy_loss::<&Tensor>(&rows, None, Reduction::Sum, -100, 0.0));
        let found = loss(&one_nd, &two_nd, 0.3, Negatives::Cross);
        check("sum", number(&found.sum), of(&score_nn) + of(&score_nn.tr()), 1e-10);
        check(
            "negative",
            number(&found.negative),
            number(&((&score_nn.sum(Kind::Double) - score_nn.trace()) * 0.3 / 20.0)),
            1e-10,
        );
    }

    #[test]
    fn a_single_row_has_no_loss_and_no_gradient() {
        let one_nd = Tensor::from_slice(&[1.0, 2.0]).view([1, 2]).set_requires_grad(true);
        let found = loss(&one_nd, &Tensor::from_slice(&[2.0, 1.0]).view([1, 2]), 1.0, Negatives::Both);
        found.sum.backward();
        check("sum", number(&found.sum), 0.0, 1e-12);
        check("gradient", number(&one_nd.grad().abs().max()), 0.0, 1e-12);
        check("negative", number(&found.negative), 0.0, 1e-12);
    }

    fn check_tensor(what: &str, found: &Tensor, expected: &Tensor) {
        let distance = f64::try_from((found - expected).norm() / expected.norm()).expect("one number");
        assert!(distance < 1e-12, "{what}: the difference is {distance} of the norm");
    }

    /// Values and gradients of batches of some rows add up to those of one batch.
    #[test]
    fn parts_add_up_to_the_whole() {
        for (negatives, temperature) in [(Negatives::Both, 1.0), (Negatives::Cross, 0.2)] {
            let views_vnd = Tensor::randn([2, 9, 5], (Kind::Double, tch::Device::Cpu)).set_requires_grad(true);
            let [one_nd, two_nd] = [0, 1].map(|view| views_vnd.select(0, view));
            let whole = loss(&one_nd, &two_nd, temperature, negatives);
            whole.sum.backward();
            let expected_vnd = views_vnd.grad().copy();
            let _zeroed = views_vnd.grad().zero_();

            let all_vnd = similarity::unit(&views_vnd).detach();
            // The third has no rows.
            let parts = [0..2, 2..6, 6..6, 6..9];
            let of_parts = parts.clone().map(|rows| global::log_sums(&all_vnd, rows, temperature, negatives));
            let log_sums_vn = Tensor::cat(&of_parts, 1);
            let mut sum = Tensor::zeros([1_i64; 0], (Kind::Double, tch::Device::Cpu));
            let mut negative = 0.0;
            for rows in parts {
                let [one_nd, two_nd] = [&one_nd, &two_nd].map(|view| view.narrow(0, rows.start, rows.end - rows.start));
                let count = rows.end - rows.start;
                let vectors =
                    GlobalVectors { all_vnd: all_vnd.copy(), log_sums_vn: log_sums_vn.copy(), rows: rows.clone() };
                let part = global::loss(&one_nd, &two_nd, &vectors, temperature, negatives);
                if part.sum.requires_grad() {
                    part.sum.backward();
                }
                sum += part.sum.detach();
                negative += count as f64 * number(&part.negative) / 9.0;
            }
            check_tensor("sum", &sum, &whole.sum);
            check_tensor("gradient", &views_vnd.grad(), &expected_vnd);
            check("negative", negative, number(&whole.negative), 1e-12);
        }
    }
}
