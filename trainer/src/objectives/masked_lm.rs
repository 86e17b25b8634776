//! Masked language modelling.
//!
//! # What
//! Predicts the original ids at the positions that a mask chose.
//!
//! # Why
//! The baseline of every method here, and the yardstick `valid/mlm`.
//!
//! # Definition
//! `S = Σ_{i ∈ M} CE(logits_i, original_i)`, `CE(l, y) = ln Σ_v exp(l_v) − l_y`,
//! `logits = LN(gelu(h Wᵀ + b)) Eᵀ + c`: `E` is the word table, tied, and `c` one free number per id. The rows of `M`
//! are gathered before the head, which then costs `|M|` rows of the vocabulary and not all positions. An empty `M`
//! gives 0 and gradients of 0.
//!
//! # Columns
//! `labels` of the view.
//!
//! # Reference
//! Devlin et al. 2019, section 3.1; `BertForMaskedLM` of Hugging Face, equal in value and gradient though that one
//! projects all positions and ignores the rest.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `n` predicted positions, `v` ids.

use schemars::JsonSchema;
use schemas::columns::LABELS;
use serde::{Deserialize, Serialize};
use tch::{Kind, Tensor};

use super::{Computed, Loss, Metric, Objective, Reads, SCORED, Scores, Term};
use crate::model::forward::{Forward, Pass};
use crate::model::freight::Freight;
use crate::model::head_weights::TokenHeadWeights;
use crate::model::heads::TokenHead;
use crate::model::host_batch::HostBatch;
use crate::model::networks::MAIN;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::scored::Scored;
use crate::objectives::Network;
use crate::objectives::expectation::{Expectation, StartFacts};

/// What usually makes a first value other than `ln V`.
pub(super) const GUESSING: &str = "all ids score alike at first, which costs ln V; usually the word table is not tied to \
    the head or not drawn as small numbers, or the data have another vocabulary";

/// Predicts the original ids at the positions that a mask chose. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct MaskedLm {
    /// The masked view.
    pub view: String,
    /// Whose loss: the main network's, or a generator's, which has a head of its own.
    pub network: String,
    /// Whether the decoder is the word table. Otherwise it is a matrix of its own (TACO, table 10).
    pub tied: bool,
    /// What weighs the same.
    pub weigh: Weigh,
}

impl Default for MaskedLm {
    fn default() -> Self {
        Self { view: "masked".to_owned(), network: MAIN.to_owned(), tied: true, weigh: Weigh::Tokens }
    }
}

/// The name of what is sent of weights.
const ROW_WEIGHTS: &str = "row_weights";

/// What weighs the same in the mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Weigh {
    /// Every predicted token. For fully-explored masks that is equation 4 of the paper, up to a constant of the batch.
    Tokens,
    /// Every row that has any: the mean over rows of the row's own mean.
    Rows,
}

impl Weigh {
    /// What the sum over the predicted tokens of a view is divided by.
    pub(super) fn count(self, batch: &HostBatch<'_>, view: &str) -> f64 {
        let count = match self {
            Self::Tokens => batch.predicted(view),
            Self::Rows => batch.predicted_per_row(view).count(),
        };
        count as f64
    }

    /// Packs what the loss of each predicted token is multiplied by, where that is not 1.
    #[expect(clippy::cast_possible_truncation, reason = "a share of one, as its loss has it")]
    pub(super) fn send(self, batch: &HostBatch<'_>, view: &str, freight: &mut Freight) {
        if self == Self::Rows {
            let each = |count: usize| std::iter::repeat_n((1.0 / count as f64) as f32, count);
            let weights: Vec<f32> = batch.predicted_per_row(view).flat_map(each).collect();
            freight.add_list(view, ROW_WEIGHTS, &weights);
        }
    }

    /// What was packed, `[n]`, float32; `None` for 1.
    pub(super) fn weights(self, forward: &Forward<'_>, view: &str) -> Option<Tensor> {
        (self == Self::Rows).then(|| forward.sent(view, ROW_WEIGHTS))
    }
}

/// What [`loss`] gives.
#[derive(Debug)]
pub(crate) struct Prediction {
    /// Sum of the cross-entropies in nats, scalar.
    pub sum: Tensor,
    /// How many targets score highest, scalar int64, without gradient.
    pub hits: Tensor,
}

/// The loss over flat positions `row · t + column`, which may repeat, of hidden states `[b, t, d]`.
///
/// `positions_n` and `targets_n` are int64, `weights_n` is what each loss is multiplied by, `None` for 1. The float type
/// is that of `hidden_btd`.
#[must_use]
pub(crate) fn loss(
    hidden_btd: &Tensor,
    head: &TokenHead,
    positions_n: &Tensor,
    targets_n: &Tensor,
    weights_n: Option<&Tensor>,
) -> Prediction {
    let scored = head.score(&Forward::gather(hidden_btd, positions_n), targets_n, |_| {});
    of_scored(&scored, targets_n, weights_n)
}

/// The same of what is known of the scores.
#[must_use]
pub(crate) fn of_scored(scored: &Scored, targets_n: &Tensor, weights_n: Option<&Tensor>) -> Prediction {
    let sum = match weights_n {
        None => scored.surprise_n.sum(scored.surprise_n.kind()),
        Some(weights_n) => scored.surprise_n.dot(weights_n),
    };
    Prediction { sum, hits: scored.best_id_n.eq_tensor(targets_n).sum(Kind::Int64) }
}

impl Objective for MaskedLm {
    fn reads(&self) -> Reads {
        Reads { passes: vec![Pass::new(&self.network, &self.view)], columns: vec![(self.view.clone(), LABELS.spec())] }
    }

    fn problems(&self) -> Vec<String> {
        let untied = !self.tied && self.network != MAIN;
        let message = "`tied = false` is for the main network; a generator's head is always tied".to_owned();
        untied.then_some(message).into_iter().collect()
    }

    fn refuses(&self, name: &str, network: Option<&dyn Network>) -> Option<String> {
        let predicts = network.is_none_or(Network::predicts_tokens);
        (!predicts).then(|| format!("network `{name}` has no head that predicts tokens; a `generator` that learns has"))
    }

    fn scores(&self) -> Option<Scores> {
        Some(Scores { share: SCORED, transformed: true })
    }

    fn expected_start(&self, facts: StartFacts) -> Vec<Expectation> {
        vec![Expectation::near("", facts.vocab_size.ln(), 0.05, GUESSING)]
    }

    fn build(&self, _name: &str, head: &mut Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        let own = (self.network == MAIN).then(|| {
            let words = self.tied.then(|| networks.word_table(MAIN));
            TokenHeadWeights::build(networks.config(), networks.vocab_ids(), words, head)
        });
        Box::new(Predicting { config: self.clone(), own })
    }
}

struct Predicting {
    config: MaskedLm,
    // None for a generator, which keeps its head itself.
    own: Option<TokenHeadWeights>,
}

impl Predicting {
    fn head(&self, networks: &Networks) -> TokenHead {
        let weights = self.own.as_ref().unwrap_or_else(|| networks.head(&self.config.network));
        weights.lend(networks.precision())
    }
}

impl Loss for Predicting {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: self.config.weigh.count(batch, &self.config.view) }]
    }

    fn send(&self, batch: &HostBatch<'_>, freight: &mut Freight) {
        self.config.weigh.send(batch, &self.config.view, freight);
    }

    fn compute(&self, forward: &Forward<'_>) -> Computed {
        let predicted = forward.predicted(&self.config.view);
        let hidden_btd = &forward.encoded(&self.config.network, &self.config.view).hidden_btd;
        let head = self.head(forward.networks());
        let weights_n = self.config.weigh.weights(forward, &self.config.view);
        let Prediction { sum, hits } = match forward.scored(&self.config.network, &self.config.view) {
            Some(scored) => of_scored(scored, &predicted.targets_n, weights_n.as_ref()),
            None => loss(hidden_btd, &head, &predicted.positions_n, &predicted.targets_n, weights_n.as_ref()),
        };
        Computed { sums: vec![sum], metrics: vec![Metric::of("accuracy", hits, predicted.count as f64)] }
    }

    fn token_head(&self, networks: &Networks) -> Option<TokenHead> {
        self.own.as_ref().map(|head| head.lend(networks.precision()))
    }
}
