//! Encoder as analyses see it.

use std::sync::Arc;

use schemas::Vocab;

use crate::error::Error;

/// Vectors of equal width.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Vectors {
    width: usize,
    values: Vec<f32>,
}

impl Vectors {
    /// Creates vectors from their values, one vector after the other.
    ///
    /// # Panics
    /// If the values are not a whole number of vectors.
    #[must_use]
    pub fn new(width: usize, values: Vec<f32>) -> Self {
        assert!(width > 0 && values.len().is_multiple_of(width), "whole vectors");
        Self { width, values }
    }

    /// Returns the number of vectors.
    #[must_use]
    pub fn count(&self) -> usize {
        self.values.len() / self.width.max(1)
    }

    /// Returns a vector by its index.
    #[must_use]
    pub fn get(&self, index: usize) -> &[f32] {
        &self.values[index * self.width..(index + 1) * self.width]
    }

    /// Returns all vectors, in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &[f32]> {
        self.values.chunks_exact(self.width.max(1))
    }
}

/// Facts about a model.
#[derive(Clone, Debug)]
pub struct ModelFacts {
    /// Layers of the encoder.
    pub layers: usize,
    /// Most tokens of a row, without its frame.
    pub max_tokens: usize,
    /// Vocabulary of the tokenizer.
    pub vocab: Arc<Vocab>,
}

impl ModelFacts {
    /// Returns the ids of a row with its frame tokens.
    #[must_use]
    pub fn framed(&self, ids: &[u32]) -> Vec<u32> {
        let special = self.vocab.special();
        [&[special.cls], ids, &[special.sep]].concat()
    }
}

/// Row with masked positions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MaskedRow {
    /// Original ids, without the frame.
    pub ids: Vec<u32>,
    /// Masked positions of `ids`, ascending.
    pub positions: Vec<usize>,
}

/// Metric of an objective on a text.
#[derive(Clone, Debug, PartialEq)]
pub struct ObjectiveMetric {
    /// Name of the objective in the configuration.
    pub objective: String,
    /// Name of the metric.
    pub metric: String,
    /// Value; NaN if it is a mean over nothing.
    pub value: f64,
}

/// Encoder with its tokenizer's vocabulary, in eval mode.
pub trait EncoderModel {
    /// Returns facts about the model.
    fn facts(&self) -> &ModelFacts;

    /// Reports progress within a long analysis: `done` of `total` parts.
    fn report_progress(&self, _done: usize, _total: usize) {}

    /// Encodes rows and passes their hidden states to `visit`, row by row, in order: the index of the row and the states of
    /// each of `layers`, frame tokens included. Layer 0 is the output of the embedding block.
    ///
    /// # Errors
    /// Those of the model.
    fn encode(
        &self,
        rows: &[&[u32]],
        layers: &[usize],
        visit: &mut dyn FnMut(usize, Vec<Vectors>),
    ) -> Result<(), Error>;

    /// Returns the input vectors of ids, from the word table.
    ///
    /// # Errors
    /// Those of the model.
    fn word_vectors(&self, ids: &[u32]) -> Result<Vectors, Error>;

    /// Returns the gradient of the summed masked language modelling loss of a row, with `[MASK]` at its positions, with
    /// respect to the weights whose names match `parameters`. A `*` in it stands for any characters.
    ///
    /// # Errors
    /// If the model predicts no tokens, or if no weight matches.
    fn gradient(&self, row: &MaskedRow, parameters: &str) -> Result<Vec<f32>, Error>;

    /// Returns the metrics of the model's objectives on rows, masked as in training with masks of `seed`.
    ///
    /// # Errors
    /// If the model has no objectives, or if they cannot read rows of a text.
    fn objective_metrics(&self, rows: &[&[u32]], seed: u64) -> Result<Vec<ObjectiveMetric>, Error>;
}
