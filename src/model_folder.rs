//! Folder that a command reads a model from.

use std::path::Path;

use trainer_plan::hf;

use crate::exit::Usage;

/// Kind of a folder with a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ModelFolder {
    /// Run of `cloze`.
    Run,
    /// Model of `transformers`.
    Transformers,
}

impl ModelFolder {
    /// Returns the kind of a folder. `flag` is named in the error.
    ///
    /// # Errors
    /// If the folder is neither.
    pub fn detect(folder: &Path, flag: &str) -> Result<Self, Usage> {
        if folder.join("config.toml").is_file() {
            return Ok(Self::Run);
        }
        if folder.join(hf::CONFIG).is_file() {
            return Ok(Self::Transformers);
        }
        let problem =
            "neither a run of `cloze` nor a `transformers` model is here (no `config.toml`, no `config.json`)";
        Err(Usage(format!("{flag}{}: {problem}", folder.display())))
    }
}
