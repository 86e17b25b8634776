//! Replaced token detection: classifies each token as original or replaced.
//!
//! Clark et al. 2020, ELECTRA, section 2. The loss is `trainer::objectives::replaced_token`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Requirements, StartFacts};
use crate::weights::WeightPath;

/// Meaning of label 1, and thus of a positive `z`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOne {
    /// Replaced token, as in ELECTRA.
    #[default]
    #[serde(rename = "replaced")]
    IsReplaced,
    /// Original token, as in COCO-LM.
    #[serde(rename = "original")]
    IsOriginal,
}

/// Usual cause of a first value other than `ln 2`.
pub(super) const NEUTRAL: &str = "an untrained head predicts 1/2, a loss of ln 2; usual causes: the label has the opposite \
    meaning (see `label_one`), or the head has large initial values";

/// Predicts for every token whether a generator has replaced it. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplacedToken {
    /// View with replacements.
    pub view: String,
    /// Layers between hidden states and `z`.
    pub head: DetectionForm,
    /// Meaning of label 1.
    pub label_one: LabelOne,
}

impl Default for ReplacedToken {
    fn default() -> Self {
        Self { view: "corrupted".to_owned(), head: DetectionForm::DenseGelu, label_one: LabelOne::IsReplaced }
    }
}

/// Layers between hidden states and `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetectionForm {
    /// Dense layer with GELU, as in ELECTRA.
    DenseGelu,
    /// No layer, as in COCO-LM.
    Linear,
}

impl Objective for ReplacedToken {
    fn reads(&self) -> Requirements {
        Requirements::of_view(&self.view, LABELS.spec())
    }

    fn flags_replaced(&self) -> bool {
        self.label_one == LabelOne::IsReplaced
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        vec![Expectation::near("", std::f64::consts::LN_2, 0.1, NEUTRAL)]
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        declare(self.head, context, head);
    }
}

/// Declares the weights of a detection head below `head`.
pub(super) fn declare(form: DetectionForm, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
    let width = i64::from(context.encoder.hidden);
    if form == DetectionForm::DenseGelu {
        head.sub("dense").dense(width, width);
    }
    // A matrix of one row, so that weight decay applies.
    head.matrix("weight", [1, width]);
    head.bias("bias", 1);
}
