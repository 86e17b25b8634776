//! What a validation found of the weights of a checkpoint, beside them.
//!
//! A checkpoint is made after the validation of its step, and then has its figures from the beginning. One that is made
//! since a stop came in the middle of a validation gets them when the run goes on and has made up for it. Until then it is
//! the newest, and stays for that.

use std::collections::BTreeMap;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use telemetry::training::ValidReport;

/// The figures of a checkpoint: `figures.json` in its folder.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validated {
    /// Steps done.
    pub step: Step,
    /// Each figure that is a number: `loss`, `valid/mlm`, `valid/mlm.accuracy`, terms and metrics by their names.
    pub figures: BTreeMap<String, f64>,
}

impl Sealed for Validated {
    const FORMAT: &'static str = "cloze figures";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl Validated {
    /// What a validation after that step found.
    #[must_use]
    pub fn of(step: Step, report: &ValidReport) -> Self {
        let mlm = report.mlm.iter().flat_map(|mlm| [("valid/mlm", mlm.loss), ("valid/mlm.accuracy", mlm.accuracy)]);
        let own = [("loss", report.loss)].into_iter().chain(mlm).map(|(name, value)| (name.to_owned(), value));
        let named = report.terms.iter().chain(&report.metrics).map(|(name, value)| (name.clone(), *value));
        // JSON has no other numbers.
        let figures = named.chain(own).filter(|(_, value)| value.is_finite()).collect();
        Self { step, figures }
    }
}
