//! Corrective language modelling (COCO-LM).
//!
//! # What
//! Reads a text in which an auxiliary model has replaced tokens. The model predicts for each token whether it is the
//! original, and restores the masked tokens.
//!
//! # Why
//! Detection alone never predicts *which* token is the original, so ELECTRA does not train a language model. If a plain
//! model restores all tokens, copying dominates the loss. A copy gate separates the copying.
//!
//! # Definition
//! With `z = w · h + b`, `p₁ = σ(z)`, `p₀ = 1 − p₁`, `q = softmax(h Eᵀ + c)` (the tied table and a bias, no transform),
//! `x` the input ids, `y` the originals and `P` the predicted positions:
//!
//! ```text
//! S_copy = Σ_{i valid} BCE(z_i, [x_i = y_i])
//! S_lm   = Σ_{i ∈ P} −ln( [x_i = y_i] p₁ + p₀ q_i(y_i) )      mixture
//!          Σ_{i ∈ P} −p₀ ln q_i(y_i)                          weighted_ce
//!          Σ_{i ∈ P} −ln q_i(y_i)                             softmax_only
//! ```
//!
//! The mixture is summed in log space, where `ln p₁` and `ln p₀` are `−softplus(∓z)`: in probability space it
//! underflows for large `|z|`. With `stop_grad` the gates of `S_lm` are constants: it trains `E`, `c` and the encoder
//! through `q` alone. Only positions of `P` are projected to the vocabulary.
//!
//! # Columns
//! `input_ids`, `labels` and `attention_mask` of the view that the auxiliary model makes.
//!
//! # Reference
//! Meng et al. 2021, "COCO-LM: Correcting and Contrasting Text Sequences for Language Model Pretraining", section 3.2
//! and table 3; `weighted_ce` is the form of the released code's skeleton.
//!
//! Axes: `b` rows, `t` positions, `d` hidden, `n` predicted positions, `v` ids.

use tch::{Kind, Tensor};
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::corrective_lm::{CorrectiveLm, CorrectiveReduction, LmForm, Scope};
use trainer_plan::objectives::replaced_token::{DetectionForm, LabelOne};

use super::replaced_token::{self, Detection};
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::device::precision::Precision;
use crate::model::chunked_cross_entropy::{CrossEntropyOutput, joined};
use crate::model::forward::Forward;
use crate::model::head_weights::DecoderWeights;
use crate::model::heads::{Decoder, TokenHead};
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;

/// Array name of the positions of real tokens.
const VALID_POSITIONS: &str = "valid_positions";

/// Weights of both heads.
#[derive(Debug)]
pub(crate) struct CorrectionHead {
    /// `w` and `b`.
    pub copy: replaced_token::DetectionHead,
    /// `E` and `c`.
    pub decoder: Decoder,
}

/// Tokens to restore, int64, `[n]` each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RestoreTargets<'a> {
    /// Flat positions `row · t + column`: the masked ones, or all valid ones.
    pub positions_n: &'a Tensor,
    /// Input id at each position.
    pub fed_n: &'a Tensor,
    /// Original id at each position.
    pub targets_n: &'a Tensor,
}

/// Result of [`loss`]: scalars on the device, counts as int64.
#[derive(Debug)]
pub(crate) struct Correction {
    /// Copy loss, label 1 = original, summed over valid positions, with the counts of correct predictions.
    pub copy: Detection,
    /// Sum of the language model's losses in nats, with gradient.
    pub lm_sum: Tensor,
    /// Number of predicted positions with a replacement.
    pub replaced: Tensor,
    /// Number of predicted positions with the original.
    pub original: Tensor,
    /// Number of replacements whose original is the most probable id of the mixture.
    pub replaced_hits: Tensor,
    /// Number of originals that are the most probable id of the mixture.
    pub original_hits: Tensor,
}

/// Computes both losses for hidden states `[b, t, d]`.
///
/// `replaced_bt` (input and original ids differ) and `valid_bt` are boolean. Without `valid_bt` all positions are
/// valid.
#[must_use]
pub(crate) fn loss(
    hidden_btd: &Tensor,
    head: &CorrectionHead,
    replaced_bt: &Tensor,
    valid_bt: Option<&Tensor>,
    predicted: RestoreTargets<'_>,
    form: LmForm,
    stop_grad: bool,
) -> Correction {
    let RestoreTargets { positions_n, fed_n, targets_n } = predicted;
    let logits_bt = head.copy.logits(hidden_btd);
    let copy = replaced_token::of_logits(&logits_bt, replaced_bt, valid_bt, LabelOne::IsOriginal);
    let gate_n = logits_bt.reshape([-1]).index_select(0, positions_n);
    let mut fed = Vec::new();
    let mut target = Vec::new();
    let scored = head.decoder.score(&Forward::gather(hidden_btd, positions_n), targets_n, |block| {
        fed.push(block.at(fed_n));
        target.push(block.at(targets_n));
    });
    let original_n = fed_n.eq_tensor(targets_n);
    let lm_gate_n = if stop_grad { gate_n.detach() } else { gate_n.shallow_clone() };
    let lm_sum = each(&lm_gate_n, &scored.nll_n, &original_n, form).sum(gate_n.kind());
    let whole = |parts| joined(parts).unwrap_or_else(|| gate_n.detach());
    let logits = PairOfLogits { fed_n: whole(fed), target_n: whole(target) };
    let hit_n = hits(&gate_n.detach(), &scored, &logits, predicted);
    let count = |flags_n: &Tensor| flags_n.sum(Kind::Int64);
    Correction {
        copy,
        lm_sum,
        replaced: count(&original_n.logical_not()),
        original: count(&original_n),
        replaced_hits: count(&hit_n.logical_and(&original_n.logical_not())),
        original_hits: count(&hit_n.logical_and(&original_n)),
    }
}

/// Computes the language model's loss at each position from `z` and `−ln q(y)`.
fn each(gate_n: &Tensor, nll_n: &Tensor, original_n: &Tensor, form: LmForm) -> Tensor {
    match form {
        LmForm::SoftmaxOnly => nll_n.shallow_clone(),
        LmForm::WeightedCe => (-gate_n).sigmoid() * nll_n,
        LmForm::Mixture => {
            let restored_n = (-gate_n).log_sigmoid() - nll_n;
            let copied_or_restored_n = gate_n.log_sigmoid().logaddexp(&restored_n);
            -copied_or_restored_n.where_self(original_n, &restored_n)
        }
    }
}

/// Returns whether the original is the most probable id of the mixture `p₁ [v = x] + p₀ q(v)`, for any trained form.
///
/// The mixture is divided by `p₀`: then the input id gains `exp(z)` and all other ids keep `q`. The normaliser of `q`
/// comes from `−ln q(y)`.
fn hits(gate_n: &Tensor, scored: &CrossEntropyOutput, logits: &PairOfLogits, predicted: RestoreTargets<'_>) -> Tensor {
    let RestoreTargets { fed_n, targets_n, .. } = predicted;
    let all_n = scored.nll_n.detach() + &logits.target_n;
    let copying_wins_n = (gate_n + all_n).logaddexp(&logits.fed_n).ge_tensor(&scored.best_n);
    fed_n.where_self(&copying_wins_n, &scored.best_id_n).eq_tensor(targets_n)
}

/// Scores of the input ids and of the original ids, `[n]`, without gradient.
struct PairOfLogits {
    fed_n: Tensor,
    target_n: Tensor,
}

impl Build for CorrectiveLm {
    fn build(&self, _name: &str, head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        Box::new(CorrectiveLmLoss {
            config: self.clone(),
            copy: replaced_token::Weights::build(DetectionForm::Linear, &head.sub("copy"), networks),
            decoder: DecoderWeights::tied(networks.word_table(MAIN), &head.sub("lm")),
        })
    }
}

struct CorrectiveLmLoss {
    config: CorrectiveLm,
    copy: replaced_token::Weights,
    decoder: DecoderWeights,
}

impl CorrectiveLmLoss {
    fn head(&self, precision: Precision) -> CorrectionHead {
        CorrectionHead { copy: self.copy.leaves(precision), decoder: self.decoder.leaves(precision) }
    }

    /// Returns the number of positions that the language model predicts.
    fn predicted(&self, batch: &HostBatch<'_>) -> usize {
        match self.config.lm_scope {
            Scope::Masked => batch.predicted(&self.config.view),
            Scope::All => batch.valid(&self.config.view),
        }
    }
}

impl Loss for CorrectiveLmLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        let mut copy = batch.valid(&self.config.view) as f64;
        let mut lm = self.predicted(batch) as f64;
        if self.config.reduction == CorrectiveReduction::Sum {
            let all = batch.rows_with_tokens(&self.config.view).len() as f64;
            let rows = |count: f64| if count > 0.0 { all } else { 0.0 };
            (copy, lm) = (rows(copy), rows(lm));
        }
        vec![
            Term { name: "copy", weight: self.config.copy_weight, count: copy },
            Term { name: "lm", weight: 1.0, count: lm },
        ]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        if self.config.lm_scope == Scope::All {
            staging.add_list(&self.config.view, VALID_POSITIONS, &batch.valid_positions(&self.config.view));
        }
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let config = &self.config;
        let view = forward.view(&config.view);
        let hidden_btd = &forward.encoded(MAIN, &config.view).hidden_btd;
        let positions_n = match config.lm_scope {
            Scope::Masked => forward.predicted(&config.view).positions_n.shallow_clone(),
            Scope::All => forward.uploaded(&config.view, VALID_POSITIONS),
        };
        let at = |ids_bt: &Tensor| ids_bt.reshape([-1]).index_select(0, &positions_n);
        let originals_bt = view.originals_bt();
        let fed_n = at(&view.ids_bt);
        let targets_n = at(&originals_bt);
        let predicted = RestoreTargets { positions_n: &positions_n, fed_n: &fed_n, targets_n: &targets_n };
        let head = self.head(forward.networks().precision());
        let replaced_bt = view.ids_bt.ne_tensor(&originals_bt);
        let form = config.lm_form;
        let stop_grad = config.stop_grad;
        let found = loss(hidden_btd, &head, &replaced_bt, view.valid_bt.as_ref(), predicted, form, stop_grad);
        let mut metrics = found.copy.metrics("copy.gain", forward.batch().valid(&config.view) as f64);
        metrics.push(Metric::ratio("lm_accuracy_replaced", found.replaced_hits, found.replaced));
        metrics.push(Metric::ratio("lm_accuracy_original", found.original_hits, found.original));
        ObjectiveOutput { sums: vec![found.copy.sum, found.lm_sum], metrics }
    }

    fn token_head(&self, networks: &Networks) -> Option<TokenHead> {
        Some(TokenHead { transform: None, decoder: self.decoder.leaves(networks.precision()) })
    }
}

#[cfg(test)]
mod tests;
