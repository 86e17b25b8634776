//! Model that a fine-tuning starts from.

use std::path::{Path, PathBuf};

use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use store::Store;
use trainer_plan::checkpoint;
use trainer_plan::config::ModelFamily;
use trainer_plan::encoder::EncoderConfig;
use trainer_plan::hf;
use trainer_plan::objectives::{Activation, TokenHeadForm};

use super::step::chosen_step;
use crate::exit::Usage;
use crate::hf_model::HfModel;
use crate::model_folder::ModelFolder;
use crate::plan::Plan;

/// Model with its tokenizer.
pub(super) struct StartModel {
    /// Value of `train.init_from`.
    pub(super) weights: PathBuf,
    /// Step of the checkpoint of a run.
    pub(super) step: Option<u64>,
    pub(super) encoder: EncoderConfig,
    pub(super) tokenizer: HfTokenizer,
    /// Activation of a head over the first position.
    pub(super) activation: Activation,
}

/// Head of a model that predicts tokens from hidden states of its main network.
pub(super) struct StartHead {
    pub(super) form: TokenHeadForm,
    /// Objective of the run that has it; `None` for a `transformers` model.
    pub(super) objective: Option<String>,
}

impl StartHead {
    /// Returns the head that predicts tokens, of a run, or of a model that can be read.
    ///
    /// # Errors
    /// If there is none.
    pub(super) fn open(from: &Path) -> anyhow::Result<Self> {
        let refuse = |problem: String| Usage(format!("--prompt, --from {}: {problem}", from.display()));
        if ModelFolder::detect(from, "--from ")? == ModelFolder::Run {
            let plan = Plan::of_run(from)?;
            let head = plan
                .train()
                .active()
                .find_map(|active| Some((active.objective.token_head_form()?, active.name.to_owned())));
            let Some((form, name)) = head else {
                let objectives = plan.train().active().map(|active| format!("`{}`", active.objective.kind()));
                let problem = format!(
                    "its main network has no head that predicts tokens (objectives {}); start from a run with `masked_lm` or \
                     `corrective_lm` of the main network, from an exported generator, or leave out --prompt",
                    objectives.collect::<Vec<_>>().join(", ")
                );
                return Err(refuse(problem).into());
            };
            return Ok(Self { form, objective: Some(name) });
        }
        let config = hf::read_config(from).map_err(refuse)?;
        if !config.predicts_tokens() {
            let problem = format!(
                "the model is a `{}`, which has no head that predicts tokens; name a model of a class `…ForMaskedLM`, or leave \
                 out --prompt",
                config.class().unwrap_or("model without `architectures`")
            );
            return Err(refuse(problem).into());
        }
        let form = match (config.has_transform(), config.is_tied()) {
            (false, _) => TokenHeadForm::Table,
            (true, true) => TokenHeadForm::Transform,
            (true, false) => TokenHeadForm::Untied,
        };
        Ok(Self { form, objective: None })
    }
}

impl StartModel {
    /// Opens the newest checkpoint of a run of `cloze`, or the folder of a `transformers` model.
    ///
    /// `step` is the step of the checkpoint of a run; that of [`chosen_step`] by default.
    pub(super) fn open(from: &Path, step: Option<u64>) -> anyhow::Result<Self> {
        let refuse = |problem: String| Usage(format!("--from {}: {problem}", from.display()));
        if ModelFolder::detect(from, "--from ")? == ModelFolder::Run {
            return Self::of_run(from, step);
        }
        let HfModel { encoder, tokenizer, family } = HfModel::open(from).map_err(refuse)?;
        let activation = if family == ModelFamily::Electra { Activation::Gelu } else { Activation::Tanh };
        if step.is_some() {
            return Err(refuse("a `transformers` model has no steps; leave out --from-step".to_owned()).into());
        }
        Ok(Self { weights: from.to_owned(), step: None, encoder, tokenizer, activation })
    }

    fn of_run(run: &Path, step: Option<u64>) -> anyhow::Result<Self> {
        let plan = Plan::of_run(run)?;
        let tokenizer = plan.tokenizer()?;
        let store = Store::existing(run)?;
        let step = match chosen_step(&plan, &store, step)? {
            Some(step) => checkpoint::state_of(&store, step).map_err(|error| Usage(format!("--from: {error}")))?.step,
            None => checkpoint::newest_complete_state(&store)?.step,
        };
        let weights = run.join(checkpoint::FOLDER).join(checkpoint::folder_name(step));
        let objectives = || plan.train().active().map(|active| active.objective);
        let detects = objectives().any(|objective| objective.flags_replaced());
        let usual = if detects { Activation::Gelu } else { Activation::Tanh };
        let activation = objectives().find_map(|objective| objective.row_activation()).unwrap_or(usual);
        Ok(Self { weights, step: Some(step.0), encoder: plan.train().encoder.clone(), tokenizer, activation })
    }

    /// Separators between two texts: two for the vocabulary of RoBERTa, which has no segments.
    pub(super) fn separators(&self) -> u32 {
        let facts = self.tokenizer.facts();
        let cls = &facts.tokens[facts.special().cls as usize];
        if cls == "<s>" { 2 } else { 1 }
    }
}
