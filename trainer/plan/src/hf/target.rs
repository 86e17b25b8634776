//! Network of a run that the weights of a Hugging Face model belong to.

use super::heads::{HeadFacts, HeadPlace, HeadRole, heads};
use super::layout::Layout;
use crate::config::ModelFamily;
use crate::encoder::{EncoderConfig, VocabFacts};
use crate::train_plan::TrainPlan;

/// Network of a run whose weights are imported or exported.
#[derive(Debug)]
pub struct Target<'a> {
    /// Table of the configuration with its shape.
    pub section: String,
    /// Path of the weights of its encoder.
    pub path: String,
    /// Shape of its encoder.
    pub encoder: EncoderConfig,
    /// Vocabulary of the run.
    pub vocab: &'a VocabFacts,
    /// Heads of the network.
    pub heads: Vec<HeadPlace>,
}

impl<'a> Target<'a> {
    /// Returns the main network and its heads; `weights` are the names of all weights of the run.
    #[must_use]
    pub fn main<'n>(plan: &'a TrainPlan, weights: impl Iterator<Item = &'n str>) -> Self {
        let facts = |path: &str| {
            let objective = path.strip_prefix("heads.").and_then(|name| plan.objectives.get(name));
            objective.map_or_else(HeadFacts::default, |objective| HeadFacts {
                flags_replaced: objective.flags_replaced(),
                outputs: objective.label_outputs(),
                activation: objective.row_activation(),
            })
        };
        let heads = heads(weights, facts);
        let section = "encoder".to_owned();
        let path = "encoder".to_owned();
        Self { section, path, encoder: plan.encoder.clone(), vocab: &plan.vocab, heads }
    }

    /// Returns an auxiliary network with its head; `None` if no network `name` predicts tokens.
    #[must_use]
    pub fn next_to(plan: &'a TrainPlan, name: &str) -> Option<Self> {
        let encoder = plan.networks.get(name).filter(|network| network.predicts_tokens())?.shape(&plan.encoder)?;
        let heads = vec![HeadPlace::unlabelled(HeadRole::Predict, format!("{name}.head"))];
        let section = format!("networks.{name}");
        let path = format!("{name}.encoder");
        Some(Self { section, path, encoder, vocab: &plan.vocab, heads })
    }

    /// Returns the layout of its weights in an exported model of the architecture.
    pub fn exported_layout(&self, architecture: ModelFamily) -> Layout<'_> {
        let pad = self.vocab.special.pad;
        let exported = architecture.exported_pad(pad);
        let layout = self.layout(architecture, architecture.first_position(pad), architecture.token_types());
        Layout { swapped_ids: (exported != pad).then_some((pad, exported)), ..layout }
    }

    /// Returns the layout of its weights under the names of the architecture.
    pub fn layout(&self, architecture: ModelFamily, first_position: u32, token_types: u32) -> Layout<'_> {
        let vocab_size = self.vocab.size;
        let encoder = &self.encoder;
        Layout {
            architecture,
            first_position,
            token_types,
            swapped_ids: None,
            encoder,
            vocab_size,
            vocab_rows: vocab_size,
        }
    }
}
