//! Objectives: the tasks that a model is trained on, as they are configured. One file each, one line in the table below.
//!
//! An objective is a list of **terms**; a term is a sum over its own positions, and how many they are is known on the
//! host before any kernel runs. The loss of a step is `Σ_objective w · Σ_term λ · S / N`, where `N` adds the term's
//! counts over all micro-batches of the step, and a term with `N = 0` is 0. The engine's file of the same name computes
//! the sums.

use schemars::JsonSchema;
use schemas::ColumnSpec;
use serde::{Deserialize, Serialize};

use crate::encoder::EncoderConfig;
use crate::networks::Network;
use crate::pass::Pass;
use crate::weights::WeightPath;

mod expectation;

pub use self::expectation::{Expectation, StartFacts};

schemas::registry! {
    /// Every objective that a model can be trained on.
    pub enum AnyObjective: Objective {
        corrective_lm::CorrectiveLm,
        masked_lm::MaskedLm,
        next_sentence::NextSentence,
        replaced_token::ReplacedToken,
        sequence_contrastive::SequenceContrastive,
        teacher_contrastive::TeacherContrastive,
        token_contrastive::TokenContrastive,
        token_prediction::TokenPrediction,
    }
}

/// Passes and columns that an objective needs of a run; the plan checks it against the views.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    /// Passes whose `Encoded` it asks for.
    pub passes: Vec<Pass>,
    /// Columns, with the view that must make them.
    pub columns: Vec<(String, ColumnSpec)>,
}

/// An objective as configured. The struct is its configuration; its `Default` is the usual choice.
pub trait Objective: Send + Sync {
    /// Passes and columns.
    fn reads(&self) -> Reads;

    /// Values that cannot be trained with, each as one message; the plan reports them with the others.
    fn problems(&self) -> Vec<String> {
        Vec::new()
    }

    /// Why it cannot read a network of the plan; `None` if it can. `None` for `network` is the main one.
    fn refuses(&self, _name: &str, network: Option<&dyn Network>) -> Option<String> {
        network.map(|_| "it reads the main network only".to_owned())
    }

    /// Where it scores the whole vocabulary, for the count of operations; `None` if nowhere.
    fn scores(&self) -> Option<Scores> {
        None
    }

    /// How many others it compares each token of its first pass with, for the count of memory.
    fn compares(&self) -> f64 {
        0.0
    }

    /// Whether it multiplies hidden states with the word table or compares the two: they must be of one width.
    fn meets_word_table(&self) -> bool {
        false
    }

    /// Two views whose columns it takes for the same tokens: the plan checks that they are of one frame.
    fn aligned(&self) -> Option<[String; 2]> {
        None
    }

    /// A window view and how far it is taken to reach: the plan checks that it does.
    fn reach(&self) -> Option<(String, u16)> {
        None
    }

    /// Whether rows of a micro-batch serve as each other's negatives: then a batch is not the sum of its halves, at
    /// least two rows are needed, and the micro-batch size belongs to the run's identity.
    fn batch_coupled(&self) -> bool {
        false
    }

    /// Whether its head scores tokens as ELECTRA's discriminator does: high where one was replaced. Models of others
    /// then fit it, and it fits them.
    fn flags_replaced(&self) -> bool {
        false
    }

    /// What its terms begin with where all weights are drawn, as far as there is a law.
    fn expected_start(&self, _facts: StartFacts) -> Vec<Expectation> {
        Vec::new()
    }

    /// Declares the head's weights below `head` (`heads.NAME`).
    fn declare(&self, _context: &HeadContext<'_>, _head: &mut WeightPath<'_>) {}
}

/// Temperatures that leave a contrast something to say in float32: below, one step of rounding of a cosine decides; above,
/// all candidates are alike.
const TEMPERATURES: std::ops::RangeInclusive<f64> = 1e-6..=1e4;

/// What is wrong with a contrast's temperature; `usual` says what it is otherwise.
fn temperature_problem(temperature: f64, usual: &str) -> Option<String> {
    let (low, high) = (TEMPERATURES.start(), TEMPERATURES.end());
    (!TEMPERATURES.contains(&temperature)).then(|| {
        format!("`temperature` is {temperature:e}: it divides, and must be between {low:e} and {high:e}; {usual}")
    })
}

/// The share of positions that a mask is taken to choose where operations are counted.
pub(crate) const SCORED: f64 = 0.15;

/// Scores over the vocabulary that an objective needs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scores {
    /// The share of the positions of its first pass.
    pub share: f64,
    /// Whether a dense layer comes before the word table.
    pub transformed: bool,
}

/// The sizes from which a head's weights follow.
#[derive(Clone, Copy, Debug)]
pub struct HeadContext<'a> {
    /// The shape of the main network.
    pub encoder: &'a EncoderConfig,
    /// Ids of the vocabulary.
    pub vocab_size: u32,
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

/// The denominators of a step's loss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Normalize {
    /// One count over the whole step: every position weighs the same.
    #[default]
    Step,
    /// Each micro-batch by its own count, then the mean over micro-batches, as the released codes do.
    MicroBatch,
}
