//! Self-similarity of one sentence: cosines of all pairs of its positions.
//!
//! # What
//! The matrix of cosines of the hidden states of a sentence, `[CLS]` and `[SEP]` included.
//!
//! # Why
//! The heat map shows which tokens a layer keeps apart; a model with a high self-similarity has one bright square.
//!
//! # Definition
//! `cos(h_i, h_j)` for all `i`, `j`. `mean` is the mean over pairs `i < j`.
//!
//! # Reference
//! Su et al. 2022 (TaCL), the heat maps of the appendix.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use super::self_sim::existing;
use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::geometry::SelfSimilaritySum;
use crate::measure::{cosine, wide};
use crate::model::EncoderModel;

/// Cosines within one sentence. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfSimMatrix {
    /// Layers, 0 for the output of the embedding block. Default: the last.
    pub layers: Vec<usize>,
}

impl Analysis for SelfSimMatrix {
    fn summary(&self) -> &'static str {
        "Cosines of the hidden states of a sentence, as a heat map"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Sentences]
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, _: u64) -> Result<Vec<FindingTable>, Error> {
        let facts = model.facts();
        let layers = if self.layers.is_empty() { vec![facts.layers] } else { existing(&self.layers, facts)? };
        let sentences: Vec<&[u32]> = data.sentences.iter().map(|sentence| sentence.ids.as_slice()).collect();
        let mut means =
            FindingTable::new("means", &["sentence", "layer"], &["mean", "tokens"], &[ChartSpec::OverSteps("mean")]);
        let map = &[ChartSpec::HeatMap { row: "token", column: "other", value: "cosine" }];
        let mut cosines = FindingTable::new("cosines", &["sentence", "layer", "token", "other"], &["cosine"], map);
        model.encode(&sentences, &layers, &mut |number, states| {
            let framed = facts.framed(sentences[number]);
            let names: Vec<String> =
                framed.iter().enumerate().map(|(at, &id)| format!("{at} {}", facts.vocab.token(id))).collect();
            let sentence = (number + 1).to_string();
            for (layer, states) in layers.iter().zip(&states) {
                let vectors: Vec<Vec<f64>> = states.iter().map(wide).collect();
                for (name, vector) in names.iter().zip(&vectors) {
                    for (other, compared) in names.iter().zip(&vectors) {
                        let keys = [sentence.clone(), layer.to_string(), name.clone(), other.clone()];
                        cosines.push(keys, [cosine(vector, compared)]);
                    }
                }
                let mut sum = SelfSimilaritySum::default();
                sum.add(vectors);
                means.push([sentence.clone(), layer.to_string()], [sum.finish().pooled, names.len() as f64]);
            }
        })?;
        Ok(vec![means, cosines])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ToyModel, data};

    #[test]
    fn the_matrix_is_symmetric_with_ones_on_its_diagonal() {
        let tables = SelfSimMatrix::default().compute(&ToyModel::new(), &data(), 1).expect("computed");
        let tokens = ["0 w2", "1 w7", "2 w8", "3 w9", "4 w31", "5 w3"];
        let at = |one: usize, other: usize| tables[1].number(&["1", "2", tokens[one], tokens[other]], "cosine");
        let mut sum = 0.0;
        for one in 0..6 {
            assert!((at(one, one) - 1.0).abs() < 1e-12);
            for other in 0..one {
                assert!((at(one, other) - at(other, one)).abs() < 1e-12);
                sum += at(one, other);
            }
        }
        assert!((tables[0].number(&["1", "2"], "mean") - sum / 15.0).abs() < 1e-9);
    }
}
