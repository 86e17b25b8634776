//! Masked language modelling: predicts the original ids at masked positions.
//!
//! Devlin et al. 2019, section 3.1. The loss is `trainer::objectives::masked_lm`.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Reduction, Requirements, SCORED, Scores, StartFacts, TokenHeadForm};
use crate::networks::{MAIN, Network};
use crate::pass::Pass;
use crate::weights::{self, WeightPath};

/// Usual cause of a first value other than `ln V`.
pub(super) const GUESSING: &str = "untrained weights give all ids equal probability, a loss of ln V; usual causes: the word \
    table is not tied to the head, its initial values are too large, or the data have another vocabulary";

/// Predicts the original ids at masked positions. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MaskedLm {
    /// Masked view.
    pub view: String,
    /// Network that predicts: `main`, or a generator, which has its own head.
    pub network: String,
    /// Whether the decoder is the word table. Otherwise the decoder is a separate matrix (TACO, table 10).
    pub tied: bool,
    /// Reduction of the loss. For fully-explored masks, `"tokens"` is equation 4 of the paper up to a constant of the batch.
    pub reduction: Reduction,
}

impl Default for MaskedLm {
    fn default() -> Self {
        Self { view: "masked".to_owned(), network: MAIN.to_owned(), tied: true, reduction: Reduction::Tokens }
    }
}

impl Objective for MaskedLm {
    fn reads(&self) -> Requirements {
        Requirements {
            passes: vec![Pass::new(&self.network, &self.view)],
            columns: vec![(self.view.clone(), LABELS.spec())],
        }
    }

    fn problems(&self) -> Vec<String> {
        let untied = !self.tied && self.network != MAIN;
        let message = "`tied = false` is for the main network; a generator's head is always tied".to_owned();
        untied.then_some(message).into_iter().collect()
    }

    fn refusal(&self, name: &str, network: Option<&dyn Network>) -> Option<String> {
        let predicts = network.is_none_or(Network::predicts_tokens);
        (!predicts)
            .then(|| format!("network `{name}` has no head that predicts tokens; name `main` or a trained `generator`"))
    }

    fn scores(&self) -> Option<Scores> {
        Some(Scores { share: SCORED, transformed: true })
    }

    fn expected_start(&self, facts: StartFacts) -> Vec<Expectation> {
        vec![Expectation::near("", facts.vocab_size.ln(), 0.05, GUESSING)]
    }

    fn token_head_form(&self) -> Option<TokenHeadForm> {
        let form = if self.tied { TokenHeadForm::Transform } else { TokenHeadForm::Untied };
        // The head of a generator belongs to the generator.
        (self.network == MAIN).then_some(form)
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        // The head of a generator belongs to the generator.
        if self.network == MAIN {
            weights::token_head(context.encoder, context.vocab_size, self.tied, head);
        }
    }
}
