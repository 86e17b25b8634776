//! Token contrast: what a position takes from its context is close to a neighbour's, far from other rows'.
//!
//! Fu et al. 2022, TACO, equations 4-8. The loss is `trainer::objectives::token_contrastive`.

use schemars::JsonSchema;
use schemas::columns::{DOCUMENT, LABELS, POSITIVES};
use serde::{Deserialize, Serialize};

use super::{Expectation, Objective, Reads, Reduction, StartFacts, temperature_problem};
use crate::networks::MAIN;
use crate::pass::Pass;

/// Pulls what a position has learned from its context towards that of a neighbour, away from other rows. See the
/// [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with a name in the config")]
#[serde(default, deny_unknown_fields)]
pub struct TokenContrastive {
    /// The view that is encoded.
    pub view: String,
    /// The window view that names each anchor's positive.
    pub positives: String,
    /// Embedding that is subtracted from the last layer.
    pub subtracted_embedding: Static,
    /// Whether candidates are constants (the released code; better on masked language modelling than live ones).
    pub detach: bool,
    /// Positions that are anchors.
    pub anchors: Anchors,
    /// Whether frame and separator tokens are anchors too.
    pub specials: bool,
    /// Whether a negative may not come from the anchor's document.
    pub exclude_same_document: bool,
    /// Columns of the negatives in other rows.
    pub negative_columns: NegativeColumns,
    /// For `negative_columns = "matched"`: the window's `max_offset`.
    pub max_offset: u16,
    /// Negatives of each anchor, `K`.
    pub negatives: u16,
    /// Whether all anchors of a micro-batch share one draw of negatives: cheaper noise that is not averaged out. Each
    /// anchor still skips its own row.
    pub shared_negatives: bool,
    /// `τ`.
    pub temperature: f64,
    /// Reduction of the loss over anchors.
    pub reduction: Reduction,
}

impl Default for TokenContrastive {
    fn default() -> Self {
        Self {
            view: "masked".to_owned(),
            positives: "neighbors".to_owned(),
            subtracted_embedding: Static::EmbedBlock,
            detach: true,
            anchors: Anchors::All,
            specials: true,
            exclude_same_document: false,
            negative_columns: NegativeColumns::Uniform,
            max_offset: 2,
            negatives: 50,
            shared_negatives: false,
            temperature: 0.07,
            reduction: Reduction::Tokens,
        }
    }
}

/// The context-free vector that is subtracted from a hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Static {
    /// Output of the embedding block in the same pass, same dropout: the released code.
    EmbedBlock,
    /// The word's row of the table alone, of the id that is fed. Its scale at the start is far below that of `h`.
    Word,
    /// The same for the original id: the reading of the paper's equation 1.
    WordOriginal,
}

/// Which positions are anchors, among those that have a positive.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Anchors {
    /// All.
    All,
    /// Those that masked language modelling predicts ("concentrated" in the paper).
    Masked,
    /// The others.
    Unmasked,
}

/// Where in the other rows negatives lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NegativeColumns {
    /// Anywhere.
    Uniform,
    /// As far from the anchor's column as positives do: the control for what position alone explains.
    Matched,
}

impl Objective for TokenContrastive {
    fn reads(&self) -> Reads {
        let mut columns = vec![(self.positives.clone(), POSITIVES.spec())];
        if self.anchors != Anchors::All || self.subtracted_embedding == Static::WordOriginal {
            columns.push((self.view.clone(), LABELS.spec()));
        }
        if self.exclude_same_document {
            columns.push((self.view.clone(), DOCUMENT.spec()));
        }
        Reads { passes: vec![Pass::new(MAIN, &self.view)], columns }
    }

    fn compares(&self) -> f64 {
        f64::from(self.negatives) + 1.0
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.negatives == 0 {
            problems.push("`negatives` is 0: nothing would be learned; the paper uses 50".to_owned());
        }
        problems.extend(temperature_problem(self.temperature, "the paper uses 0.07"));
        if self.negative_columns == NegativeColumns::Matched && self.max_offset == 0 {
            problems.push("`max_offset` is 0: write the window's, 2 by default".to_owned());
        }
        problems
    }

    fn meets_word_table(&self) -> bool {
        self.subtracted_embedding != Static::EmbedBlock
    }

    fn aligned(&self) -> Option<[String; 2]> {
        Some([self.view.clone(), self.positives.clone()])
    }

    fn reach(&self) -> Option<(String, u16)> {
        (self.negative_columns == NegativeColumns::Matched).then(|| (self.positives.clone(), self.max_offset))
    }

    fn batch_coupled(&self) -> bool {
        true
    }

    fn expected_start(&self, facts: StartFacts) -> Vec<Expectation> {
        // Cosines of narrow vectors are far from alike by chance: half a nat at 512 numbers, one at 128, five at 32.
        let chance = match facts.hidden {
            ..128 => return Vec::new(),
            128..512 => 1.0,
            512.. => 0.0,
        };
        let guess = f64::from(self.negatives).ln_1p();
        let hint = "candidates that are not told apart cost ln(1 + K); usually the temperature is far from 0.07, which \
            magnifies chance, or negatives are drawn from the anchor's own row";
        vec![Expectation::between("", 0.3 * guess, 1.3 * guess + chance, hint)]
    }
}
