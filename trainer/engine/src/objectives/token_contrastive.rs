//! Token-alignment contrast (TACO).
//!
//! # What
//! Pulls the contextual part of a position's vector towards that of a neighbour, and away from those of positions of
//! other rows.
//!
//! # Why
//! Neighbouring tokens share a context. A model that is trained on their agreement learns to use context much earlier
//! than with masked language modelling alone.
//!
//! # Definition
//! With `g = h − e` (last layer minus the embedding block of the same pass), anchor `i`, its positive `c` and negatives
//! `n₁ … n_K` of other rows of the micro-batch:
//!
//! ```text
//! s₀ = cos(g_i, g_c) / τ      s_k = cos(g_i, g_{n_k}) / τ      loss_i = ln Σ_k exp(s_k) − s₀
//! ```
//!
//! The anchor has gradients in `h` and in `e`; candidates are constants unless `detach = false`. Analytically,
//! `∂loss/∂s_k = p_k − [k = 0]` with `p = softmax(s)`, so `∂loss/∂u = Σ_k (p_k − [k = 0]) v_k / τ` for unit vectors
//! `u`, `v`. That gradient is computed together with the value and passed to autograd at `u`. So no graph spans the `n
//! · K · d` floats of the candidates, and they are never copied. In addition to a few `[b · t, d]` tensors, the memory
//! is about 50 bytes for each of the `n · K` pairs, all released before the backward pass.
//!
//! Negatives are drawn on the device with replacement, separately for each anchor unless `shared_negatives`. A draw
//! takes a row uniformly among the other rows, then a real column of it uniformly. The negatives come from the rows of
//! the micro-batch, so the micro-batch size changes the objective.
//!
//! # Columns
//! `positives` of the window view; `attention_mask`, `labels` and `document` of the view if an option needs them.
//!
//! # Reference
//! Fu, Zhou, Zhang, Zhou & Huang 2022, "Contextual Representation Learning beyond Masked Language Modeling", equations
//! 4–8; released code `FUZHIYI/TACO`. Equation 6 omits the exponential inside the logarithm; the code has it.
//!
//! Axes: `b` rows, `t` positions, `m` = b · t, `n` anchors, `k` negatives of each, `d` hidden.

mod bags;
mod pairs;

use std::rc::Rc;

use schemas::SpecialIds;
use schemas::columns::DOCUMENT;
use tch::{Kind, Tensor};
use trainer_plan::networks::MAIN;
use trainer_plan::objectives::token_contrastive::{Static, TokenContrastive};

use self::pairs::AnchorPairs;
pub(crate) use self::pairs::Candidates;
use super::{Build, Loss, Metric, ObjectiveOutput, Term};
use crate::model::forward::Forward;
use crate::model::host_batch::HostBatch;
use crate::model::networks::built::Networks;
use crate::model::parameters::Path;
use crate::model::staging_buffer::Staging;
use crate::model::upload::send_column;
use crate::objectives::similarity::unit;

/// Result of [`loss`]: scalars on the device.
#[derive(Debug)]
pub(crate) struct Contrast {
    /// Weighted sum of the anchors' losses in nats, with gradient.
    pub sum: Tensor,
    /// Mean cosine of anchors with their positives; 0 without anchors.
    pub positive: Tensor,
    /// Mean cosine of anchors with the negatives that are not excluded.
    pub negative: Tensor,
    /// Number of anchors that are nearer to their positive than to any of those negatives, int64.
    pub hits: Tensor,
}

/// Computes the loss for hidden states and static vectors `[b, t, d]`, in their float type.
///
/// The value and the first gradient are exact; a second derivative is not available.
#[must_use]
pub(crate) fn loss(
    hidden_btd: &Tensor,
    static_btd: &Tensor,
    candidates: Candidates<'_>,
    temperature: f64,
    detach: bool,
) -> Contrast {
    let width = hidden_btd.size()[2];
    let unit_md = unit(&(hidden_btd - static_btd).reshape([-1, width]));
    let (contrast, grad_md) = value_and_grad(&unit_md.detach(), candidates, temperature, detach);
    // The carrier's value cancels to 0 below. Its gradient with respect to `unit_md` is `grad_md`.
    let carrier = (&unit_md * grad_md).sum(unit_md.kind());
    Contrast { sum: contrast.sum + (&carrier - carrier.detach()), ..contrast }
}

/// Computes the contrast of constant unit vectors `[m, d]`, and the gradient of its sum with respect to each of them.
fn value_and_grad(unit_md: &Tensor, candidates: Candidates<'_>, temperature: f64, detach: bool) -> (Contrast, Tensor) {
    let Candidates { anchors_n, positives_n, negatives_nk, excluded_nk, weights_n } = candidates;
    let kind = unit_md.kind();
    let mut grad_md = unit_md.zeros_like();
    if negatives_nk.numel() == 0 {
        // Without negatives the softmax covers the positive alone, and the loss is 0.
        let zero = || unit_md.narrow(0, 0, 0).sum(kind);
        let hits = anchors_n.narrow(0, 0, 0).sum(Kind::Int64);
        return (Contrast { sum: zero(), positive: zero(), negative: zero(), hits }, grad_md);
    }
    let anchor_nd = unit_md.index_select(0, anchors_n);
    let candidate_nd = unit_md.index_select(0, positives_n);
    let positive_n = (&anchor_nd * &candidate_nd).sum_dim_intlist(-1, false, kind);
    let negative_nk = bags::dots(&anchor_nd, unit_md, negatives_nk);

    let logits_nc = Tensor::cat(&[positive_n.unsqueeze(1), excluding(&negative_nk, excluded_nk)], 1) / temperature;
    let each_n = logits_nc.logsumexp([1], false) - logits_nc.select(1, 0);
    let nearest_n = logits_nc.slice(1, 1, None, 1).amax([1], false);
    let hits = logits_nc.select(1, 0).gt_tensor(&nearest_n).sum(Kind::Int64);
    let mut grad_nc = logits_nc.softmax(-1, kind) / temperature;
    let _ = grad_nc.select(1, 0).g_sub_scalar_(1.0 / temperature);
    if let Some(weights_n) = weights_n {
        grad_nc *= weights_n.unsqueeze(1);
    }
    let grad_n1 = grad_nc.narrow(1, 0, 1);
    let grad_nk = grad_nc.narrow(1, 1, negatives_nk.size()[1]);

    let pull_nd = &grad_n1 * candidate_nd + bags::weighted_sums(&grad_nk, negatives_nk, unit_md);
    let _ = grad_md.index_add_(0, anchors_n, &pull_nd);
    if !detach {
        let _ = grad_md.index_add_(0, positives_n, &(&grad_n1 * &anchor_nd));
        grad_md += bags::scattered_sums(&grad_nk, negatives_nk, &anchor_nd, unit_md.size()[0]);
    }
    let sum = weights_n.map_or_else(|| each_n.sum(kind), |weights_n| each_n.dot(weights_n));
    let positive = positive_n.mean(kind);
    let negative = mean_of_counted(&negative_nk, excluded_nk);
    (Contrast { sum, positive, negative, hits }, grad_md)
}

fn excluding(negative_nk: &Tensor, excluded_nk: Option<&Tensor>) -> Tensor {
    excluded_nk.map_or_else(
        || negative_nk.shallow_clone(),
        |excluded_nk| negative_nk.masked_fill(excluded_nk, f64::NEG_INFINITY),
    )
}

fn mean_of_counted(negative_nk: &Tensor, excluded_nk: Option<&Tensor>) -> Tensor {
    let kind = negative_nk.kind();
    match excluded_nk {
        None => negative_nk.mean(kind),
        Some(excluded_nk) => {
            let counted = excluded_nk.logical_not().sum(kind).clamp_min(1.0);
            negative_nk.masked_fill(excluded_nk, 0.0).sum(kind) / counted
        }
    }
}

impl Build for TokenContrastive {
    fn build(&self, name: &str, _head: &Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        Box::new(TokenContrastiveLoss { name: name.to_owned(), config: self.clone(), special: networks.special() })
    }
}

struct TokenContrastiveLoss {
    name: String,
    config: TokenContrastive,
    special: SpecialIds,
}

impl TokenContrastiveLoss {
    fn anchored(&self, batch: &HostBatch<'_>) -> Rc<AnchorPairs> {
        batch.cached(&self.name, || AnchorPairs::new(batch, &self.config, self.special))
    }

    fn static_btd(&self, forward: &Forward<'_>) -> Tensor {
        let view = &self.config.view;
        let uploaded = forward.view(view);
        let rows = |ids_bt: &Tensor| {
            Tensor::embedding(&forward.networks().word_table(MAIN).use_leaf_f32(), ids_bt, -1, false, false)
        };
        match self.config.subtracted_embedding {
            Static::EmbedBlock => forward.encoded(MAIN, view).embeddings_btd(),
            Static::Word => rows(&uploaded.ids_bt),
            Static::WordOriginal => rows(&uploaded.originals_bt()),
        }
    }
}

impl Loss for TokenContrastiveLoss {
    fn terms(&self, batch: &HostBatch<'_>) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: self.anchored(batch).count() }]
    }

    fn send(&self, batch: &HostBatch<'_>, staging: &mut Staging) {
        self.anchored(batch).send(&self.name, staging);
        if self.config.exclude_same_document {
            send_column(batch, &self.config.view, DOCUMENT, staging);
        }
    }

    fn compute(&self, forward: &Forward<'_>) -> ObjectiveOutput {
        let config = &self.config;
        let anchored = self.anchored(forward.batch());
        let drawn = anchored.draw(forward, config, &self.name);
        let hidden_btd = &forward.encoded(MAIN, &config.view).hidden_btd;
        let contrast =
            loss(hidden_btd, &self.static_btd(forward), drawn.candidates(), config.temperature, config.detach);
        let share = anchored.len() as f64;
        let metrics = vec![
            Metric::mean("positive_cosine", &contrast.positive, share),
            Metric::mean("negative_cosine", &contrast.negative, share),
            Metric::new("accuracy", contrast.hits, share),
        ];
        ObjectiveOutput { sums: vec![contrast.sum], metrics }
    }
}

#[cfg(test)]
mod tests;
