//! What a run keeps on its device, before it keeps anything.
//!
//! The most that there is at once: at the end of a forward pass, when all that its backward pass needs is there and the
//! gradients of the micro-batches before it are; or, where weights outweigh activations, at the end of the backward pass,
//! when every use of a weight has its own gradient. Attention is taken to be computed by one kernel, as on CUDA, which keeps no
//! weights of pairs; on the CPU, with dropout, it keeps those as well.

use std::collections::BTreeMap;

use crate::encoder::{Attend, EncoderConfig, RelativeForm, padded_rows};
use crate::objectives::{AnyObjective, Scores};
use crate::pass::Pass;
use crate::precision::Precision;
use crate::train_plan::TrainPlan;

/// Bytes that an objective has for each pair of positions that it compares: drawn numbers, indices, cosines.
const PAIR: f64 = 50.0;
/// Scores over the vocabulary that are computed at once, in blocks of positions: 64 MiB in float32, enough to keep a device
/// busy.
pub const SCORES_AT_ONCE: i64 = 1 << 24;
/// Bytes of gradients that are widened at once (`native/native.cpp`).
const WIDENED: f64 = 268_435_456.0;

impl TrainPlan {
    /// Bytes on the device, by owner.
    #[must_use]
    pub fn memory(&self) -> MemoryEstimate {
        let (learning, frozen) = self.parameters();
        let passes = self.passes();
        let trained = passes.iter().filter(|(pass, learns)| **learns && self.learns(&pass.network));
        let encodings: Vec<Encoding> = trained
            .map(|(pass, _)| {
                let shape = self.shape(&pass.network).unwrap_or_else(|| self.encoder.clone());
                Encoding {
                    shape,
                    width: self.view_width(&pass.view).into(),
                    rows: self.rows(),
                    precision: self.train.precision,
                }
            })
            .collect();
        let learning_objectives = self.active().filter(|active| active.weight != 0.0);
        let objectives: Vec<&AnyObjective> = learning_objectives.map(|active| active.objective).collect();
        let pairs = objectives.iter().map(|objective| PAIR * objective.compares() * self.tokens());
        let cast = if self.train.precision == Precision::F32 { 0.0 } else { self.train.precision.product_bytes() };
        // Objectives compute one after the other, but every graph stays until the backward pass.
        let logits: f64 =
            objectives.iter().filter_map(|objective| Some(self.scored(objective, objective.scores()?))).sum();
        let activations: f64 = if self.train.activation_checkpointing {
            let anew = encodings.iter().map(Encoding::made_anew).fold(0.0, f64::max);
            // Scores are gone when layers are run again.
            encodings.iter().map(Encoding::kept_sparingly).sum::<f64>() + (anew - logits).max(0.0)
        } else {
            encodings.iter().map(Encoding::kept).sum()
        };
        let activations = activations.max(self.gradients_of_uses(learning as f64, &passes) - logits);
        MemoryEstimate {
            weights: (4.0 + cast) * (learning + frozen) as f64,
            optimizer: 12.0 * learning as f64,
            activations: activations + pairs.sum::<f64>(),
            logits,
        }
    }

    /// Gradients of uses before they are added to those of the weights, and what is widened on the way.
    fn gradients_of_uses(&self, learning: f64, passes: &BTreeMap<Pass, bool>) -> f64 {
        let trained = passes.iter().filter(|(_, learns)| **learns).map(|(pass, _)| &pass.network);
        let mut of_each: BTreeMap<&String, f64> = BTreeMap::new();
        trained.for_each(|network| *of_each.entry(network).or_default() += 1.0);
        let uses = of_each.into_values().fold(1.0, f64::max);
        let is_added = uses > 1.0 || self.micro_batches() > 1;
        if self.train.precision == Precision::F32 {
            // The first use's gradient becomes the weight's.
            let moved = if self.micro_batches() > 1 { 0.0 } else { 1.0 };
            return 4.0 * learning * (uses - moved);
        }
        let widened = if is_added { (4.0 * learning).min(WIDENED) } else { 0.0 };
        self.train.precision.product_bytes() * learning * uses + widened
    }

    fn rows(&self) -> f64 {
        self.train.micro_batch_size as f64
    }

    fn tokens(&self) -> f64 {
        self.rows() * f64::from(self.width)
    }

    /// The gradient of scores, of the products' type; a block of scores and their logarithms, float32; and the states that
    /// are scored, on their way through the head.
    fn scored(&self, objective: &AnyObjective, scores: Scores) -> f64 {
        let reads = objective.reads();
        let shape = reads.passes.first().and_then(|pass| self.shape(&pass.network));
        let width = shape.map_or(0.0, |shape| f64::from(shape.hidden));
        let (positions, ids) = (scores.share * self.tokens(), padded_rows(self.vocab.size) as f64);
        self.train.precision.product_bytes() * positions * ids
            + 8.0 * (positions * ids).min(SCORES_AT_ONCE as f64)
            + 20.0 * positions * width
    }
}

/// Bytes by owner.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MemoryEstimate {
    /// All weights, float32, and the copies that products take of those that learn.
    pub weights: f64,
    /// Gradients and two moments, float32.
    pub optimizer: f64,
    /// What the backward passes of a micro-batch keep.
    pub activations: f64,
    /// Scores over the vocabulary.
    pub logits: f64,
}

impl MemoryEstimate {
    /// All of it.
    #[must_use]
    pub fn total(&self) -> f64 {
        self.weights + self.optimizer + self.activations + self.logits
    }
}

/// One view, encoded by a network that learns from it.
struct Encoding {
    shape: EncoderConfig,
    width: f64,
    rows: f64,
    precision: Precision,
}

impl Encoding {
    fn kept(&self) -> f64 {
        let layers = f64::from(self.shape.layers);
        self.tokens() * (self.embeddings() + layers * self.layer()) + self.bias()
    }

    /// Where activations are rebuilt: what layers begin from.
    fn kept_sparingly(&self) -> f64 {
        let beginnings = f64::from(self.shape.layers) * self.between() * f64::from(self.shape.hidden);
        self.tokens() * (self.embeddings() + beginnings) + self.bias()
    }

    /// What there is of one layer while it is run again and learns: what it keeps, and gradients of its widest states.
    fn made_anew(&self) -> f64 {
        let widest = 2.0 * self.size() * f64::from(self.shape.feed_forward);
        self.tokens() * (self.layer() + widest)
    }

    fn tokens(&self) -> f64 {
        self.rows * self.width
    }

    /// Bytes of a number that products take.
    fn size(&self) -> f64 {
        self.precision.product_bytes()
    }

    /// Bytes of a hidden state between sublayers.
    fn between(&self) -> f64 {
        if self.precision == Precision::Bf16Hidden { 2.0 } else { 4.0 }
    }

    /// Bytes of a number of dropout's mask.
    fn mask(&self) -> f64 {
        if self.shape.dropout > 0.0 { 1.0 } else { 0.0 }
    }

    /// For a token and a layer. Products keep what they take: hidden states twice, queries, keys and values, what was mixed
    /// of them, and the inner states before and behind the gelu. Norms keep their sums, with two numbers each; attention one
    /// for each head.
    fn layer(&self) -> f64 {
        let (d, f) = (f64::from(self.shape.hidden), f64::from(self.shape.feed_forward));
        self.size() * (6.0 * d + 2.0 * f)
            + 2.0 * self.between() * d
            + 2.0 * self.mask() * d
            + 4.0 * f64::from(self.shape.heads)
            + 16.0
    }

    /// For a token: the norm's sum, the mask, and what is made as wide as the network where the table is narrower.
    fn embeddings(&self) -> f64 {
        let e = self.shape.embedding_width() as f64;
        let projected = if self.shape.embedding.is_some() { self.size() * e } else { 0.0 };
        (4.0 + self.mask()) * e + projected + 4.0 * f64::from(self.shape.hidden)
    }

    /// What is added to the scores of pairs, for every row where padding is marked in it and rows are not equally long.
    /// In rows of documents that do not see each other there are pairs that are added nothing but −∞, for all heads.
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
    fn weights_moments_and_scores_are_counted_once() {
        let mut request = testing::request();
        request.loss.retain(|name, _| name == "masked_lm");
        let plan = testing::checked(request);
        let (memory, (learning, _)) = (plan.memory(), plan.parameters());
        assert!((memory.weights + memory.optimizer - 16.0 * learning as f64).abs() < 1e-6);
        // 15 % of four rows of twelve, 64 rows of the word table, 16 wide.
        assert!((memory.logits - 0.15 * 48.0 * (12.0 * 64.0 + 20.0 * 16.0)).abs() < 1e-6, "{}", memory.logits);
    }
}
