//! Properties of a step that the model of several ranks needs.

use crate::run_weights;
use crate::train_plan::TrainPlan;

/// Bytes of a bucket of gradients, as in torch's `DistributedDataParallel`. A larger weight is a bucket of its size.
pub const BUCKET_BYTES: u32 = 25 << 20;

/// Part of the names of the weights whose gradients are complete last: the backward pass ends with the embeddings.
const LAST_WEIGHTS: &str = "encoder.embeddings.";

/// Properties of a step that the model of several ranks needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct StepWorkload {
    /// Micro-batches of all ranks.
    pub micro_batches: u64,
    /// Tokens of the rows.
    pub tokens: f64,
    /// Bytes of all learning weights, in float32.
    pub weight_bytes: f64,
    /// Bytes of the gradients that each rank adds to the sum.
    pub gradient_bytes: f64,
    /// Bytes of the bucket that is complete last.
    pub last_bucket_bytes: f64,
    /// Whether each rank updates a part of the weights, which all ranks get afterwards.
    pub is_sharded: bool,
    /// Bytes of a checkpoint.
    pub checkpoint_bytes: f64,
    /// Steps between checkpoints.
    pub steps_per_checkpoint: u64,
}

impl StepWorkload {
    /// Returns the properties of the steps of a plan.
    #[must_use]
    pub fn from_plan(plan: &TrainPlan) -> Self {
        let specs = run_weights::of_run(plan);
        let learning = specs.iter().filter(|(_, spec)| spec.trains);
        let last: u64 = learning.filter(|(name, _)| name.contains(LAST_WEIGHTS)).map(|(_, spec)| spec.count()).sum();
        let bytes = if plan.train.bf16_all_reduce { 2.0 } else { 4.0 };
        let gradient_bytes = bytes * specs.trained() as f64;
        Self {
            micro_batches: plan.micro_batches(),
            tokens: plan.train.global_batch_size as f64 * f64::from(plan.width),
            weight_bytes: 4.0 * specs.trained() as f64,
            gradient_bytes,
            last_bucket_bytes: (bytes * last as f64).max(f64::from(BUCKET_BYTES)).min(gradient_bytes),
            is_sharded: plan.optimizer.shard,
            checkpoint_bytes: plan.checkpoint_bytes(),
            steps_per_checkpoint: plan.checkpoints.every_steps,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::{EncoderConfig, Frozen};
    use crate::testing;

    #[test]
    fn the_last_bucket_has_the_embeddings() {
        let request = |encoder: EncoderConfig| {
            let mut request = testing::request();
            request.loss.retain(|name, _| name == "masked_lm");
            request.encoder = encoder;
            request.vocab.size = 30_522;
            request
        };
        let workload = |encoder| StepWorkload::from_plan(&testing::checked(request(encoder)));
        let base = workload(EncoderConfig::default());
        // The word table with 6 rows of padding, 512 positions, two types, and the norm.
        assert!((base.last_bucket_bytes - 4.0 * 768.0 * (30_528.0 + 512.0 + 2.0 + 2.0)).abs() < 0.5, "{base:?}");
        // The head: a dense layer, a norm, and a bias for each id.
        let weights = 108_891_648.0 + 6.0 * 768.0 + 769.0 * 768.0 + 2.0 * 768.0 + 30_522.0;
        assert!((base.gradient_bytes - 4.0 * weights).abs() < 0.5, "{base:?}");
        let mut halved = request(EncoderConfig::default());
        halved.train.bf16_all_reduce = true;
        let halved = StepWorkload::from_plan(&testing::checked(halved));
        assert!((halved.gradient_bytes - base.gradient_bytes / 2.0).abs() < 0.5, "{halved:?}");
        assert!((halved.weight_bytes - base.weight_bytes).abs() < 0.5, "{halved:?}");
        let frozen = workload(EncoderConfig { frozen: vec![Frozen::Word], ..EncoderConfig::default() });
        assert!((frozen.last_bucket_bytes - f64::from(BUCKET_BYTES)).abs() < 0.5, "{frozen:?}");
        let small = workload(EncoderConfig { layers: 1, hidden: 16, heads: 1, ..EncoderConfig::default() });
        assert!((small.last_bucket_bytes - small.gradient_bytes).abs() < 0.5, "all fits into one bucket: {small:?}");
    }
}
