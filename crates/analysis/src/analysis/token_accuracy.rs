//! Metrics of a model's objectives on a text, such as accuracies of replaced-token detection and of prediction.
//!
//! # What
//! Masks rows of a text as in training, lets the generator fill them, and reports the metrics of every objective.
//!
//! # Why
//! COCO-LM's copy accuracy, and its prediction accuracy split by replaced and original tokens, show what the two heads
//! have learned. ELECTRA's detector is judged by the same numbers on replaced tokens and originals.
//!
//! # Definition
//! The metrics of the log, computed over the rows in eval mode. `accuracy_replaced` and `accuracy_original` of
//! `replaced_token` and `corrective_lm` are the shares of replaced tokens and of originals with the right sign of the
//! detection score. `lm_accuracy_replaced` and `lm_accuracy_original` are the shares whose original has the highest
//! probability of the mixture of copying and prediction.
//!
//! # Reference
//! Meng et al. 2021 (COCO-LM), figure 8; Clark et al. 2020 (ELECTRA), section 3.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Analysis;
use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::model::EncoderModel;

/// Metrics of the objectives. It has no settings. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TokenAccuracy {}

impl Analysis for TokenAccuracy {
    fn summary(&self) -> &'static str {
        "Accuracies of detected, copied and predicted tokens of a run's objectives"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Rows]
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error> {
        let rows: Vec<&[u32]> = data.rows.iter().map(|row| row.ids.as_slice()).collect();
        let charts = &[ChartSpec::OverSteps("value")];
        let mut table = FindingTable::new("metrics", &["objective", "metric"], &["value"], charts);
        for found in model.objective_metrics(&rows, seed)? {
            table.push([found.objective, found.metric], [found.value]);
        }
        Ok(vec![table])
    }
}
