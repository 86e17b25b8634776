//! Teacher contrast: a student's token vector is told apart from the other positions of a frozen teacher's row.
//!
//! Su et al. 2022, TaCL, section 2. The loss is `trainer::objectives::teacher_contrastive`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::{Objective, Reads, Reduction, temperature_problem};
use crate::networks::{MAIN, Network};
use crate::pass::Pass;

/// Whether teacher vectors at padding are among the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum PadKeys {
    /// No.
    #[default]
    Exclude,
    /// Yes: the released code.
    Include,
}

/// The student says at each predicted position what its frozen teacher says there, not what it says elsewhere.
/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TeacherContrastive {
    /// The masked view, which the student reads.
    pub view: String,
    /// The view that it is a mask of, which the teacher reads.
    pub clean: String,
    /// The network of kind `teacher`.
    pub teacher: String,
    /// `τ`.
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
    fn reads(&self) -> Reads {
        let passes = vec![Pass::new(MAIN, &self.view), Pass::new(&self.teacher, &self.clean)];
        Reads { passes, columns: vec![(self.view.clone(), LABELS.spec())] }
    }

    fn problems(&self) -> Vec<String> {
        temperature_problem(self.temperature, "usually 0.01").into_iter().collect()
    }

    fn aligned(&self) -> Option<[String; 2]> {
        Some([self.view.clone(), self.clean.clone()])
    }

    fn refuses(&self, name: &str, network: Option<&dyn Network>) -> Option<String> {
        let is_right = match network {
            None => name == MAIN && self.teacher != MAIN,
            Some(network) => network.copies_main(),
        };
        (!is_right).then(|| format!("network `{name}` is no teacher; name one of kind `teacher`"))
    }
}
