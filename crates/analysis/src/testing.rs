//! Small model for tests: its last layer is the embedding of a token plus the mean of its row.

use std::sync::Arc;

use schemas::{SpecialIds, Vocab};

use crate::data::{AnalysisData, EncodedPair, EncodedSentence, TextRow};
use crate::error::Error;
use crate::model::{EncoderModel, MaskedRow, ModelFacts, ObjectiveMetric, Vectors};
use crate::random::Dice;

const WIDTH: usize = 4;
const IDS: u32 = 40;

pub(crate) struct ToyModel {
    facts: ModelFacts,
}

impl ToyModel {
    /// Id of the unknown token.
    pub(crate) const UNKNOWN: u32 = 1;

    pub(crate) fn new() -> Self {
        let tokens = (0..IDS).map(|id| format!("w{id}")).collect();
        let special = SpecialIds { pad: 0, unk: Some(Self::UNKNOWN), cls: 2, sep: 3, mask: 4 };
        // Ids of 30 and more continue a word.
        let starts = (0..IDS).map(|id| id < 30).collect();
        let vocab = Vocab::new(tokens, starts, vec![0; IDS as usize], special, &[]);
        Self { facts: ModelFacts { layers: 2, max_tokens: 14, vocab: Arc::new(vocab) } }
    }

    /// Returns the embedding of an id.
    pub(crate) fn vector(id: u32) -> Vec<f32> {
        let mut dice = Dice::new(u64::from(id), "embedding");
        (0..WIDTH).map(|_| f32::from(u16::try_from(dice.below(2001)).expect("small")) / 1000.0 - 1.0).collect()
    }
}

impl EncoderModel for ToyModel {
    fn facts(&self) -> &ModelFacts {
        &self.facts
    }

    fn encode(
        &self,
        rows: &[&[u32]],
        layers: &[usize],
        visit: &mut dyn FnMut(usize, Vec<Vectors>),
    ) -> Result<(), Error> {
        for (index, row) in rows.iter().enumerate() {
            assert!(row.len() <= self.facts.max_tokens, "the row has too many tokens");
            let embedded: Vec<Vec<f32>> = self.facts.framed(row).iter().map(|&id| Self::vector(id)).collect();
            let mean = |at: usize| embedded.iter().map(|vector| vector[at]).sum::<f32>() / embedded.len() as f32;
            let means: Vec<f32> = (0..WIDTH).map(mean).collect();
            let layer = |layer: &usize| {
                let share = *layer as f32 / self.facts.layers as f32;
                let value = |vector: &Vec<f32>| (0..WIDTH).map(|at| vector[at] + share * means[at]).collect::<Vec<_>>();
                Vectors::new(WIDTH, embedded.iter().flat_map(value).collect())
            };
            visit(index, layers.iter().map(layer).collect());
        }
        Ok(())
    }

    fn word_vectors(&self, ids: &[u32]) -> Result<Vectors, Error> {
        Ok(Vectors::new(WIDTH, ids.iter().flat_map(|&id| Self::vector(id)).collect()))
    }

    /// Sum over masked positions of a vector of the position: the additive case.
    fn gradient(&self, row: &MaskedRow, _: &str) -> Result<Vec<f32>, Error> {
        let mut sum = vec![0.0; WIDTH];
        for &at in &row.positions {
            let vector = Self::vector(row.ids[at] + 100 * u32::try_from(at).expect("small"));
            sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
        }
        Ok(sum)
    }

    fn objective_metrics(&self, rows: &[&[u32]], _: u64) -> Result<Vec<ObjectiveMetric>, Error> {
        let value = if rows.is_empty() { f64::NAN } else { 0.5 };
        let metric = |metric: &str| ObjectiveMetric { objective: "mlm".to_owned(), metric: metric.to_owned(), value };
        Ok(["loss", "accuracy"].map(metric).into())
    }
}

pub(crate) fn rows(rows: &[(usize, &[u32])]) -> Vec<TextRow> {
    rows.iter().map(|&(document, ids)| TextRow { document, ids: ids.to_vec() }).collect()
}

/// Returns data of every kind.
pub(crate) fn data() -> AnalysisData {
    let row = |number: usize| {
        let first = u32::try_from(number).expect("small");
        let ids = (0..12).map(|at| 5 + (first * 7 + at * 3) % 25).collect();
        TextRow { document: number / 2, ids }
    };
    let pair =
        |number: u32| EncodedPair { line: u64::from(number) + 1, first: vec![5 + number], second: vec![9 + number] };
    let sentence = |ids: &[u32]| EncodedSentence { text: "w7 w8 w9".to_owned(), ids: ids.to_vec() };
    AnalysisData {
        rows: (0..8).map(row).collect(),
        pairs: (0..6).map(pair).collect(),
        sentences: vec![sentence(&[7, 8, 9, 31])],
    }
}
