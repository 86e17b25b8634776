//! Masks of a row at a given distance, and the additive law of their covariance.

use crate::random::Dice;

/// Numbers of masks: tokens of a row, masked tokens, and the measured distances.
#[derive(Clone, Debug)]
pub(super) struct MaskPlan {
    pub(super) tokens: usize,
    pub(super) masked: usize,
    pub(super) distances: Vec<usize>,
}

/// Returns a mask of the distance `2 · moves` from `mask`: `moves` of its positions are exchanged for others.
pub(super) fn moved(mask: &[usize], tokens: usize, moves: usize, dice: &mut Dice) -> Vec<usize> {
    let kept = dice.subset(mask.len(), mask.len() - moves);
    let outside: Vec<usize> = (0..tokens).filter(|at| !mask.contains(at)).collect();
    let added = dice.subset(outside.len(), moves);
    kept.into_iter().map(|at| mask[at]).chain(added.into_iter().map(|at| outside[at])).collect()
}

/// Returns `Cov(H)/V_m` of the additive law.
pub(super) fn additive_covariance(plan: &MaskPlan, distance: usize) -> f64 {
    let masked = plan.masked as f64;
    let expected = masked * masked / plan.tokens as f64;
    (masked - distance as f64 / 2.0 - expected) / (masked - expected)
}

/// Returns the mean covariance of two independent masks, whose overlap has a hypergeometric distribution.
pub(super) fn hypergeometric_mean(plan: &MaskPlan, covariances: &[f64]) -> f64 {
    let MaskPlan { tokens, masked, distances } = plan;
    let ln_choose = |from: usize, count: usize| {
        (0..count).map(|at| ((from - at) as f64).ln() - ((at + 1) as f64).ln()).sum::<f64>()
    };
    let all = ln_choose(*tokens, *masked);
    // Overlaps below 2τ − n are impossible; `mask_plan` has excluded them.
    let weight =
        |overlap: usize| (ln_choose(*masked, overlap) + ln_choose(tokens - masked, masked - overlap) - all).exp();
    let at = |distance: usize| {
        let next = distances.partition_point(|&known| known < distance).clamp(1, distances.len() - 1);
        let [low, high] = [distances[next - 1], distances[next]];
        let share = (distance as f64 - low as f64) / (high as f64 - low as f64);
        covariances[next - 1] * (1.0 - share) + covariances[next] * share
    };
    (0..=*masked).map(|overlap| weight(overlap) * at(2 * (masked - overlap))).sum()
}
