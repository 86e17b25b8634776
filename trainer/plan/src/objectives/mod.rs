//! Objectives: configurations of the training losses. Each has one file and one line in the registry below.
//!
//! An objective is a list of **terms**. A term is a sum over its positions. The number of positions is known on the
//! host before any kernel runs. The loss of a step is `Σ_objective w · Σ_term λ · S / N`, where `N` adds the term's
//! counts over all micro-batches of the step, and a term with `N = 0` is 0. The engine's file of the same name computes
//! the sums.

use schemars::JsonSchema;
use schemas::ColumnSpec;
use serde::{Deserialize, Serialize};

use crate::encoder::EncoderConfig;
use crate::networks::{MAIN, Network};
use crate::pass::Pass;
use crate::weights::WeightPath;

mod activation;
mod example_head;
mod expectation;
mod token_head_form;

pub use self::activation::Activation;
pub use self::expectation::{Expectation, StartFacts};
pub use self::token_head_form::TokenHeadForm;

schemas::registry! {
    /// Objective of any kind.
    pub enum AnyObjective: Objective {
        classification::Classification,
        corrective_lm::CorrectiveLm,
        masked_lm::MaskedLm,
        next_sentence::NextSentence,
        prompt_classification::PromptClassification,
        regression::Regression,
        replaced_token::ReplacedToken,
        sequence_contrastive::SequenceContrastive,
        span_extraction::SpanExtraction,
        teacher_contrastive::TeacherContrastive,
        token_classification::TokenClassification,
        token_contrastive::TokenContrastive,
        token_prediction::TokenPrediction,
    }
}

/// Passes and columns that an objective requires. The plan checks them against the views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Requirements {
    /// Required passes.
    pub passes: Vec<Pass>,
    /// Required columns, with the view that must contain them.
    pub columns: Vec<(String, ColumnSpec)>,
}

impl Requirements {
    /// Returns the pass of the main network over a view, and one of its columns.
    #[must_use]
    pub(crate) fn of_view(view: &str, column: ColumnSpec) -> Self {
        Self::of_layer(view, None, column)
    }

    /// Returns the pass of the first `layer` layers of the main network over a view, and one of its columns.
    #[must_use]
    pub(crate) fn of_layer(view: &str, layer: Option<u32>, column: ColumnSpec) -> Self {
        Self { passes: vec![Pass::to_layer(MAIN, view, layer)], columns: vec![(view.to_owned(), column)] }
    }
}

/// Configured objective. The struct is its configuration; `Default` is the usual choice.
pub trait Objective: Send + Sync {
    /// Returns the required passes and columns.
    fn reads(&self) -> Requirements;

    /// Returns one message per invalid value.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Returns the problem of its ids in a vocabulary of that size, if any.
    fn vocab_problem(&self, _vocab_size: u32) -> Option<String> {
        None
    }

    /// Returns the reason why it cannot read a network of the plan, if any. `network` is `None` for the main network.
    fn refusal(&self, _name: &str, network: Option<&dyn Network>) -> Option<String> {
        network.map(|_| "it reads the main network only".to_owned())
    }

    /// Returns the positions at which it scores the whole vocabulary, for the estimate of operations.
    fn scores(&self) -> Option<Scores> {
        None
    }

    /// Returns the number of candidates per token of its first pass, for the estimate of memory.
    fn compares(&self) -> f64 {
        0.0
    }

    /// Returns whether it multiplies or compares hidden states with the word table, so that their widths must be equal.
    fn uses_word_table(&self) -> bool {
        false
    }

    /// Returns two views whose columns must be the same tokens. The plan checks that they have the same frame.
    fn aligned(&self) -> Option<[String; 2]> {
        None
    }

    /// Returns a window view and its required maximum offset. The plan checks it.
    fn window_reach(&self) -> Option<(String, u16)> {
        None
    }

    /// Returns keys of its configuration that have no effect with their values, and that earlier versions did not have.
    /// They are not part of the run's identity, so that runs of earlier versions continue.
    fn unused_keys(&self) -> Vec<&'static str> {
        Vec::new()
    }

    /// Returns the rows that are negatives of each other, if any. If they are those of a micro-batch, the loss depends
    /// on the micro-batch size: it is part of the run's identity and at least 2.
    fn contrasted_rows(&self) -> Option<RowSet> {
        None
    }

    /// Returns the reason why the first position must attend to its whole row, if it must: text after `NAME` in an
    /// error. With `encoder.attention_scope = "document"` it attends to the first document of the row only.
    fn needs_row_attention(&self) -> Option<&'static str> {
        None
    }

    /// Returns whether it compares hidden states so closely that rounding them to bfloat16 changes the loss.
    fn is_sensitive_to_rounding(&self) -> bool {
        false
    }

    /// Returns whether its head scores tokens as ELECTRA's discriminator does: high for replaced ones. Such heads can
    /// be imported from and exported to ELECTRA models.
    fn flags_replaced(&self) -> bool {
        false
    }

    /// Returns the number of outputs of its head if it predicts the targets of labelled examples: per row, or per
    /// token. Such heads can be imported from and exported to models for fine-tuned tasks, and a run may start from a
    /// model whose head has another number of outputs.
    fn label_outputs(&self) -> Option<u32> {
        None
    }

    /// Returns the activation of its head over the first position, if it has such a head for labelled examples.
    fn row_activation(&self) -> Option<Activation> {
        None
    }

    /// Returns the form of its head that predicts tokens from hidden states of the main network, if it has one.
    fn token_head_form(&self) -> Option<TokenHeadForm> {
        None
    }

    /// Returns whether its head continues a head of `train.init_from` that predicts tokens. Without such a head, a run
    /// with `train.init_from` is refused.
    fn continues_token_head(&self) -> bool {
        false
    }

    /// Returns the objective of the run in `train.init_from` whose head is continued; `None`: the one with the same
    /// name.
    fn init_head(&self) -> Option<&str> {
        None
    }

    /// Returns the expected first values of its terms with random weights, as far as they are known.
    fn expected_start(&self, _facts: StartFacts) -> Vec<Expectation> {
        Vec::new()
    }

    /// Declares the head's weights below `head` (`heads.NAME`).
    fn declare(&self, _context: &HeadContext<'_>, _head: &mut WeightPath<'_>) {}
}

/// Usable temperatures in float32. Below, the rounding of a cosine decides; above, all candidates have equal scores.
const TEMPERATURES: std::ops::RangeInclusive<f64> = 1e-6..=1e4;

/// Returns the problem of a contrast's temperature, if any. `usual` names the usual value.
fn temperature_problem(temperature: f64, usual: &str) -> Option<String> {
    let low = TEMPERATURES.start();
    let high = TEMPERATURES.end();
    (!TEMPERATURES.contains(&temperature))
        .then(|| format!("`temperature` is {temperature:e}; write a value between {low:e} and {high:e}, {usual}"))
}

/// Assumed fraction of masked positions for the estimate of operations.
pub(crate) const SCORED: f64 = 0.15;

/// Scores over the vocabulary that an objective needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// Fraction of the positions of its first pass.
    pub share: f64,
    /// Whether a dense layer comes before the word table.
    pub transformed: bool,
}

/// Sizes that determine the weights of a head.
#[derive(Clone, Copy, Debug)]
pub struct HeadContext<'a> {
    /// Shape of the main network.
    pub encoder: &'a EncoderConfig,
    /// Vocabulary size.
    pub vocab_size: u32,
}

/// Rows that an objective contrasts with each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowSet {
    /// Those of a micro-batch, as in the released code.
    #[default]
    MicroBatch,
    /// Those of all micro-batches of a step, on all ranks.
    GlobalBatch,
}

impl RowSet {
    /// Name for messages.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::MicroBatch => "micro-batch",
            Self::GlobalBatch => "global batch",
        }
    }
}

/// Reduction of a sum over tokens to a loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reduction {
    /// Mean over all tokens that the loss selects.
    #[default]
    Tokens,
    /// Mean over sequences (rows) of each sequence's own mean. Rows without a selected token do not count.
    Sequences,
}

/// Denominators of the loss of a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// One count over the whole step, so that all positions have equal weight.
    #[default]
    Step,
    /// Count of each micro-batch, then the mean over micro-batches, as in the released code.
    MicroBatch,
}
