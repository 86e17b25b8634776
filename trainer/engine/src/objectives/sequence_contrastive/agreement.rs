//! Result of a sequence contrast.

use tch::Tensor;

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
