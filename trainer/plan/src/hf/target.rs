//! Which of a run's networks a model's weights are for.

use super::architecture::{self, HeadPlace, HeadRole};
use super::layout::Layout;
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, VocabFacts};
use crate::train_plan::TrainPlan;

/// A network of a run that a model's weights are for.
#[derive(Debug)]
pub struct Target<'a> {
    /// The table of the configuration that says its shape.
    pub section: String,
    /// What its encoder's weights are below.
    pub path: String,
    /// Its shape.
    pub encoder: EncoderConfig,
    /// The run's vocabulary.
    pub vocab: &'a VocabFacts,
    /// The heads on it.
    pub heads: Vec<HeadPlace>,
}

impl<'a> Target<'a> {
    /// The main network and the heads on it; `weights` are the names of all that the run has.
    ///
    /// A detection head whose label 1 is "original" is not ELECTRA's: the same numbers mean the opposite.
    #[must_use]
    pub fn main<'n>(plan: &'a TrainPlan, weights: impl Iterator<Item = &'n str>) -> Self {
        let detects = |path: &str| {
            let objective = path.strip_prefix("heads.").and_then(|name| plan.objectives.get(name));
            objective.is_some_and(|objective| objective.flags_replaced())
        };
        let mut heads = architecture::heads(weights);
        heads.retain(|head| head.form != HeadRole::Detect || detects(&head.path));
        let (section, path) = ("encoder".to_owned(), "encoder".to_owned());
        Self { section, path, encoder: plan.encoder.clone(), vocab: &plan.vocab, heads }
    }

    /// A network next to the main one, with its head; `None` if `name` is none that predicts tokens.
    #[must_use]
    pub fn beside(plan: &'a TrainPlan, name: &str) -> Option<Self> {
        let encoder = plan.networks.get(name).filter(|network| network.predicts_tokens())?.shape(&plan.encoder)?;
        let heads = vec![HeadPlace { form: HeadRole::Predict, path: format!("{name}.head") }];
        let (section, path) = (format!("networks.{name}"), format!("{name}.encoder"));
        Some(Self { section, path, encoder, vocab: &plan.vocab, heads })
    }

    /// Its weights under the names of that architecture.
    pub fn layout(&self, architecture: ModelFamily, first_position: u32, token_types: u32) -> Layout<'_> {
        Layout { architecture, first_position, token_types, encoder: &self.encoder, vocab_size: self.vocab.size }
    }
}
