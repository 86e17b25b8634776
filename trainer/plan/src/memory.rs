//! Estimated peak memory of a planned run on its device.
//!
//! If activations outweigh weights, the peak is at the end of a forward pass. Memory then has everything that the
//! backward pass needs, and the gradients of earlier micro-batches. If weights outweigh activations, the peak is at the
//! end of the backward pass, when every use of a weight has a separate gradient.
//!
//! The estimate assumes that one kernel computes attention, as on CUDA. Such a kernel keeps no weights of pairs of
//! tokens. On the CPU with dropout, attention also keeps these weights; the estimate excludes them.

use std::collections::BTreeMap;

use crate::encoder::{Attend, EncoderConfig, RelativeForm, padded_rows};
use crate::objectives::{AnyObjective, RowSet, Scores};
use crate::pass::Pass;
use crate::precision::Precision;
use crate::train_plan::TrainPlan;

/// Bytes per pair of positions that an objective compares: random numbers, indices and cosines.
const PAIR_BYTES: f64 = 50.0;
/// Matrices of the scores of a contrast that exist at the same time, in float32.
const SCORE_MATRICES: f64 = 7.0;
/// Number of vocabulary scores that are computed at a time, in blocks of positions. They take 64 MiB in float32, which
/// is enough to keep a device busy.
pub const SCORES_AT_ONCE: i64 = 1 << 24;
/// Maximum number of bytes of gradients that are widened at a time (`native/native.cpp`).
const MAX_WIDENED_BYTES: f64 = 268_435_456.0;

/// Buffers of NCCL for a communicator: an assumption, since they depend on the links. Gloo needs less.
const COMMUNICATOR_BYTES: f64 = 512e6;
/// Copies of a bucket of gradients in addition to the gradients: its parts, while they are joined.
const BUCKET_COPIES: f64 = 1.0;
/// Copies of the groups that complete weights: three groups under way, one of them twice while its parts are joined.
const GROUP_COPIES: f64 = 4.0;

impl TrainPlan {
    /// Estimates the bytes on the device, by owner.
    #[must_use]
    pub fn memory(&self) -> MemoryEstimate {
        let (learning, frozen) = self.parameters();
        let passes = self.passes();
        let trained = passes.iter().filter(|(pass, learns)| **learns && self.trains_through(pass));
        let encodings: Vec<Encoding> = trained
            .map(|(pass, _)| {
                let shape = self.shape(&pass.network).unwrap_or_else(|| self.encoder.clone());
                Encoding {
                    // Frozen layers keep nothing.
                    shape: EncoderConfig { layers: self.trained_depth(pass), ..shape },
                    width: self.view_width(&pass.view).into(),
                    rows: self.rows(),
                    precision: self.train.precision,
                }
            })
            .collect();
        let learning_objectives = self.active().filter(|active| active.weight != 0.0);
        let objectives: Vec<&AnyObjective> = learning_objectives.map(|active| active.objective).collect();
        let contrasts = objectives.iter().map(|objective| self.contrast_bytes(objective));
        let pairs = objectives.iter().map(|objective| PAIR_BYTES * objective.compares() * self.tokens());
        let cast = if self.train.precision == Precision::F32 { 0.0 } else { self.train.precision.product_bytes() };
        // Objectives are computed one after the other, but every graph stays until the backward pass.
        let logits: f64 =
            objectives.iter().filter_map(|objective| Some(self.logit_bytes(objective, objective.scores()?))).sum();
        let activations: f64 = if self.train.activation_checkpointing {
            let recomputed = encodings.iter().map(Encoding::recomputed_layer).fold(0.0, f64::max);
            // Scores are freed before layers are recomputed.
            encodings.iter().map(Encoding::kept_with_checkpointing).sum::<f64>() + (recomputed - logits).max(0.0)
        } else {
            encodings.iter().map(Encoding::kept).sum()
        };
        let activations = activations.max(self.gradients_of_uses(learning as f64, &passes) - logits);
        MemoryEstimate {
            weights: (4.0 + cast) * (learning + frozen) as f64,
            optimizer: 12.0 * learning as f64,
            activations: activations + pairs.chain(contrasts).sum::<f64>(),
            logits,
        }
    }

    /// Bytes of the vectors of the global batch, in both views, and of their scores with those of a micro-batch.
    fn contrast_bytes(&self, objective: &AnyObjective) -> f64 {
        if objective.contrasted_rows() != Some(RowSet::GlobalBatch) {
            return 0.0;
        }
        let vectors = 2.0 * self.train.global_batch_size as f64;
        4.0 * vectors * f64::from(self.encoder.hidden) + SCORE_MATRICES * 4.0 * vectors * 2.0 * self.rows()
    }

    /// Bytes of the gradients of all uses before they are added to those of the weights, and of their widened copies.
    fn gradients_of_uses(&self, learning: f64, passes: &BTreeMap<Pass, bool>) -> f64 {
        let trained = passes.iter().filter(|(_, learns)| **learns).map(|(pass, _)| &pass.network);
        let mut uses_by_network: BTreeMap<&String, f64> = BTreeMap::new();
        trained.for_each(|network| *uses_by_network.entry(network).or_default() += 1.0);
        let uses = uses_by_network.into_values().fold(1.0, f64::max);
        let is_added = uses > 1.0 || self.micro_batches() > 1;
        if self.train.precision == Precision::F32 {
            // The gradient of the first use becomes the gradient of the weight without a copy.
            let moved = if self.micro_batches() > 1 { 0.0 } else { 1.0 };
            return 4.0 * learning * (uses - moved);
        }
        let widened = if is_added { (4.0 * learning).min(MAX_WIDENED_BYTES) } else { 0.0 };
        self.train.precision.product_bytes() * learning * uses + widened
    }

    fn rows(&self) -> f64 {
        self.train.micro_batch_size as f64
    }

    fn tokens(&self) -> f64 {
        self.rows() * f64::from(self.width)
    }

    /// Bytes that an objective needs for scores over the vocabulary. The sum has three parts:
    ///
    /// - the gradient of the scores, in the type of the matrix products;
    /// - one block of scores and their logarithms, in float32;
    /// - the hidden states of the scored positions inside the head.
    fn logit_bytes(&self, objective: &AnyObjective, scores: Scores) -> f64 {
        let reads = objective.reads();
        let shape = reads.passes.first().and_then(|pass| self.shape(&pass.network));
        let width = shape.map_or(0.0, |shape| f64::from(shape.hidden));
        let positions = scores.share * self.tokens();
        let ids = padded_rows(self.vocab.size) as f64;
        self.train.precision.product_bytes() * positions * ids
            + 8.0 * (positions * ids).min(SCORES_AT_ONCE as f64)
            + 20.0 * positions * width
    }
}

/// Estimated bytes on a device, by owner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryEstimate {
    /// All weights in float32, and their copies in the type of the matrix products.
    pub weights: f64,
    /// Gradients and two moments of the trained weights, in float32.
    pub optimizer: f64,
    /// Values that are kept for the backward passes of a micro-batch.
    pub activations: f64,
    /// Scores over the vocabulary.
    pub logits: f64,
}

impl MemoryEstimate {
    /// Sum over all owners.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.weights + self.optimizer + self.activations + self.logits
    }

    /// Sum over all owners on a rank that exchanges tensors of at most `largest_bytes`.
    #[must_use]
    pub fn total_of_rank(&self, largest_bytes: f64) -> f64 {
        self.total() + COMMUNICATOR_BYTES + BUCKET_COPIES * largest_bytes
    }

    /// Same as [`total_of_rank`](Self::total_of_rank) if the moments, two thirds of [`optimizer`](Self::optimizer), are divided
    /// among the ranks, which then complete weights and moments, too.
    #[must_use]
    pub fn total_of_sharded(&self, ranks: u32, largest_bytes: f64) -> f64 {
        let moments = self.optimizer * 2.0 / 3.0;
        self.total_of_rank(largest_bytes) - moments + moments / f64::from(ranks) + GROUP_COPIES * largest_bytes
    }
}

/// Pass with gradient: one view, encoded by a trained network.
struct Encoding {
    shape: EncoderConfig,
    width: f64,
    rows: f64,
    precision: Precision,
}

impl Encoding {
    /// Bytes that are kept without activation checkpointing.
    fn kept(&self) -> f64 {
        let layers = f64::from(self.shape.layers);
        self.tokens() * (self.embeddings() + layers * self.layer()) + self.bias()
    }

    /// Bytes that are kept with activation checkpointing: only the inputs of the layers.
    fn kept_with_checkpointing(&self) -> f64 {
        let inputs = f64::from(self.shape.layers) * self.between() * f64::from(self.shape.hidden);
        self.tokens() * (self.embeddings() + inputs) + self.bias()
    }

    /// Bytes of one layer during its recomputation and backward pass: its kept values, and gradients of its widest
    /// states.
    fn recomputed_layer(&self) -> f64 {
        let widest = 2.0 * self.size() * f64::from(self.shape.feed_forward);
        self.tokens() * (self.layer() + widest)
    }

    fn tokens(&self) -> f64 {
        self.rows * self.width
    }

    /// Bytes of an operand of a matrix product.
    fn size(&self) -> f64 {
        self.precision.product_bytes()
    }

    /// Bytes of a hidden state between sublayers.
    fn between(&self) -> f64 {
        if self.precision == Precision::Bf16Hidden { 2.0 } else { 4.0 }
    }

    /// Bytes of one element of a dropout mask.
    fn mask(&self) -> f64 {
        if self.shape.dropout > 0.0 { 1.0 } else { 0.0 }
    }

    /// Bytes per token and layer. The sum has these parts:
    ///
    /// - operands of the matrix products: hidden states twice, queries, keys, values, the output of attention, and the
    ///   inner states before and after the gelu;
    /// - input sums of the two norms, with two numbers each;
    /// - two dropout masks;
    /// - one number per head of attention.
    fn layer(&self) -> f64 {
        let d = f64::from(self.shape.hidden);
        let f = f64::from(self.shape.feed_forward);
        self.size() * (6.0 * d + 2.0 * f)
            + 2.0 * self.between() * d
            + 2.0 * self.mask() * d
            + 4.0 * f64::from(self.shape.heads)
            + 16.0
    }

    /// Bytes per token of the embeddings: the input sum of the norm, the dropout mask, the operand of the projection if
    /// there is one, and the hidden state.
    fn embeddings(&self) -> f64 {
        let e = self.shape.embedding_width() as f64;
        let projected = if self.shape.embedding.is_some() { self.size() * e } else { 0.0 };
        (4.0 + self.mask()) * e + projected + 4.0 * f64::from(self.shape.hidden)
    }

    /// Bytes of the bias that is added to attention scores, one value per row, head and pair of positions.
    ///
    /// Every row has a separate bias, because the bias also masks the padding and rows differ in length. With document
    /// attention alone, the bias is −∞ for pairs of different documents, and is the same for all heads.
    fn bias(&self) -> f64 {
        let heads = match (self.shape.relative_positions.kind, self.shape.attention_scope) {
            (RelativeForm::None, Attend::Row) => return 0.0,
            (RelativeForm::None, Attend::Document) => 1.0,
            _ => f64::from(self.shape.heads),
        };
        self.size() * self.rows * heads * self.width * self.width
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encoder::EncoderConfig;
    use crate::request::TrainRequest;
    use crate::testing;

    #[test]
    fn a_layer_of_bert_base_keeps_thirty_eight_bytes_for_each_hidden_number_in_bfloat16() {
        let encoding = |precision| Encoding { shape: EncoderConfig::default(), width: 512.0, rows: 1.0, precision };
        let each = |precision| (encoding(precision).layer() - 4.0 * 12.0 - 16.0) / 768.0;
        // 6 · 2 + 8 · 2 for products, 8 for norms, 2 for masks; in float32 twice the products'.
        assert!((each(Precision::Bf16) - 38.0).abs() < 1e-9, "{}", each(Precision::Bf16));
        assert!((each(Precision::F32) - 66.0).abs() < 1e-9, "{}", each(Precision::F32));
        assert!((each(Precision::Bf16Hidden) - 34.0).abs() < 1e-9, "{}", each(Precision::Bf16Hidden));
    }

    #[test]
    fn vectors_of_the_global_batch_take_memory() {
        let mut request = testing::request();
        let memory = |request: &TrainRequest| testing::checked(request.clone()).memory().total();
        let before = memory(&request);
        let Some(AnyObjective::SequenceContrastive(objective)) = request.objectives.get_mut("sequence_contrastive")
        else {
            panic!("the request has the objective");
        };
        objective.negatives_from = RowSet::GlobalBatch;
        // Two views of 8 rows, 16 wide, and scores with two views of 4 rows.
        let expected = 4.0 * 16.0 * 16.0 + 7.0 * 4.0 * 16.0 * 8.0;
        assert!((memory(&request) - before - expected).abs() < 1e-6);
    }

    #[test]
    fn weights_moments_and_scores_are_counted_once() {
        let mut request = testing::request();
        request.loss.retain(|name, _| name == "masked_lm");
        let plan = testing::checked(request);
        let memory = plan.memory();
        let (learning, _) = plan.parameters();
        assert!((memory.weights + memory.optimizer - 16.0 * learning as f64).abs() < 1e-6);
        // Of 8 bytes of moments of a weight, a rank of four has 2; the groups that complete weights are four buckets.
        let saved = memory.total_of_rank(1000.0) - memory.total_of_sharded(4, 1000.0);
        assert!((saved - 6.0 * learning as f64 + 4000.0).abs() < 1e-3, "{saved}");
        let exchanged = memory.total_of_rank(1000.0) - memory.total();
        assert!((exchanged - 512e6 - 1000.0).abs() < 1e-3, "{exchanged}");
        // 15 % of four rows of twelve, 64 rows of the word table, 16 wide.
        assert!((memory.logits - 0.15 * 48.0 * (12.0 * 64.0 + 20.0 * 16.0)).abs() < 1e-6, "{}", memory.logits);
    }
}
