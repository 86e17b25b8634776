//! Objectives: what a model is trained on. One file each, one line in the table below.
//!
//! An objective is a list of **terms**; a term is a sum over its own positions, and how many they are is known on the
//! host before any kernel runs. The loss of a step is `Σ_objective w · Σ_term λ · S / N`, where `N` adds the term's
//! counts over all micro-batches of the step, and a term with `N = 0` is 0 (`combine`).
//!
//! An objective file has two layers: a pure function on tensors, which `cloze parity` calls, and a thin `Loss` that
//! feeds it from a `Forward`, which training calls.

use schemas::ColumnSpec;
use tch::Tensor;

use crate::model::forward::{Forward, Pass};
use crate::model::freight::Freight;
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::networks::Network;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::objectives::expectation::{Expectation, StartFacts};

pub(crate) mod combine;
#[cfg(test)]
#[expect(clippy::disallowed_methods, reason = "what is tested is looked at")]
mod contract;
pub(crate) mod expectation;
pub(crate) mod figure;
pub(crate) mod similarity;

pub use self::combine::Normalize;

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

/// What an objective needs of a run; the plan checks it against the views.
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

    /// Makes the head's weights below `head` (`heads.NAME`) and what training calls. `name` is the objective's key in
    /// the config; draws are seeded with it.
    fn build(&self, name: &str, head: &mut Path<'_>, networks: &Networks) -> Box<dyn Loss>;
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
pub(crate) struct Scores {
    /// The share of the positions of its first pass.
    pub share: f64,
    /// Whether a dense layer comes before the word table.
    pub transformed: bool,
}

/// An objective with its weights.
pub(crate) trait Loss: Send {
    /// Names, inner weights and counts of this batch's terms. Host only; always the same names in the same order.
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term>;

    /// Packs what `compute` needs on the device beside the views of its passes.
    fn send(&self, _batch: &HostBatch<'_>, _freight: &mut Freight) {}

    /// The terms' sums and the metrics.
    fn compute(&self, forward: &Forward<'_>) -> Computed;

    /// The head that predicts tokens from hidden states of the main network, if the objective has one. `valid/mlm` and
    /// `cloze fill` use the first objective that has.
    fn token_head(&self, _networks: &Networks) -> Option<TokenHead> {
        None
    }
}

/// One summand of an objective.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Term {
    /// Its name within the objective; empty if there is only one.
    pub name: &'static str,
    /// Its weight within the objective.
    pub weight: f64,
    /// How many positions it adds up.
    pub count: f64,
}

/// What an objective makes of a micro-batch.
#[derive(Debug)]
pub(crate) struct Computed {
    /// float32 scalars on the device, one per [`Term`], in their order.
    pub sums: Vec<Tensor>,
    /// Numbers for people, without gradient.
    pub metrics: Vec<Metric>,
}

/// A ratio for reports, such as an accuracy. Both parts are added up between reports, then divided.
#[derive(Debug)]
pub(crate) struct Metric {
    /// Its name within the objective.
    pub name: &'static str,
    /// Scalar on the device.
    pub numerator: Tensor,
    /// What it is divided by.
    pub denominator: Denominator,
}

/// How many things a metric counts.
#[derive(Debug)]
pub(crate) enum Denominator {
    /// Known on the host.
    Host(f64),
    /// Scalar on the device, because it depends on what a generator sampled.
    Device(Tensor),
}

impl Metric {
    /// A ratio of a sum on the device to a number of the host.
    #[must_use]
    pub(crate) fn of(name: &'static str, numerator: Tensor, count: f64) -> Self {
        Self { name, numerator, denominator: Denominator::Host(count) }
    }

    /// A ratio of two numbers of the device.
    #[must_use]
    pub(crate) fn ratio(name: &'static str, numerator: Tensor, denominator: Tensor) -> Self {
        Self { name, numerator, denominator: Denominator::Device(denominator) }
    }

    /// A mean of the device over `count` things of the host.
    #[must_use]
    pub(crate) fn mean(name: &'static str, mean: &Tensor, count: f64) -> Self {
        Self::of(name, mean * count, count)
    }
}
