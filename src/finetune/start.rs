//! Model that a fine-tuning starts from.

use std::path::{Path, PathBuf};

use pipeline::tokenize::{HfTokenizer, Tokenizer as _};
use store::Store;
use trainer_plan::checkpoint;
use trainer_plan::config::ModelFamily;
use trainer_plan::encoder::EncoderConfig;
use trainer_plan::hf;
use trainer_plan::objectives::Activation;

use crate::exit::Usage;
use crate::hf_model::HfModel;
use crate::plan::Plan;

/// Model with its tokenizer.
pub(super) struct StartModel {
    /// Value of `train.init_from`.
    pub(super) weights: PathBuf,
    pub(super) encoder: EncoderConfig,
    pub(super) tokenizer: HfTokenizer,
    /// Activation of a head over the first position.
    pub(super) activation: Activation,
}

impl StartModel {
    /// Opens the newest checkpoint of a run of `cloze`, or the folder of a `transformers` model.
    pub(super) fn open(from: &Path) -> anyhow::Result<Self> {
        let refuse = |problem: String| Usage(format!("--from {}: {problem}", from.display()));
        if from.join("config.toml").is_file() {
            return Self::of_run(from);
        }
        if !from.join(hf::CONFIG).is_file() {
            let problem =
                "neither a run of `cloze` nor a `transformers` model is here (no `config.toml`, no `config.json`)";
            return Err(refuse(problem.to_owned()).into());
        }
        let HfModel { encoder, tokenizer, family } = HfModel::open(from).map_err(refuse)?;
        let activation = if family == ModelFamily::Electra { Activation::Gelu } else { Activation::Tanh };
        Ok(Self { weights: from.to_owned(), encoder, tokenizer, activation })
    }

    fn of_run(run: &Path) -> anyhow::Result<Self> {
        let plan = Plan::of_run(run)?;
        let tokenizer = plan.tokenizer()?;
        let store = Store::existing(run)?;
        let state = checkpoint::newest_complete_state(&store)?;
        let weights = run.join(checkpoint::FOLDER).join(checkpoint::folder_name(state.step));
        let objectives = || plan.train().active().map(|active| active.objective);
        let detects = objectives().any(|objective| objective.flags_replaced());
        let usual = if detects { Activation::Gelu } else { Activation::Tanh };
        let activation = objectives().find_map(|objective| objective.row_activation()).unwrap_or(usual);
        Ok(Self { weights, encoder: plan.train().encoder.clone(), tokenizer, activation })
    }

    /// Separators between two texts: two for the vocabulary of RoBERTa, which has no segments.
    pub(super) fn separators(&self) -> u32 {
        let facts = self.tokenizer.facts();
        let cls = &facts.tokens[facts.special().cls as usize];
        if cls == "<s>" { 2 } else { 1 }
    }
}
