//! Contrast of the rows of a micro-batch with those of the global batch.
//!
//! # Definition
//! The loss of a step is the sum of `S` over all `2N` anchors of the step. A micro-batch computes the terms of its
//! anchors, and the gradient of the *whole* sum for its vectors: they are anchors, and candidates of all other anchors.
//! With `p(a, j) = exp(s_a · s_j / τ − l_a)` and `l_a` the logarithm of the sum over the candidates of `a`:
//!
//! ```text
//! ∂S / ∂s_i = (Σ_{j ∈ N(i)} (p(i, j) + p(j, i)) s_j − 2 s_i′) / τ
//! ```
//!
//! The vectors of other micro-batches and all `l` are known before, without gradient. So the memory of activations is
//! that of a micro-batch, and the gradients of all micro-batches add up to those of one batch of all rows.
//!
//! # Reference
//! Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited Setup", for the two passes.

use std::ops::Range;

use tch::{Kind, Tensor};
use trainer_plan::objectives::sequence_contrastive::Negatives;

use super::agreement::Agreement;
use crate::model::forward::GlobalVectors;
use crate::objectives::similarity;

/// Scores of the anchors of some rows with the vectors of all rows.
struct Scores {
    /// Cosines, `[2n, 2N]`.
    cosine_mc: Tensor,
    /// Cosines by temperature, −∞ for vectors that are not candidates.
    score_mc: Tensor,
    /// Which vectors are not candidates.
    excluded_mc: Tensor,
    /// Index of the partner of each anchor, `[2n, 1]`.
    partner_m1: Tensor,
}

impl Scores {
    /// Computes the scores of `rows` with `all_cd`, the vectors of both views one after the other.
    fn new(all_cd: &Tensor, rows: Range<i64>, temperature: f64, negatives: Negatives) -> Self {
        let index = (Kind::Int64, all_cd.device());
        let candidates = all_cd.size()[0];
        let all_rows = candidates / 2;
        let row_n = Tensor::arange_start(rows.start, rows.end, index);
        let anchor_m1 = Tensor::cat(&[&row_n, &(&row_n + all_rows)], 0).unsqueeze(1);
        let candidate_1c = Tensor::arange(candidates, index).unsqueeze(0);
        let excluded_mc = match negatives {
            Negatives::Both => candidate_1c.eq_tensor(&anchor_m1),
            Negatives::Cross => candidate_1c.ge(all_rows).eq_tensor(&anchor_m1.ge(all_rows)),
        };
        let cosine_mc = all_cd.index_select(0, &anchor_m1.squeeze_dim(1)).matmul(&all_cd.tr());
        let score_mc = (&cosine_mc / temperature).masked_fill(&excluded_mc, f64::NEG_INFINITY);
        let partner_m1 = (&anchor_m1 + all_rows).remainder(candidates);
        Self { cosine_mc, score_mc, excluded_mc, partner_m1 }
    }
}

/// Returns the logarithms of the sums over the candidates of the anchors of `rows`, `[2, n]`.
pub(super) fn log_sums(all_vnd: &Tensor, rows: Range<i64>, temperature: f64, negatives: Negatives) -> Tensor {
    if rows.is_empty() {
        return Tensor::zeros([2, 0], (all_vnd.kind(), all_vnd.device()));
    }
    let all_cd = all_vnd.flatten(0, 1);
    Scores::new(&all_cd, rows, temperature, negatives).score_mc.logsumexp([1], false).view([2, -1])
}

/// Computes the terms of the anchors of a micro-batch from its vectors `[n, d]` before they are normalised. The
/// gradient of the sum is that of the terms of all anchors of the step. Uniformity is that of the micro-batch.
pub(super) fn loss(
    one_nd: &Tensor,
    two_nd: &Tensor,
    global: &GlobalVectors,
    temperature: f64,
    negatives: Negatives,
) -> Agreement {
    let GlobalVectors { all_vnd, log_sums_vn, rows } = global;
    if rows.is_empty() {
        return Agreement::zero(one_nd);
    }
    let all_cd = all_vnd.flatten(0, 1);
    let kind = all_cd.kind();
    let Scores { cosine_mc, score_mc, excluded_mc, partner_m1 } =
        Scores::new(&all_cd, rows.clone(), temperature, negatives);
    let positive_m1 = cosine_mc.gather(1, &partner_m1, false);
    let log_sum_m1 = log_sums_vn.narrow(1, rows.start, rows.end - rows.start).reshape([-1, 1]);
    let sum = (&log_sum_m1 - &positive_m1 / temperature).sum(kind);

    let as_anchor_mc = (&score_mc - &log_sum_m1).exp();
    let as_candidate_mc = (&score_mc - log_sums_vn.reshape([1, -1])).exp();
    let partner_md = all_cd.index_select(0, &partner_m1.squeeze_dim(1));
    let gradient_md = ((as_anchor_mc + as_candidate_mc).matmul(&all_cd) - partner_md * 2.0) / temperature;
    let product = (similarity::unit(&Tensor::cat(&[one_nd, two_nd], 0)) * gradient_md).sum(kind);

    let negatives_of_each = excluded_mc.logical_not().sum_dim_intlist([1].as_slice(), false, kind) - 1.0;
    let negative_mc = cosine_mc.masked_fill(&excluded_mc, 0.0);
    let spread = similarity::alignment_uniformity(&one_nd.detach(), &two_nd.detach(), 2.0, 2.0);
    Agreement {
        // Value of the sum, and gradient of the product.
        sum: &product + (sum - product.detach()),
        negative: (negative_mc.sum(kind) - positive_m1.sum(kind)) / negatives_of_each.sum(kind).clamp_min(1.0),
        positive: positive_m1.mean(kind),
        alignment: spread.alignment,
        uniformity: spread.uniformity,
    }
}
