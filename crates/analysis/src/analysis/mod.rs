//! Analyses: each has one file and one line in the registry below.
//!
//! The struct of an analysis is its configuration. Its fields become options of `cloze analyze`, with their doc comments
//! as help: `max_tokens` is `--max-tokens`.

#[cfg(test)]
mod contract;

use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::FindingTable;
use crate::model::EncoderModel;

schemas::registry! {
    /// Analysis of any kind.
    pub enum AnyAnalysis: Analysis {
        align_uniform::AlignUniform,
        context_score::ContextScore,
        cos_dist::CosDist,
        embed_sim::EmbedSim,
        grad_cov::GradCov,
        neighbors::Neighbors,
        self_sim::SelfSim,
        self_sim_matrix::SelfSimMatrix,
        token_accuracy::TokenAccuracy,
    }
}

/// Analysis of an encoder.
pub trait Analysis: Send + Sync {
    /// Returns its purpose in one sentence, for the help.
    fn summary(&self) -> &'static str;

    /// Returns the data that it reads.
    fn reads(&self) -> &'static [DataKind];

    /// Returns one message per invalid option.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Computes the results for one model. Random choices depend on `seed` and the data only, so that the results of
    /// several checkpoints compare the same tokens.
    ///
    /// # Errors
    /// If the options do not fit the model or the data, or if the model fails.
    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error>;
}
