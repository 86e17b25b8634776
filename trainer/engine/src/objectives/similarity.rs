//! Similarity measures of hidden states: contextual score, self-similarity, alignment and uniformity. They need no
//! fine-tuning.
//!
//! # Reference
//! Fu, Zhou, Zhang, Zhou & Huang 2022 (TACO), figures 3b, 4, 6a and table 9; Su et al. 2022 (TaCL), figure 2; Wang &
//! Isola 2020.

use tch::{Kind, Tensor};

use crate::device::precision::WIDE;

/// Similarity of positions within a row and across rows, by one measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Similarity {
    /// `cosine`, `dot`, `l1`, `l2` or `l10`.
    pub measure: &'static str,
    /// Mean over pairs within a row.
    pub intra: f64,
    /// Mean over pairs across rows.
    pub inter: f64,
}

/// Computes the parts of the contextual score. Each token has one partner in its own row and one in another row; all
/// are flat indices into `hidden_md`. The first entry is the cosine; its `intra − inter` is *the* score.
///
/// `cosine` and `dot` grow with similarity; the distances `L_p = (Σ |a − b|^p)^(1/p)` shrink. A mean over no token is
/// NaN.
#[must_use]
pub(crate) fn contextual_score(
    hidden_md: &Tensor,
    token_n: &Tensor,
    intra_n: &Tensor,
    inter_n: &Tensor,
) -> [Similarity; 5] {
    let rows = |index_n: &Tensor| hidden_md.index_select(0, index_n);
    let token_nd = rows(token_n);
    let intra_nd = rows(intra_n);
    let inter_nd = rows(inter_n);
    let by = |measure, each: &dyn Fn(&Tensor, &Tensor) -> Tensor| Similarity {
        measure,
        intra: mean(&each(&token_nd, &intra_nd)),
        inter: mean(&each(&token_nd, &inter_nd)),
    };
    [
        by("cosine", &cosines),
        by("dot", &dots),
        by("l1", &|a, b| distances(a, b, 1)),
        by("l2", &|a, b| distances(a, b, 2)),
        by("l10", &|a, b| distances(a, b, 10)),
    ]
}

/// Similarity of positions within rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct SelfSimilarity {
    /// Mean cosine over all pairs of all rows: long rows weigh more.
    pub pooled: f64,
    /// Mean over rows of their mean cosines; rows with fewer than two positions do not count.
    pub row_mean: f64,
}

/// Computes the mean cosine over all pairs of valid positions of a row of hidden states `[b, t, d]`, frame tokens
/// included. `valid_bt` is boolean. The result is NaN if no row has two valid positions.
///
/// Su et al. 2022 (TaCL), figure 2 (pooled).
#[must_use]
pub(crate) fn self_similarity(hidden_btd: &Tensor, valid_bt: &Tensor) -> SelfSimilarity {
    let wide = |tensor: &Tensor| tensor.to_kind(WIDE);
    // Padding counts as a vector of length 0. The cosine of each valid position with itself is subtracted from the sum.
    let unit_btd = unit(&wide(hidden_btd)) * wide(valid_bt).unsqueeze(-1);
    let whole_bd = unit_btd.sum_dim_intlist(1, false, WIDE);
    let square_b = |rows_bd: &Tensor| rows_bd.square().sum_dim_intlist(-1, false, WIDE);
    let own_b = square_b(&unit_btd).sum_dim_intlist(-1, false, WIDE);
    let cosines_b = square_b(&whole_bd) - own_b;
    let valid_b = wide(valid_bt).sum_dim_intlist(-1, false, WIDE);
    let pairs_b = &valid_b * (&valid_b - 1.0);
    let has_pairs_b = pairs_b.gt(0.0);
    let ratio_b = (&cosines_b / pairs_b.clamp_min(1.0)).masked_fill(&has_pairs_b.logical_not(), 0.0);
    let number = |tensor: &Tensor| f64::try_from(tensor).expect("one number");
    SelfSimilarity {
        pooled: number(&(cosines_b.sum(WIDE) / pairs_b.sum(WIDE))),
        row_mean: number(&(ratio_b.sum(WIDE) / has_pairs_b.sum(WIDE))),
    }
}

/// Alignment of pairs and uniformity of all vectors; lower is better for both. Scalars on the device.
#[derive(Debug)]
pub(crate) struct AlignmentUniformity {
    /// Mean over pairs of `‖x − y‖^α`.
    pub alignment: Tensor,
    /// `ln` of the mean over unordered pairs of the `2n` vectors of `exp(−t ‖a − b‖²)`.
    pub uniformity: Tensor,
}

/// Computes alignment and uniformity of the unit vectors of pairs `[n, d]`, `[n, d]`; usually `α = 2`, `t = 2`.
///
/// Wang & Isola 2020, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
/// Hypersphere", section 4.
#[must_use]
pub(crate) fn alignment_uniformity(x_nd: &Tensor, y_nd: &Tensor, alpha: f64, t: f64) -> AlignmentUniformity {
    let x_nd = unit(x_nd);
    let y_nd = unit(y_nd);
    let kind = x_nd.kind();
    let all_md = Tensor::cat(&[&x_nd, &y_nd], 0);
    let vectors = all_md.size()[0];
    // Distances come from differences, not from 2 − 2 cos: the latter loses all digits for nearly equal vectors.
    let squared_mm = Tensor::cdist(&all_md, &all_md, 2.0, 2_i64).square();
    let itself_mm = Tensor::eye(vectors, (Kind::Bool, all_md.device()));
    let exponent_mm = (squared_mm * -t).masked_fill(&itself_mm, f64::NEG_INFINITY);
    let pairs = (vectors * (vectors - 1)).max(1) as f64;
    let gap_n = (x_nd - y_nd).norm_scalaropt_dim(2, [-1], false);
    AlignmentUniformity {
        alignment: gap_n.pow_tensor_scalar(alpha).mean(kind),
        uniformity: exponent_mm.view([-1]).logsumexp([0], false) - pairs.ln(),
    }
}

/// Divides rows by their lengths, which count as at least 1e-12 (`torch.nn.functional.normalize`).
pub(crate) fn unit(rows: &Tensor) -> Tensor {
    rows / rows.norm_scalaropt_dim(2, [-1], true).clamp_min(1e-12)
}

fn dots(a_nd: &Tensor, b_nd: &Tensor) -> Tensor {
    (a_nd * b_nd).sum_dim_intlist(-1, false, a_nd.kind())
}

fn cosines(a_nd: &Tensor, b_nd: &Tensor) -> Tensor {
    dots(&unit(a_nd), &unit(b_nd))
}

/// Computes the `L_p` distance. The largest difference is factored out first: tenth powers of small float32 numbers
/// would underflow.
fn distances(a_nd: &Tensor, b_nd: &Tensor, p: i64) -> Tensor {
    let gap_nd = (a_nd - b_nd).abs();
    let largest_n1 = gap_nd.amax(-1, true);
    let scaled_nd = gap_nd / largest_n1.clamp_min(f64::from(f32::MIN_POSITIVE));
    scaled_nd.norm_scalaropt_dim(p, [-1], false) * largest_n1.squeeze_dim(-1)
}

fn mean(each_n: &Tensor) -> f64 {
    f64::try_from(each_n.mean(Kind::Double)).expect("a mean is one number")
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::{alignment_uniformity, self_similarity};

    fn check(what: &str, found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{what}: {found} is not {expected}");
    }

    #[test]
    fn long_rows_weigh_more_unless_rows_are_averaged() {
        // Row 0: cosines 1, 0, 0; row 1: one pair of −1 and padding; row 2: a single position.
        let hidden = [1.0, 0.0, 3.0, 0.0, 0.0, 2.0, 0.0, 1.0, 0.0, -4.0, 5.0, 5.0, 1.0, 1.0, 7.0, 7.0, 8.0, 8.0_f64];
        let valid = [true, true, true, true, true, false, true, false, false];
        let hidden_btd = Tensor::from_slice(&hidden).view([3, 3, 2]);
        let valid_bt = Tensor::from_slice(&valid).view([3, 3]);
        let found = self_similarity(&hidden_btd, &valid_bt);
        check("pooled", found.pooled, (1.0 - 1.0) / 4.0);
        check("mean of rows", found.row_mean, f64::midpoint(1.0 / 3.0, -1.0));
    }

    #[test]
    fn four_points_on_a_circle_have_the_uniformity_of_a_square() {
        let x_nd = Tensor::from_slice(&[1.0, 0.0, 0.0, 2.0]).view([2, 2]);
        let found = alignment_uniformity(&x_nd, &-&x_nd, 2.0, 2.0);
        check("alignment", f64::try_from(found.alignment).expect("one number"), 4.0);
        // Four sides of squared length 2 and two diagonals of 4.
        let mean = (4.0 * (-4.0_f64).exp() + 2.0 * (-8.0_f64).exp()) / 6.0;
        check("uniformity", f64::try_from(found.uniformity).expect("one number"), mean.ln());
    }
}
