//! Replaced token detection: whether a generator put a token in its place.
//!
//! Clark et al. 2020, ELECTRA, section 2. The loss is `trainer::objectives::replaced_token`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Reads, StartFacts};
use crate::networks::MAIN;
use crate::pass::Pass;
use crate::weights::WeightPath;

/// What label 1, and so a positive `z`, means.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum LabelOne {
    /// The token was replaced: ELECTRA.
    #[default]
    #[serde(rename = "replaced")]
    IsReplaced,
    /// The token is the original: COCO-LM.
    #[serde(rename = "original")]
    IsOriginal,
}

/// What usually makes a first value other than `ln 2`.
pub(super) const NEUTRAL: &str = "a head that knows nothing says 1/2, which costs ln 2; usually the label's polarity is \
    that of another head (see `label_one`), or the head is not drawn around 0";

/// Says of every token whether a generator put it there. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ReplacedToken {
    /// The view with replacements.
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

/// What is between hidden states and `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DetectionForm {
    /// A dense layer with gelu: ELECTRA.
    DenseGelu,
    /// Nothing: COCO-LM.
    Linear,
}

impl Objective for ReplacedToken {
    fn reads(&self) -> Reads {
        Reads { passes: vec![Pass::new(MAIN, &self.view)], columns: vec![(self.view.clone(), LABELS.spec())] }
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

/// The weights of a detection head below `head`.
pub(super) fn declare(form: DetectionForm, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
    let width = i64::from(context.encoder.hidden);
    if form == DetectionForm::DenseGelu {
        head.sub("dense").dense(width, width);
    }
    // One row of a matrix: it decays as matrices do.
    head.matrix("weight", [1, width]);
    head.bias("bias", 1);
}
