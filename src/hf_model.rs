//! Model of a `transformers` folder that a run starts from: its shape and its tokenizer.

use std::path::Path;

use pipeline::tokenize::{self, HfTokenizer};
use trainer_plan::config::ModelFamily;
use trainer_plan::encoder::EncoderConfig;
use trainer_plan::hf;

/// Shape and tokenizer of a model.
pub(crate) struct HfModel {
    pub(crate) encoder: EncoderConfig,
    pub(crate) tokenizer: HfTokenizer,
    pub(crate) family: ModelFamily,
}

impl HfModel {
    /// Reads the model in `folder`, without its weights, whose shapes are checked.
    ///
    /// # Errors
    /// A message without the folder.
    pub(crate) fn open(folder: &Path) -> Result<Self, String> {
        let config = hf::read_config(folder)?;
        if let Some(problem) = hf::weights_problem(folder, &config) {
            return Err(problem);
        }
        let encoder = config.encoder()?;
        let tokenizer = tokenize::load_from_model(folder).map_err(|error| error.to_string())?;
        Ok(Self { encoder, tokenizer, family: config.architecture() })
    }
}
