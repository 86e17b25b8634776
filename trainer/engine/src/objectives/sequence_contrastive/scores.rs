//! Scores of a sequence contrast, and the loss and metrics that come from them.

use std::ops::Range;

use tch::{Kind, Tensor};
use trainer_plan::objectives::sequence_contrastive::Negatives;

use crate::objectives::similarity;

/// Scores of the anchors of some rows with the vectors of all rows.
pub(super) struct Scores {
    /// Cosines, `[2n, 2N]`.
    cosine_mc: Tensor,
    /// Cosines by temperature, −∞ for vectors that are not candidates.
    pub score_mc: Tensor,
    /// Which vectors are not candidates.
    excluded_mc: Tensor,
    /// Index of the partner of each anchor.
    pub partner_m: Tensor,
    /// Cosine of each anchor with its partner.
    pub positive_m: Tensor,
    /// Number of negatives of each anchor.
    negatives_of_each: i64,
}

impl Scores {
    /// Computes the scores of the unit vectors of both views of `rows`, `[2n, d]`, with those of all rows, `[2N, d]`.
    pub(super) fn new(
        anchor_md: &Tensor,
        all_cd: &Tensor,
        rows: Range<i64>,
        temperature: f64,
        negatives: Negatives,
    ) -> Self {
        let index = (Kind::Int64, all_cd.device());
        let candidates = all_cd.size()[0];
        let all_rows = candidates / 2;
        let row_n = Tensor::arange_start(rows.start, rows.end, index);
        let anchor_m1 = Tensor::cat(&[&row_n, &(&row_n + all_rows)], 0).unsqueeze(1);
        let partner_m1 = (&anchor_m1 + all_rows).remainder(candidates);
        let candidate_1c = Tensor::arange(candidates, index).unsqueeze(0);
        let excluded_mc = match negatives {
            Negatives::Both => candidate_1c.eq_tensor(&anchor_m1),
            Negatives::Cross => candidate_1c.ge(all_rows).eq_tensor(&anchor_m1.ge(all_rows)),
        };
        let cosine_mc = anchor_md.matmul(&all_cd.tr());
        Self {
            score_mc: (&cosine_mc / temperature).masked_fill(&excluded_mc, f64::NEG_INFINITY),
            positive_m: cosine_mc.gather(1, &partner_m1, false).squeeze_dim(1),
            partner_m: partner_m1.squeeze_dim(1),
            negatives_of_each: if negatives == Negatives::Both { candidates - 2 } else { all_rows - 1 },
            cosine_mc,
            excluded_mc,
        }
    }

    /// Returns `sum`, and the metrics of the anchors. `one_nd` and `two_nd` are the two views of their rows.
    pub(super) fn agreement(self, sum: Tensor, one_nd: &Tensor, two_nd: &Tensor) -> Agreement {
        let kind = self.cosine_mc.kind();
        let constant_mc = self.cosine_mc.detach().masked_fill(&self.excluded_mc, 0.0);
        let pairs = (self.cosine_mc.size()[0] * self.negatives_of_each).max(1) as f64;
        let positive = self.positive_m.detach();
        let spread = similarity::alignment_uniformity(&one_nd.detach(), &two_nd.detach(), 2.0, 2.0);
        Agreement {
            sum,
            negative: (constant_mc.sum(kind) - positive.sum(kind)) / pairs,
            positive: positive.mean(kind),
            alignment: spread.alignment,
            uniformity: spread.uniformity,
        }
    }
}

/// Loss and metrics of a contrast: scalars on the device.
#[derive(Debug)]
pub(crate) struct Agreement {
    /// Sum of the `2n` anchors' losses in nats, with gradient.
    pub sum: Tensor,
    /// Mean cosine of the two views of a row.
    pub positive: Tensor,
    /// Mean cosine of anchors with their negatives; 0 for a single row.
    pub negative: Tensor,
    /// Mean squared distance of the two views' unit vectors.
    pub alignment: Tensor,
    /// `ln` of the mean over pairs of the `2n` unit vectors of `exp(−2 · squared distance)`.
    pub uniformity: Tensor,
}

impl Agreement {
    /// Returns zeros of the type of `vectors`.
    pub(super) fn zero(vectors: &Tensor) -> Self {
        let scalar = || Tensor::zeros([1_i64; 0], (vectors.kind(), vectors.device()));
        Self { sum: scalar(), positive: scalar(), negative: scalar(), alignment: scalar(), uniformity: scalar() }
    }
}
