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

use tch::Tensor;
use trainer_plan::objectives::sequence_contrastive::Negatives;

use super::scores::{Agreement, Scores};
use crate::model::forward::GlobalVectors;
use crate::objectives::similarity;

/// Returns the logarithms of the sums over the candidates of the anchors of `rows`, `[2, n]`.
pub(super) fn log_sums(all_vnd: &Tensor, rows: Range<i64>, temperature: f64, negatives: Negatives) -> Tensor {
    if rows.is_empty() {
        return Tensor::zeros([2, 0], (all_vnd.kind(), all_vnd.device()));
    }
    constant_scores(all_vnd, rows, temperature, negatives).score_mc.logsumexp([1], false).view([2, -1])
}

/// Computes the scores of `rows` with all rows, without gradient.
fn constant_scores(all_vnd: &Tensor, rows: Range<i64>, temperature: f64, negatives: Negatives) -> Scores {
    let anchor_md = all_vnd.narrow(1, rows.start, rows.end - rows.start).flatten(0, 1);
    Scores::new(&anchor_md, &all_vnd.flatten(0, 1), rows, temperature, negatives)
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
    let scores = constant_scores(all_vnd, rows.clone(), temperature, negatives);
    let kind = all_vnd.kind();
    let log_sum_m = log_sums_vn.narrow(1, rows.start, rows.end - rows.start).flatten(0, 1);
    let sum = (&log_sum_m - &scores.positive_m / temperature).sum(kind);

    let all_cd = all_vnd.flatten(0, 1);
    let as_anchor_mc = (&scores.score_mc - log_sum_m.unsqueeze(1)).exp();
    let as_candidate_mc = (&scores.score_mc - log_sums_vn.reshape([1, -1])).exp();
    let partner_md = all_cd.index_select(0, &scores.partner_m);
    let gradient_md = ((as_anchor_mc + as_candidate_mc).matmul(&all_cd) - partner_md * 2.0) / temperature;
    let product = (similarity::unit(&Tensor::cat(&[one_nd, two_nd], 0)) * gradient_md).sum(kind);
    // Value of the sum, and gradient of the product.
    let sum = &product + (sum - product.detach());
    scores.agreement(sum, one_nd, two_nd)
}
