//! Prompt classification: predicts the class of a text from the label words at the masked position of a template.
//!
//! Gao et al. 2021, LM-BFF, section 4. The loss is `trainer::objectives::prompt_classification`.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use schemas::columns::TARGETS;
use serde::{Deserialize, Serialize};

use super::{Expectation, HeadContext, Objective, Requirements, StartFacts, TokenHeadForm, example_head};
use crate::weights::{self, WeightPath};

/// Predicts the class whose label word is the most probable one at the masked position. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct PromptClassification {
    /// View of labelled examples with `target = "tokens"`: the class at the masked position.
    pub view: String,
    /// Id of the label word of each class. `cloze finetune` writes it.
    pub words: Vec<u32>,
    /// Form of the head.
    pub form: TokenHeadForm,
    /// Objective of the run in `train.init_from` whose head is continued. By default the one with the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub init_head: Option<String>,
}

impl Default for PromptClassification {
    fn default() -> Self {
        Self { view: "example".to_owned(), words: vec![5, 6], form: TokenHeadForm::default(), init_head: None }
    }
}

impl Objective for PromptClassification {
    fn reads(&self) -> Requirements {
        Requirements::of_view(&self.view, TARGETS.spec())
    }

    fn problems(&self) -> Vec<String> {
        let classes = self.words.len();
        let distinct = self.words.iter().collect::<BTreeSet<_>>().len();
        let mut problems = Vec::new();
        if !(2..=100_000).contains(&classes) {
            problems.push(format!("`words` has {classes} ids; write one for each class, from 2 to 100,000"));
        }
        if distinct < classes {
            problems.push("`words` names one id twice; each class needs a different label word".to_owned());
        }
        problems
    }

    fn vocab_problem(&self, vocab_size: u32) -> Option<String> {
        let word = self.words.iter().find(|&&word| word >= vocab_size)?;
        Some(format!("`words` names the id {word}, but the vocabulary has {vocab_size} ids; write ids below that"))
    }

    fn uses_word_table(&self) -> bool {
        self.form == TokenHeadForm::Table
    }

    fn expected_start(&self, _: StartFacts) -> Vec<Expectation> {
        vec![example_head::uniform_guess(u32::try_from(self.words.len()).unwrap_or(u32::MAX))]
    }

    fn token_head_form(&self) -> Option<TokenHeadForm> {
        Some(self.form)
    }

    fn continues_token_head(&self) -> bool {
        true
    }

    fn init_head(&self) -> Option<&str> {
        self.init_head.as_deref()
    }

    fn declare(&self, context: &HeadContext<'_>, head: &mut WeightPath<'_>) {
        match self.form {
            TokenHeadForm::Transform => weights::token_head(context.encoder, context.vocab_size, true, head),
            TokenHeadForm::Untied => weights::token_head(context.encoder, context.vocab_size, false, head),
            TokenHeadForm::Table => head.sub("lm").bias("bias", i64::from(context.vocab_size)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_class_needs_a_word_of_the_vocabulary() {
        let problems = |words: &[u32]| {
            let objective = PromptClassification { words: words.to_vec(), ..PromptClassification::default() };
            let problems = objective.problems().into_iter().chain(objective.vocab_problem(60));
            problems.collect::<Vec<_>>().join("; ")
        };
        assert_eq!(problems(&[7, 59]), "");
        assert!(problems(&[7]).contains("1 ids"));
        assert!(problems(&[7, 7]).contains("one id twice"));
        assert!(problems(&[7, 60]).contains("the id 60, but the vocabulary has 60 ids"));
    }
}
