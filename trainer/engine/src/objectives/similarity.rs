//! Unit vectors, and the alignment and uniformity that a training reports. The crate `analysis` computes the measures of
//! hidden states that need no device.
//!
//! # Reference
//! Wang & Isola 2020.

use tch::{Kind, Tensor};

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

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::alignment_uniformity;

    fn check(what: &str, found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{what}: {found} is not {expected}");
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
