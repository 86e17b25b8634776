//! Token-alignment contrast (TACO).
//!
//! # What
//! Pulls what a position has learnt from its context towards that of a neighbour, and away from positions of other
//! rows.
//!
//! # Why
//! Neighbouring tokens share a context, so a model that is asked for agreement learns to use context long before
//! masked language modelling alone does.
//!
//! # Definition
//! With `g = h − e` (last layer minus the embedding block of the same pass), anchor `i`, its positive `c` and
//! negatives `n₁ … n_K` of other rows of the micro-batch:
//!
//! ```text
//! s₀ = cos(g_i, g_c) / τ      s_k = cos(g_i, g_{n_k}) / τ      loss_i = ln Σ_k exp(s_k) − s₀
//! ```
//!
//! The anchor's side is live in `h` and in `e`; candidates are constants unless `detach = false`. By hand,
//! `∂loss/∂s_k = p_k − [k = 0]` with `p = softmax(s)`, so `∂loss/∂u = Σ_k (p_k − [k = 0]) v_k / τ` for unit vectors
//! `u`, `v`. That gradient is made here together with the value and handed to autograd at `u`: no graph spans the
//! `n · K · d` floats of the candidates, and no copy of them is ever made. Beyond a few `[b · t, d]` tensors it
//! costs about 50 bytes for each of the `n · K` pairs, all released before the backward pass.
//!
//! Negatives are drawn on the device, afresh for each anchor, with replacement: a row uniformly among the other rows,
//! then a real column of it uniformly. Rows of the micro-batch are each other's negatives, so the micro-batch size
//! changes the objective.
//!
//! # Columns
//! `positives` of the window view; `attention_mask`, `labels` and `document` of the view where a switch needs them.
//!
//! # Reference
//! Fu, Zhou, Zhang, Zhou & Huang 2022, "Contextual Representation Learning beyond Masked Language Modeling",
//! equations 4–8; released code `FUZHIYI/TACO`, whose exponential inside the logarithm equation 6 leaves out.
//!
//! Axes: `b` rows, `t` positions, `m` = b · t, `n` anchors, `k` negatives of each, `d` hidden.

mod bags;
mod pairs;

use schemas::columns::{DOCUMENT, LABELS, POSITIVES};
use schemas::{Batch, SpecialIds};
use serde::{Deserialize, Serialize};
use tch::Tensor;

use self::pairs::Anchored;
use super::{Computed, Loss, Metric, Objective, Pass, Reads, Term};
use crate::forward::Forward;
use crate::networks::{MAIN, Networks};
use crate::parameters::Path;

/// See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[expect(clippy::struct_excessive_bools, reason = "independent switches, each with a name in the config")]
#[serde(default, deny_unknown_fields)]
pub struct TokenContrastive {
    /// The view that is encoded.
    pub view: String,
    /// The window view that names each anchor's positive.
    pub positives: String,
    /// What is subtracted from the last layer.
    pub e: Static,
    /// Whether candidates are constants (the released code; better on masked language modelling than live ones).
    pub detach: bool,
    /// Which positions are anchors.
    pub anchors: Anchors,
    /// Whether frame and separator tokens are anchors too.
    pub specials: bool,
    /// Whether a negative may not come from the anchor's document.
    pub avoid_same_doc: bool,
    /// Where in the other rows negatives lie.
    pub neg_cols: NegativeColumns,
    /// For `neg_cols = "matched"`: the window's `offset_max`.
    pub offset_max: u16,
    /// Negatives of each anchor, `K`.
    pub negatives: u16,
    /// `τ`.
    pub temperature: f64,
    /// Whether each row is averaged by itself before the rows are.
    pub per_sequence: bool,
}

impl Default for TokenContrastive {
    fn default() -> Self {
        Self {
            view: "masked".to_owned(),
            positives: "neighbors".to_owned(),
            e: Static::EmbedBlock,
            detach: true,
            anchors: Anchors::All,
            specials: true,
            avoid_same_doc: false,
            neg_cols: NegativeColumns::Uniform,
            offset_max: 2,
            negatives: 50,
            temperature: 0.07,
            per_sequence: false,
        }
    }
}

/// The context-free vector that is subtracted from a hidden state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NegativeColumns {
    /// Anywhere.
    Uniform,
    /// As far from the anchor's column as positives do: the control for what position alone explains.
    Matched,
}

/// Anchors and their candidates, as flat positions `row · t + column`, int64.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// The anchors, `[n]`.
    pub anchors_n: &'a Tensor,
    /// The positive of each, `[n]`.
    pub positives_n: &'a Tensor,
    /// The negatives of each, `[n, k]`.
    pub negatives_nk: &'a Tensor,
    /// True where a negative must not count, `[n, k]`; `None` where all count.
    pub excluded_nk: Option<&'a Tensor>,
    /// What each anchor's loss is multiplied by, `[n]`; `None` for 1.
    pub weights_n: Option<&'a Tensor>,
}

/// What [`loss`] gives: scalars on the device.
#[derive(Debug)]
pub struct Contrast {
    /// Weighted sum of the anchors' losses in nats, with gradient.
    pub sum: Tensor,
    /// Mean cosine of anchors with their positives; 0 without anchors.
    pub positive: Tensor,
    /// Mean cosine of anchors with those negatives that count.
    pub negative: Tensor,
}

/// The loss for hidden states and static vectors `[b, t, d]`, in their float type.
///
/// Its value and first gradient are exact; a second derivative is not available.
#[must_use]
pub fn loss(
    hidden_btd: &Tensor,
    static_btd: &Tensor,
    candidates: Candidates<'_>,
    temperature: f64,
    detach: bool,
) -> Contrast {
    let width = hidden_btd.size()[2];
    let unit_md = unit(&(hidden_btd - static_btd).reshape([-1, width]));
    let (contrast, slope_md) = value_and_slope(&unit_md.detach(), candidates, temperature, detach);
    // Its value is 0 and its gradient at `unit` is `slope`.
    let carrier = (&unit_md * slope_md).sum(unit_md.kind());
    Contrast { sum: contrast.sum + (&carrier - carrier.detach()), ..contrast }
}

/// Rows divided by their lengths, which count as at least 1e-12 (`torch.nn.functional.normalize`).
fn unit(rows_md: &Tensor) -> Tensor {
    rows_md / rows_md.norm_scalaropt_dim(2, [-1], true).clamp_min(1e-12)
}

/// The contrast of constant unit vectors `[m, d]`, and the gradient of its sum with respect to each of them.
fn value_and_slope(unit_md: &Tensor, candidates: Candidates<'_>, temperature: f64, detach: bool) -> (Contrast, Tensor) {
    let Candidates { anchors_n, positives_n, negatives_nk, excluded_nk, weights_n } = candidates;
    let kind = unit_md.kind();
    let mut slope_md = unit_md.zeros_like();
    if negatives_nk.numel() == 0 {
        // Nothing to contrast with: softmax over the positive alone.
        let zero = || unit_md.narrow(0, 0, 0).sum(kind);
        return (Contrast { sum: zero(), positive: zero(), negative: zero() }, slope_md);
    }
    let anchor_nd = unit_md.index_select(0, anchors_n);
    let candidate_nd = unit_md.index_select(0, positives_n);
    let positive_n = (&anchor_nd * &candidate_nd).sum_dim_intlist(-1, false, kind);
    let negative_nk = bags::dots(&anchor_nd, unit_md, negatives_nk);

    let logits_nc = Tensor::cat(&[positive_n.unsqueeze(1), excluding(&negative_nk, excluded_nk)], 1) / temperature;
    let each_n = logits_nc.logsumexp([1], false) - logits_nc.select(1, 0);
    let mut slope_nc = logits_nc.softmax(-1, kind) / temperature;
    let _ = slope_nc.select(1, 0).g_sub_scalar_(1.0 / temperature);
    if let Some(weights_n) = weights_n {
        slope_nc *= weights_n.unsqueeze(1);
    }
    let (slope_n1, slope_nk) = (slope_nc.narrow(1, 0, 1), slope_nc.narrow(1, 1, negatives_nk.size()[1]));

    let pull_nd = &slope_n1 * candidate_nd + bags::weighted_sums(&slope_nk, negatives_nk, unit_md);
    let _ = slope_md.index_add_(0, anchors_n, &pull_nd);
    if !detach {
        let _ = slope_md.index_add_(0, positives_n, &(&slope_n1 * &anchor_nd));
        slope_md += bags::scattered_sums(&slope_nk, negatives_nk, &anchor_nd, unit_md.size()[0]);
    }
    let sum = weights_n.map_or_else(|| each_n.sum(kind), |weights_n| each_n.dot(weights_n));
    (Contrast { sum, positive: positive_n.mean(kind), negative: mean_of_counted(&negative_nk, excluded_nk) }, slope_md)
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

impl Objective for TokenContrastive {
    fn reads(&self) -> Reads {
        let mut columns = vec![(self.positives.clone(), POSITIVES.spec())];
        if self.anchors != Anchors::All || self.e == Static::WordOriginal {
            columns.push((self.view.clone(), LABELS.spec()));
        }
        if self.avoid_same_doc {
            columns.push((self.view.clone(), DOCUMENT.spec()));
        }
        Reads { passes: vec![Pass::new(MAIN, &self.view)], columns }
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.negatives == 0 {
            problems.push("`negatives` is 0: nothing would be learnt; the paper uses 50".to_owned());
        }
        if !(self.temperature > 0.0 && self.temperature.is_finite()) {
            problems.push(format!(
                "`temperature` is {}: it divides, so it must be above 0; the paper uses 0.07",
                self.temperature
            ));
        }
        if self.neg_cols == NegativeColumns::Matched && self.offset_max == 0 {
            problems.push("`offset_max` is 0: write the window's, 2 by default".to_owned());
        }
        problems
    }

    fn batch_coupled(&self) -> bool {
        true
    }

    fn build(&self, name: &str, _head: &mut Path<'_>, networks: &Networks) -> Box<dyn Loss> {
        Box::new(Contrasting { name: name.to_owned(), config: self.clone(), special: networks.special() })
    }
}

struct Contrasting {
    name: String,
    config: TokenContrastive,
    special: SpecialIds,
}

impl Contrasting {
    fn anchored(&self, batch: &Batch) -> Anchored {
        Anchored::of(batch, &self.config, self.special).expect("the plan checked columns")
    }

    fn static_btd(&self, forward: &Forward<'_>) -> Tensor {
        let view = &self.config.view;
        let ids_bt = &forward.view(view).ids_bt;
        let rows = |ids_bt: &Tensor| Tensor::embedding(forward.networks().word_table(MAIN), ids_bt, -1, false, false);
        match self.config.e {
            Static::EmbedBlock => forward.encoded(MAIN, view).embeddings_btd.shallow_clone(),
            Static::Word => rows(ids_bt),
            Static::WordOriginal => {
                let labels_bt = forward.column(view, LABELS);
                rows(&labels_bt.where_self(&labels_bt.ge(0), ids_bt))
            }
        }
    }
}

impl Loss for Contrasting {
    fn terms(&self, batch: &Batch) -> Vec<Term> {
        vec![Term { name: "", weight: 1.0, count: self.anchored(batch).count() }]
    }

    fn compute(&self, forward: &Forward<'_>) -> Computed {
        let config = &self.config;
        let anchored = self.anchored(forward.batch());
        let drawn = anchored.draw(forward, config, &self.name);
        let hidden_btd = &forward.encoded(MAIN, &config.view).hidden_btd;
        let contrast =
            loss(hidden_btd, &self.static_btd(forward), drawn.candidates(), config.temperature, config.detach);
        let share = anchored.len() as f64;
        let metric = |name, mean: Tensor| Metric { name, numerator: mean * share, denominator: share };
        let metrics = vec![metric("positive_cosine", contrast.positive), metric("negative_cosine", contrast.negative)];
        Computed { sums: vec![contrast.sum], metrics }
    }
}

#[cfg(test)]
mod tests {
    use tch::{Device, Kind, Tensor};

    use super::{Candidates, loss, unit};

    fn f64s(tensor: &Tensor) -> Vec<f64> {
        Vec::try_from(tensor.to_kind(Kind::Double).reshape([-1])).expect("a vector of numbers")
    }

    fn close(found: &Tensor, expected: &[f64], tolerance: f64) {
        let found = f64s(found);
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((found - expected).abs() <= tolerance, "{found} is not {expected}");
        }
    }

    /// Two rows of three positions, two negatives each; small enough for a pocket calculator.
    struct Example {
        hidden_btd: Tensor,
        static_btd: Tensor,
        positives: [i64; 6],
        negatives: [i64; 12],
    }

    fn example() -> Example {
        let hidden = [1.0, 1.0, 2.0, 0.0, 0.0, 2.0, -1.0, 0.0, 0.0, -1.0, 1.0, -1.0_f64];
        let fixed = [0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0_f64];
        Example {
            hidden_btd: Tensor::from_slice(&hidden).view([2, 3, 2]),
            static_btd: Tensor::from_slice(&fixed).view([2, 3, 2]),
            positives: [1, 0, 1, 4, 5, 4],
            negatives: [3, 4, 3, 5, 4, 4, 0, 2, 1, 2, 0, 1],
        }
    }

    impl Example {
        fn sum_of(&self, anchors: &[i64], temperature: f64) -> Tensor {
            let anchors_n = Tensor::from_slice(anchors);
            let candidates = Candidates {
                positives_n: &Tensor::from_slice(&self.positives).index_select(0, &anchors_n),
                negatives_nk: &Tensor::from_slice(&self.negatives).view([6, 2]).index_select(0, &anchors_n),
                anchors_n: &anchors_n,
                excluded_nk: None,
                weights_n: None,
            };
            loss(&self.hidden_btd, &self.static_btd, candidates, temperature, true).sum
        }
    }

    #[test]
    fn losses_are_those_worked_by_hand() {
        let _alone = crate::testing::generator();
        // ln(e + 1/e + 1) − 1 for the first anchor, ln(1 + 2/e) for the third, ln 3 for the last.
        let at_one = [0.407_605_964, 0.632_035_894, 0.551_444_714, 0.861_994_804, 0.515_489_845, 1.098_612_289];
        let at_7_hundredths = [6.2488e-7, 0.015_119_678_0, 1.2497e-6, 0.693_147_493_0, 4.1016e-5, 1.098_612_288_7];
        for (temperature, each, tolerance) in [(1.0, at_one, 5.1e-10), (0.07, at_7_hundredths, 6e-10)] {
            for (anchor, expected) in (0..).zip(each) {
                close(&example().sum_of(&[anchor], temperature), &[expected], tolerance);
            }
        }
        for (temperature, mean) in [(1.0, 0.677_863_918_354), (0.5, 0.489_617_043_869), (0.07, 0.301_153_725_070)] {
            close(&(example().sum_of(&[0, 1, 2, 3, 4, 5], temperature) / 6.0), &[mean], 1e-12);
        }
        close(&example().sum_of(&[0], 1.0), &[(1_f64.exp() + (-1_f64).exp() + 1.0).ln() - 1.0], 1e-15);
    }

    /// Indices for random tensors: anchors in any order, with repeated and missing ones.
    struct Drawn {
        anchors_n: Tensor,
        positives_n: Tensor,
        negatives_nk: Tensor,
        excluded_nk: Tensor,
        weights_n: Tensor,
    }

    fn drawn(kind: Kind) -> Drawn {
        tch::manual_seed(7);
        Drawn {
            anchors_n: Tensor::from_slice(&[4_i64, 0, 9, 5, 4]),
            positives_n: Tensor::from_slice(&[5_i64, 1, 8, 4, 3]),
            negatives_nk: Tensor::randint(12, [5, 4], (Kind::Int64, Device::Cpu)),
            excluded_nk: Tensor::rand([5, 4], (Kind::Double, Device::Cpu)).lt(0.2),
            weights_n: Tensor::rand([5], (kind, Device::Cpu)),
        }
    }

    impl Drawn {
        fn candidates(&self) -> Candidates<'_> {
            Candidates {
                anchors_n: &self.anchors_n,
                positives_n: &self.positives_n,
                negatives_nk: &self.negatives_nk,
                excluded_nk: Some(&self.excluded_nk),
                weights_n: Some(&self.weights_n),
            }
        }

        /// The definition, with every candidate copied: what `loss` does without the copies.
        fn plain(&self, gap_btd: &Tensor, candidates_btd: &Tensor) -> Tensor {
            let width = gap_btd.size()[2];
            let (anchor_md, candidate_md) = (unit(&gap_btd.view([-1, width])), unit(&candidates_btd.view([-1, width])));
            let rows = |index: &Tensor| candidate_md.index_select(0, &index.reshape([-1]));
            let chosen_nkd =
                Tensor::cat(&[rows(&self.positives_n).unsqueeze(1), rows(&self.negatives_nk).view([5, 4, width])], 1);
            let cosines_nc = (anchor_md.index_select(0, &self.anchors_n).unsqueeze(1) * chosen_nkd).sum_dim_intlist(
                -1,
                false,
                gap_btd.kind(),
            );
            let excluded_nc =
                Tensor::cat(&[self.excluded_nk.narrow(1, 0, 1).zeros_like(), self.excluded_nk.shallow_clone()], 1);
            let logits_nc = (cosines_nc / 0.3).masked_fill(&excluded_nc, f64::NEG_INFINITY);
            ((logits_nc.logsumexp([1], false) - logits_nc.select(1, 0)) * &self.weights_n).sum(gap_btd.kind())
        }
    }

    fn leaf(kind: Kind) -> Tensor {
        Tensor::randn([3, 4, 5], (kind, Device::Cpu)).set_requires_grad(true)
    }

    #[test]
    fn gradients_are_those_of_the_plain_formula() {
        let _alone = crate::testing::generator();
        for detach in [true, false] {
            let (drawn, hidden_btd, static_btd) = (drawn(Kind::Double), leaf(Kind::Double), leaf(Kind::Double));
            let found = loss(&hidden_btd, &static_btd, drawn.candidates(), 0.3, detach).sum;
            // A factor in front must reach the gradient.
            (&found * 3.0).backward();
            let gap_btd = (&hidden_btd - &static_btd).detach().set_requires_grad(true);
            let expected = drawn.plain(&gap_btd, &if detach { gap_btd.detach() } else { gap_btd.shallow_clone() });
            (&expected * 3.0).backward();
            close(&found, &f64s(&expected), 1e-12);
            close(&hidden_btd.grad(), &f64s(&gap_btd.grad()), 1e-12);
            close(&static_btd.grad(), &f64s(&-gap_btd.grad()), 1e-12);
        }
    }

    #[test]
    fn gradients_are_central_differences() {
        const STEP: f64 = 1e-6;
        let _alone = crate::testing::generator();
        for detach in [true, false] {
            let (drawn, hidden_btd) = (drawn(Kind::Double), leaf(Kind::Double));
            let static_btd = leaf(Kind::Double).detach();
            loss(&hidden_btd, &static_btd, drawn.candidates(), 0.3, detach).sum.backward();
            let base_btd = (&hidden_btd - &static_btd).detach();
            let shifted = |at: i64, by: f64| {
                let step =
                    Tensor::zeros([60], (Kind::Double, Device::Cpu)).index_fill(0, &Tensor::from(at).view([1]), by);
                let gap_btd = &base_btd + step.view([3, 4, 5]);
                // Detached candidates stay where they are while the anchors move.
                f64s(&drawn.plain(&gap_btd, if detach { &base_btd } else { &gap_btd }))[0]
            };
            let differences: Vec<f64> =
                (0..60).map(|at| (shifted(at, STEP) - shifted(at, -STEP)) / (2.0 * STEP)).collect();
            close(&hidden_btd.grad(), &differences, 1e-8);
        }
    }

    #[test]
    fn single_precision_is_near_double() {
        let _alone = crate::testing::generator();
        let (single, double) = (drawn(Kind::Float), drawn(Kind::Double));
        let hidden_btd = leaf(Kind::Double).detach();
        let static_btd = hidden_btd.roll([1], [0]);
        let narrow = |tensor: &Tensor| tensor.to_kind(Kind::Float);
        let single = Candidates { weights_n: Some(&narrow(&double.weights_n)), ..single.candidates() };
        let found = loss(&narrow(&hidden_btd), &narrow(&static_btd), single, 0.3, false).sum;
        let expected = loss(&hidden_btd, &static_btd, double.candidates(), 0.3, false).sum;
        close(&found, &f64s(&expected), 1e-5);
    }

    #[test]
    fn without_anchors_or_negatives_there_is_nothing() {
        let _alone = crate::testing::generator();
        for (n, k) in [(0, 3), (0, 0), (2, 0)] {
            let hidden_btd = leaf(Kind::Float);
            let index = |shape: &[i64]| Tensor::zeros(shape, (Kind::Int64, Device::Cpu));
            let candidates = Candidates {
                anchors_n: &index(&[n]),
                positives_n: &index(&[n]),
                negatives_nk: &index(&[n, k]),
                excluded_nk: None,
                weights_n: None,
            };
            let contrast = loss(&hidden_btd, &hidden_btd.detach(), candidates, 0.07, true);
            contrast.sum.backward();
            close(&contrast.sum, &[0.0], 0.0);
            close(&hidden_btd.grad(), &[0.0; 60], 0.0);
        }
    }

    #[test]
    fn a_vector_of_zeros_has_cosine_0_and_disturbs_nobody() {
        let _alone = crate::testing::generator();
        let gap_btd =
            leaf(Kind::Double).detach().index_fill(0, &Tensor::from_slice(&[1_i64]), 0.0).set_requires_grad(true);
        let drawn = drawn(Kind::Double);
        let found = loss(&gap_btd, &gap_btd.zeros_like(), drawn.candidates(), 0.3, false).sum;
        found.backward();
        close(&found, &f64s(&drawn.plain(&gap_btd, &gap_btd)), 1e-12);
        assert!(f64s(&gap_btd.grad()).iter().all(|slope| slope.is_finite()));
    }
}
