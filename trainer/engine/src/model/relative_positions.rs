//! Attention bias of relative positions: a learned number for each bucket and head.

use tch::Tensor;
use trainer_plan::relative_positions::Buckets;

use super::parameters::Path;
use super::weight::Weight;
use crate::device::tensors::place;

/// A learned number for each bucket and each head, shared by all layers.
#[derive(Debug)]
pub(super) struct PositionBias {
    pub(super) weight_uh: Weight,
    // Bucket of every (query, key), `[positions, positions]`, int64.
    buckets_pp: Tensor,
}

impl PositionBias {
    /// `relative.weight` below `path`, for rows of at most `positions`.
    pub(super) fn build(buckets: Buckets, positions: u32, path: &Path<'_>) -> Self {
        let weight_uh = path.sub("relative").weight("weight");
        let positions = u16::try_from(positions).expect("the plan checked that rows are that short");
        let table = Tensor::from_slice(&buckets.table(positions));
        let size = i64::from(positions);
        Self { buckets_pp: place(&table.view([size, size]), weight_uh.master().device()), weight_uh }
    }

    /// `[h, t, t]`: query, then key.
    pub(super) fn bias(&self, width: i64) -> Tensor {
        let buckets_tt = self.buckets_pp.narrow(0, 0, width).narrow(1, 0, width);
        Tensor::embedding(&self.weight_uh.whole(), &buckets_tt, -1, false, false).permute([2, 0, 1]).contiguous()
    }
}
