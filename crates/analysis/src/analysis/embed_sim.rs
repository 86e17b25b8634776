//! Similarity of related words in the word table.
//!
//! # What
//! Mean cosine of the input vectors of related words, for a fixed sample of word pairs.
//!
//! # Why
//! Shows how early the word table learns which words are related. TACO compares the curves of two objectives.
//!
//! # Definition
//! Pairs are kept if each word is one ordinary token. Of these, `n` are drawn by the seed; checkpoints with the same
//! tokenizer have the same sample. `cosine` is the mean, `error` its standard error over pairs.
//!
//! # Reference
//! Fu et al. 2022 (TACO), figure 3a; Agirre et al. 2009 for the word pairs.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::measure::{cosine, wide};
use crate::model::EncoderModel;
use crate::random::Dice;
use crate::statistics::Mean;

/// Similarity of related words. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedSim {
    /// Word pairs to draw.
    pub n: usize,
}

impl Default for EmbedSim {
    fn default() -> Self {
        Self { n: 20 }
    }
}

impl Analysis for EmbedSim {
    fn summary(&self) -> &'static str {
        "Mean cosine of the input vectors of related words"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Pairs]
    }

    fn problems(&self) -> Vec<String> {
        if self.n == 0 { vec!["`n` must be at least 1".to_owned()] } else { Vec::new() }
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error> {
        let vocab = &model.facts().vocab;
        let single = |ids: &[u32]| ids.len() == 1 && !vocab.is_special(ids[0]);
        let pairs: Vec<_> = data.pairs.iter().filter(|pair| single(&pair.first) && single(&pair.second)).collect();
        let chosen = Dice::new(seed, "word pairs").subset(pairs.len(), self.n);
        let ids: Vec<u32> = chosen.iter().flat_map(|&at| [pairs[at].first[0], pairs[at].second[0]]).collect();
        let mut mean = Mean::default();
        if !ids.is_empty() {
            let vectors = model.word_vectors(&ids)?;
            let vectors: Vec<Vec<f64>> = vectors.iter().map(wide).collect();
            mean = vectors.chunks_exact(2).map(|pair| cosine(&pair[0], &pair[1])).collect();
        }
        let mut table = FindingTable::new(
            "words",
            &[],
            &["cosine", "error", "pairs", "single_token_pairs", "all_pairs"],
            &[ChartSpec::OverSteps("cosine")],
        );
        let counts = [mean.count(), pairs.len() as f64, data.pairs.len() as f64];
        table.push([], [mean.mean(), mean.error(), counts[0], counts[1], counts[2]]);
        Ok(vec![table])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::EncodedPair;
    use crate::testing::ToyModel;

    #[test]
    fn words_of_several_or_unknown_tokens_are_left_out() {
        let model = ToyModel::new();
        let pair = |first: &[u32], second: &[u32]| EncodedPair { line: 1, first: first.into(), second: second.into() };
        let pairs = vec![pair(&[7], &[9]), pair(&[7, 8], &[9]), pair(&[7], &[1]), pair(&[], &[7])];
        let data = AnalysisData { pairs, ..AnalysisData::default() };
        let table = &EmbedSim::default().compute(&model, &data, 1).expect("computed")[0];
        let [a, b] = [7, 9].map(|id| wide(&ToyModel::vector(id)));
        assert!((table.number(&[], "cosine") - cosine(&a, &b)).abs() < 1e-12);
        assert_eq!((table.number(&[], "pairs"), table.number(&[], "all_pairs")), (1.0, 4.0));
        assert!(table.number(&[], "error").is_nan(), "one pair has no error");
    }
}
