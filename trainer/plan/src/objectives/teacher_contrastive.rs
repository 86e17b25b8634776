//! Teacher contrast: a student's token vector identifies its position among those of a frozen teacher's row.
//!
//! Su et al. 2022, TaCL, section 2. The loss is `trainer::objectives::teacher_contrastive`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::{Objective, Reduction, Requirements, temperature_problem};
use crate::networks::{MAIN, Network};
use crate::pass::Pass;

/// Whether teacher vectors at padding are among the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PadKeys {
    /// Excluded.
    #[default]
    Exclude,
    /// Included, as in the released code.
    Include,
}

/// Trains the student's vector at each masked position to be similar to the teacher's vector there, and to differ from
/// those at other positions. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TeacherContrastive {
    /// Masked view, which the student reads.
    pub view: String,
    /// Unmasked source of that view, which the teacher reads.
    pub clean: String,
    /// Network of kind `teacher`.
    pub teacher: String,
    /// Temperature `τ`.
    pub temperature: f64,
    /// Whether padding is among the keys.
    pub pad_keys: PadKeys,
    /// Reduction of the loss.
    pub reduction: Reduction,
}

impl Default for TeacherContrastive {
    fn default() -> Self {
        Self {
            view: "masked".to_owned(),
            clean: "original".to_owned(),
            teacher: "teacher".to_owned(),
            temperature: 0.01,
            pad_keys: PadKeys::Exclude,
            reduction: Reduction::Tokens,
        }
    }
}

impl Objective for TeacherContrastive {
    fn is_sensitive_to_rounding(&self) -> bool {
        true
    }

    fn reads(&self) -> Requirements {
        let passes = vec![Pass::new(MAIN, &self.view), Pass::new(&self.teacher, &self.clean)];
        Requirements { passes, columns: vec![(self.view.clone(), LABELS.spec())] }
    }

    fn problems(&self) -> Vec<String> {
        temperature_problem(self.temperature, "usually 0.01").into_iter().collect()
    }

    fn aligned(&self) -> Option<[String; 2]> {
        Some([self.view.clone(), self.clean.clone()])
    }

    fn refusal(&self, name: &str, network: Option<&dyn Network>) -> Option<String> {
        let is_right = match network {
            None => name == MAIN && self.teacher != MAIN,
            Some(network) => network.copies_main(),
        };
        (!is_right).then(|| format!("network `{name}` is not a teacher; name a network of kind `teacher`"))
    }
}
