//! Names and shapes of Hugging Face models: architectures, `config.json`, and the choice of the exported class.
//!
//! The `hf` module of the engine reads and writes their weights.

mod architecture;
mod config;
mod layout;
mod target;

use std::collections::BTreeSet;

pub use self::architecture::{HeadPlace, HeadRole};
pub use self::config::ModelConfig;
pub use self::layout::{Layout, TensorEntry};
pub use self::target::Target;
use crate::config::ModelFamily;
use crate::error::Error;
use crate::train_plan::TrainPlan;

/// Name of the configuration file of a model.
pub const CONFIG: &str = "config.json";

/// Checks that a run can be exported as a model of the architecture.
///
/// # Errors
/// [`Error::Config`] if the run has no head of the architecture, or if the architecture does not support its encoder.
pub fn check(plan: &TrainPlan, architecture: ModelFamily) -> Result<(), Error> {
    let weights = plan.weight_shapes();
    choose(plan, architecture, &weights.keys().map(String::as_str).collect()).map(|_| ())
}

/// Chooses the class of the exported model by the names of the weights. Returns the class and its head.
///
/// # Errors
/// As [`check`].
pub fn choose(
    plan: &TrainPlan,
    architecture: ModelFamily,
    names: &BTreeSet<&str>,
) -> Result<(&'static str, HeadPlace), Error> {
    let mut heads = Target::main(plan, names.iter().copied()).heads;
    heads.retain(|head| !names.contains(format!("{}.decoder.weight", head.path).as_str()));
    let find = |form: HeadRole| heads.iter().find(|head| head.form == form).cloned();
    let (class, head) = architecture
        .classes()
        .iter()
        .find_map(|&(form, class)| Some((class, find(form)?)))
        .ok_or_else(|| Error::Config(no_head(architecture).to_owned()))?;
    match config::refusal(architecture, head.form, &plan.encoder) {
        Some(problem) => Err(Error::Config(format!("this run cannot be exported as `{class}`: {problem}"))),
        None => Ok((class, head)),
    }
}

fn no_head(architecture: ModelFamily) -> &'static str {
    match architecture {
        ModelFamily::Bert | ModelFamily::Roberta => {
            "this run has no `masked_lm` objective with `tied = true`, so it has no head to export; train a run with \
             such an objective"
        }
        ModelFamily::Electra => {
            "this run has no head of an ELECTRA model; train a run with a `replaced_token` objective with \
             `head = \"dense_gelu\"` and `label_one = \"replaced\"`"
        }
    }
}
