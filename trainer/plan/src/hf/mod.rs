//! Models of Hugging Face as names and shapes: the architectures, their `config.json`, and which of them a run can be.
//!
//! Reading and writing their weights is the engine's `hf`.

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

/// The file of a model's configuration.
pub const CONFIG: &str = "config.json";

/// Whether a run's weights will make a model of that architecture.
///
/// # Errors
/// The configuration error that names what of the weights that architecture has no place for.
pub fn check(plan: &TrainPlan, architecture: ModelFamily) -> Result<(), Error> {
    let weights = plan.weight_shapes();
    choose(plan, architecture, &weights.keys().map(String::as_str).collect()).map(|_| ())
}

/// The class of a model of weights of these names, and the head that makes it one.
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
        Some(problem) => Err(Error::Config(format!("this run cannot be a `{class}`: {problem}"))),
        None => Ok((class, head)),
    }
}

fn no_head(architecture: ModelFamily) -> &'static str {
    match architecture {
        ModelFamily::Bert | ModelFamily::Roberta => {
            "this run has no `masked_lm` objective, so no head to export; train one with it, tied"
        }
        ModelFamily::Electra => {
            "this run has no head that an ELECTRA has; a `replaced_token` objective with `head = \"dense_gelu\"` and \
             `label_one = \"replaced\"` makes one"
        }
    }
}
