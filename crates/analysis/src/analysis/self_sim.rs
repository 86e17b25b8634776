//! Self-similarity: mean cosine of the hidden states within a row, by layer.
//!
//! # What
//! Averages the cosine of all pairs of positions of a row, `[CLS]` and `[SEP]` included, for each layer.
//!
//! # Why
//! Hidden states that are all similar say little about their tokens. TaCL lowers the self-similarity of the last layers.
//!
//! # Definition
//! `pooled`: sum over rows of the cosines of their pairs, divided by the number of pairs, so that long rows weigh more.
//! `row_mean`: mean over rows of the mean cosine of a row. Layer 0 is the output of the embedding block.
//!
//! # Reference
//! Su, Liu, Meng, Lan, Shu, Shareghi & Collier 2022 (TaCL), figure 2.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::geometry::SelfSimilaritySum;
use crate::measure::wide;
use crate::model::{EncoderModel, ModelFacts};

/// Self-similarity by layer. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SelfSim {
    /// Layers, 0 for the output of the embedding block. Default: 1 to the last.
    pub layers: Vec<usize>,
}

impl Analysis for SelfSim {
    fn summary(&self) -> &'static str {
        "Mean cosine of the hidden states within a row, by layer"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Rows]
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, _: u64) -> Result<Vec<FindingTable>, Error> {
        let facts = model.facts();
        let layers = if self.layers.is_empty() { (1..=facts.layers).collect() } else { existing(&self.layers, facts)? };
        let rows: Vec<&[u32]> = data.rows.iter().map(|row| row.ids.as_slice()).collect();
        let mut sums = vec![SelfSimilaritySum::default(); layers.len()];
        model.encode(&rows, &layers, &mut |_, states| {
            for (sum, states) in sums.iter_mut().zip(&states) {
                sum.add(states.iter().map(wide));
            }
        })?;
        let charts = &[ChartSpec::OverKey { key: "layer", value: "pooled" }, ChartSpec::OverSteps("pooled")];
        let mut table = FindingTable::new("layers", &["layer"], &["pooled", "row_mean", "pairs"], charts);
        for (layer, sum) in layers.iter().zip(&sums) {
            let found = sum.finish();
            table.push([layer.to_string()], [found.pooled, found.row_mean, found.pairs]);
        }
        Ok(vec![table])
    }
}

/// Returns the layers, each once, if the model has them.
pub(super) fn existing(layers: &[usize], facts: &ModelFacts) -> Result<Vec<usize>, Error> {
    let mut layers = layers.to_vec();
    layers.sort_unstable();
    layers.dedup();
    match layers.iter().find(|&&layer| layer > facts.layers) {
        None => Ok(layers),
        Some(layer) => {
            let last = facts.layers;
            Err(Error::Usage(format!("--layers: the model has no layer {layer}; its layers are 0 to {last}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ToyModel, data};

    #[test]
    fn layers_of_the_model_are_the_default_and_others_are_refused() {
        let compute = |layers: &[usize]| {
            SelfSim { layers: layers.to_vec() }.compute(&ToyModel::new(), &data(), 1).map(|tables| tables[0].clone())
        };
        let all = compute(&[]).expect("computed");
        assert_eq!(all.rows.iter().map(|row| row.keys[0].as_str()).collect::<Vec<_>>(), ["1", "2"]);
        // The toy adds more of the row's mean in each layer.
        assert!(all.number(&["1"], "pooled") < all.number(&["2"], "pooled"));
        assert_eq!(compute(&[2, 0, 2]).expect("computed").rows.len(), 2);
        let error = compute(&[3]).expect_err("there are two layers").to_string();
        assert!(error.contains("layer 3") && error.contains("0 to 2"), "{error}");
    }
}
