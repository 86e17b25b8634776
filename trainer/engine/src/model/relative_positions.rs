//! Attention bias of relative positions.

use tch::Tensor;
use trainer_plan::relative_positions::Buckets;

use super::parameters::Path;
use super::weight::Weight;
use crate::device::tensors::upload_once;

/// Learned bias for each bucket and each head, shared by all layers.
#[derive(Debug)]
pub(super) struct PositionBias {
    pub(super) weight_uh: Weight,
    // Bucket of every (query, key) pair, `[positions, positions]`, int64.
    buckets_pp: Tensor,
}

impl PositionBias {
    /// Builds the bias from `relative.weight` below `path`, for rows of at most `positions` tokens.
    pub(super) fn build(buckets: Buckets, positions: u32, path: &Path<'_>) -> Self {
        let weight_uh = path.sub("relative").weight("weight");
        let positions = u16::try_from(positions).expect("the plan limits the row length to u16");
        let table = Tensor::from_slice(&buckets.table(positions));
        let size = i64::from(positions);
        Self { buckets_pp: upload_once(&table.view([size, size]), weight_uh.master().device()), weight_uh }
    }

    /// Returns the bias `[h, t, t]`, indexed by head, query, key.
    pub(super) fn bias(&self, width: i64) -> Tensor {
        let buckets_tt = self.buckets_pp.narrow(0, 0, width).narrow(1, 0, width);
        Tensor::embedding(&self.weight_uh.pass_leaf_f32(), &buckets_tt, -1, false, false)
            .permute([2, 0, 1])
            .contiguous()
    }
}
