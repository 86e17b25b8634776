//! Alignment and uniformity of sentence vectors.
//!
//! # What
//! Alignment is the mean squared distance of the unit vectors of similar sentences, uniformity the spread of all of them.
//!
//! # Why
//! Two numbers for one trade-off of a contrastive loss: similar texts close, all texts spread. Lower is better for both.
//!
//! # Definition
//! `alignment = mean ‖x − y‖²` over pairs, `uniformity = ln mean exp(−2 ‖a − b‖²)` over the unordered pairs of the `2n`
//! vectors. A sentence vector is the last hidden state of `[CLS]`, or the mean over tokens. Pairs with an empty text are
//! left out.
//!
//! # Reference
//! Wang & Isola 2020, "Understanding Contrastive Representation Learning through Alignment and Uniformity on the
//! Hypersphere".

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use super::cos_dist::pair_texts;
use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::geometry::alignment_uniformity;
use crate::model::EncoderModel;
use crate::representation::Representation;

/// Alignment and uniformity. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct AlignUniform {
    /// Sentence vector: of `[CLS]`, or the mean over tokens.
    pub repr: Representation,
}

impl Analysis for AlignUniform {
    fn summary(&self) -> &'static str {
        "Alignment of similar sentences and uniformity of all"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Pairs]
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, _: u64) -> Result<Vec<FindingTable>, Error> {
        let vectors = self.repr.vectors(model, &pair_texts(data))?;
        let mut vectors = vectors.into_iter();
        let mut pairs = Vec::new();
        while let (Some(first), Some(second)) = (vectors.next(), vectors.next()) {
            pairs.push((first, second));
        }
        let found = alignment_uniformity(&pairs);
        let charts = &[ChartSpec::OverSteps("alignment"), ChartSpec::OverSteps("uniformity")];
        let mut table = FindingTable::new("pairs", &[], &["alignment", "uniformity", "pairs"], charts);
        table.push([], [found.alignment, found.uniformity, pairs.len() as f64]);
        Ok(vec![table])
    }
}
