//! Covariance of the gradients of two masks, by their Hamming distance.
//!
//! # What
//! Measures for rows of a text how the gradients of two masks of the same row covary: from equal masks (distance 0) to
//! disjoint ones (2τ). From it follows the variance of the mean over K masks, disjoint or independent.
//!
//! # Why
//! Fully-explored masking rests on a negative covariance of disjoint masks. The table shows whether it holds for a model,
//! and whether it outweighs the fewer distinct rows of a step.
//!
//! # Definition
//! Rows have `n` tokens each, masks `τ = ratio · n`, all replaced by `[MASK]`, dropout off. `g` is the gradient of the
//! summed loss. For each row, `masks` independent masks give `U`, the mean of `g_i · g_j` over `i ≠ j` (a U-statistic for
//! the squared length of the mean gradient), and `V_m = mean g · g − U`. `Cov(H)` is the mean of `g_1 · g_2 − U` over
//! pairs of distance `H`: the second mask keeps `τ − H/2` positions of the first. All are averaged over rows.
//!
//! - `v_x`: mean of `U` less the mean of `ḡ_x · ḡ_y` over pairs of rows, the variance between rows.
//! - Variance of the mean over K masks: predicted `V_m/K + (1 − 1/K) C` with `C = Cov(2τ)` for disjoint masks and 0 for
//!   independent ones; measured on groups of K masks.
//! - `equal_rows`: `(V_m + (K−1) C + K V_x) / (V_m + V_x)`, the total variance of a step of equally many rows, disjoint
//!   masks to independent rows.
//! - `law`: if gradients of tokens did not depend on the other masks, `Cov(H)/V_m = (o − τ²/n)/(τ − τ²/n)` for the overlap
//!   `o = τ − H/2`, and `V_disjoint/V_independent = (1 − Kτ/n)/(1 − τ/n)`.
//! - `hypergeometric_mean`: mean of `Cov(H)` over the distances of independent masks, interpolated between the measured
//!   ones. It must be 0 within its error.
//!
//! Errors are standard errors over rows (jackknife).
//!
//! # Reference
//! FE-MLM (fully-explored masked language modelling), figures 2 and 3, theorem 1.

mod masks;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use self::masks::{MaskPlan, additive_covariance, hypergeometric_mean, moved};
use super::Analysis;
use crate::data::{AnalysisData, DataKind};
use crate::error::Error;
use crate::findings::{ChartSpec, FindingTable};
use crate::gradients::{GradientSum, Sketch};
use crate::measure::dot;
use crate::model::{EncoderModel, MaskedRow};
use crate::random::Dice;

/// Covariance of gradients by distance of masks. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GradCov {
    /// Share of masked tokens.
    pub ratio: f64,
    /// Masks of a row in a step, K.
    pub k: usize,
    /// Most rows. They have equally many tokens and no special ones.
    pub row_count: usize,
    /// Independent masks of each row; a multiple of K.
    pub masks: usize,
    /// Distances from 0 to 2τ.
    pub distances: usize,
    /// Weights of the gradient, by name; `*` stands for any characters.
    pub params: String,
    /// Buckets of a random sketch of each gradient. 0: none, or 4096 above a million values.
    pub sketch: usize,
}

impl Default for GradCov {
    fn default() -> Self {
        Self {
            ratio: 0.125,
            k: 4,
            row_count: 16,
            masks: 32,
            distances: 9,
            params: "encoder.layers.*".to_owned(),
            sketch: 0,
        }
    }
}

/// Numbers of one row.
#[derive(Clone, Debug, Default)]
struct RowStatistics {
    /// Mean of `g · g` of independent masks.
    square: f64,
    /// `U`.
    product: f64,
    /// Squared length of the mean of K masks, averaged over groups: independent, disjoint.
    groups: [f64; 2],
    /// Mean of `g_1 · g_2` at each distance.
    products: Vec<f64>,
    /// `g_1 · g_2 − U` of each pair at each distance.
    pairs: Vec<Vec<f64>>,
    /// Mean gradient.
    mean: Vec<f64>,
}

/// Estimates over rows.
#[derive(Clone, Copy, Debug)]
struct Estimates {
    v_m: f64,
    v_x: f64,
    c: f64,
    measured: [f64; 2],
    hypergeometric: f64,
}

impl Analysis for GradCov {
    fn summary(&self) -> &'static str {
        "Covariance of the gradients of two masks, and variances of a step"
    }

    fn reads(&self) -> &'static [DataKind] {
        &[DataKind::Rows]
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        let mut check = |is_good: bool, problem: &str| {
            if !is_good {
                problems.push(problem.to_owned());
            }
        };
        check(self.ratio > 0.0 && self.ratio < 1.0, "`ratio` must be between 0 and 1");
        check(self.k >= 2, "`k` must be at least 2");
        check(
            self.k >= 2 && self.masks >= 2 * self.k && self.masks.is_multiple_of(self.k),
            "`masks` must be a multiple of `k`, at least twice it",
        );
        check(self.distances >= 2, "`distances` must be at least 2");
        check(self.row_count >= 2, "`row_count` must be at least 2");
        problems
    }

    fn compute(&self, model: &dyn EncoderModel, data: &AnalysisData, seed: u64) -> Result<Vec<FindingTable>, Error> {
        let rows = self.rows(model, data)?;
        let plan = self.mask_plan(rows[0].len())?;
        let mut statistics = Vec::with_capacity(rows.len());
        for (number, ids) in rows.iter().enumerate() {
            let mut dice = Dice::new(seed, &format!("masks of row {number}"));
            model.report_progress(number, rows.len());
            statistics.push(self.row_statistics(model, ids, &plan, seed, &mut dice)?);
        }
        let crossed: Vec<Vec<f64>> =
            statistics.iter().map(|one| statistics.iter().map(|other| dot(&one.mean, &other.mean)).collect()).collect();
        Ok(self.tables(&statistics, &crossed, &plan))
    }
}

impl GradCov {
    /// Returns rows of the largest length, without special tokens.
    fn rows<'a>(&self, model: &dyn EncoderModel, data: &'a AnalysisData) -> Result<Vec<&'a [u32]>, Error> {
        let vocab = &model.facts().vocab;
        let plain =
            data.rows.iter().map(|row| row.ids.as_slice()).filter(|ids| !ids.iter().any(|&id| vocab.is_special(id)));
        let plain: Vec<&[u32]> = plain.collect();
        let longest = plain.iter().map(|ids| ids.len()).max().unwrap_or(0);
        let rows: Vec<&[u32]> = plain.into_iter().filter(|ids| ids.len() == longest).take(self.row_count).collect();
        if rows.len() < 2 || longest < 2 {
            let found = rows.len();
            return Err(Error::Usage(format!(
                "grad-cov needs at least 2 rows of equal length without special tokens, and the text has {found} of \
                 {longest} tokens; give more text, or shorter rows (`--row-tokens`)"
            )));
        }
        Ok(rows)
    }

    fn mask_plan(&self, tokens: usize) -> Result<MaskPlan, Error> {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of a count")]
        let masked = ((self.ratio * tokens as f64 + 0.5).floor() as usize).max(1);
        if self.k * masked > tokens {
            let k = self.k;
            return Err(Error::Usage(format!(
                "{k} disjoint masks of {masked} tokens do not fit into rows of {tokens}; lower `--k` or `--ratio`, or give \
                 longer rows (`--row-tokens`)"
            )));
        }
        let last = self.distances - 1;
        let mut distances: Vec<usize> = (0..self.distances).map(|at| 2 * ((at * masked + last / 2) / last)).collect();
        distances.dedup();
        Ok(MaskPlan { tokens, masked, distances })
    }

    fn row_statistics(
        &self,
        model: &dyn EncoderModel,
        ids: &[u32],
        plan: &MaskPlan,
        seed: u64,
        dice: &mut Dice,
    ) -> Result<RowStatistics, Error> {
        let sketch = Sketch::new(self.sketch, seed);
        let gradient = |mask: &[usize]| -> Result<Vec<f64>, Error> {
            let mut positions = mask.to_vec();
            positions.sort_unstable();
            let row = MaskedRow { ids: ids.to_vec(), positions };
            Ok(sketch.of(&model.gradient(&row, &self.params)?))
        };
        let masks: Vec<Vec<usize>> = (0..self.masks).map(|_| dice.subset(plan.tokens, plan.masked)).collect();
        let mut bank = Vec::with_capacity(masks.len());
        let mut all = GradientSum::default();
        for mask in &masks {
            let found = gradient(mask)?;
            all.add(&found);
            bank.push(found);
        }
        let groups = self.masks / self.k;
        let mut squares = [0.0, 0.0];
        for group in bank.chunks_exact(self.k) {
            let mut sum = GradientSum::default();
            for gradient in group {
                sum.add(gradient);
            }
            squares[0] += sum.square_of_mean() / groups as f64;
        }
        for _ in 0..groups {
            let shuffled = dice.shuffled(plan.tokens, plan.tokens);
            let mut sum = GradientSum::default();
            for mask in shuffled.chunks_exact(plan.masked).take(self.k) {
                sum.add(&gradient(mask)?);
            }
            squares[1] += sum.square_of_mean() / groups as f64;
        }
        let product = all.mean_product();
        let mut found = RowStatistics {
            square: all.mean_square(),
            product,
            groups: squares,
            products: Vec::new(),
            pairs: Vec::new(),
            mean: all.mean(),
        };
        for &distance in &plan.distances {
            let mut products = Vec::with_capacity(bank.len());
            for (mask, own) in masks.iter().zip(&bank) {
                products.push(if distance == 0 {
                    dot(own, own)
                } else {
                    dot(own, &gradient(&moved(mask, plan.tokens, distance / 2, dice))?)
                });
            }
            found.products.push(products.iter().sum::<f64>() / products.len() as f64);
            found.pairs.push(products.into_iter().map(|value| value - product).collect());
        }
        Ok(found)
    }

    /// Computes the estimates over the rows that `counts` selects.
    fn estimates(
        rows: &[RowStatistics],
        crossed: &[Vec<f64>],
        plan: &MaskPlan,
        counts: &dyn Fn(usize) -> bool,
    ) -> Estimates {
        let chosen: Vec<usize> = (0..rows.len()).filter(|&row| counts(row)).collect();
        let mean = |of: &dyn Fn(&RowStatistics) -> f64| {
            chosen.iter().map(|&row| of(&rows[row])).sum::<f64>() / chosen.len() as f64
        };
        let product = mean(&|row| row.product);
        let others = chosen
            .iter()
            .flat_map(|&one| chosen.iter().filter(move |&&other| other != one).map(move |&other| (one, other)));
        let between: Vec<f64> = others.map(|(one, other)| crossed[one][other]).collect();
        let covariances: Vec<f64> =
            (0..plan.distances.len()).map(|at| mean(&|row| row.products[at]) - product).collect();
        Estimates {
            v_m: mean(&|row| row.square) - product,
            v_x: product - between.iter().sum::<f64>() / between.len() as f64,
            c: covariances.last().copied().unwrap_or(f64::NAN),
            measured: [0, 1].map(|group| mean(&|row| row.groups[group]) - product),
            hypergeometric: hypergeometric_mean(plan, &covariances),
        }
    }

    fn tables(&self, rows: &[RowStatistics], crossed: &[Vec<f64>], plan: &MaskPlan) -> Vec<FindingTable> {
        let whole = Self::estimates(rows, crossed, plan, &|_| true);
        let left_out: Vec<Estimates> =
            (0..rows.len()).map(|out| Self::estimates(rows, crossed, plan, &|row| row != out)).collect();
        // Jackknife over rows.
        let error = |of: &dyn Fn(&Estimates) -> f64| {
            let values: Vec<f64> = left_out.iter().map(of).collect();
            let mean = values.iter().sum::<f64>() / values.len() as f64;
            let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
            (squares * (values.len() as f64 - 1.0) / values.len() as f64).sqrt()
        };
        let k = self.k as f64;
        let share = plan.masked as f64 / plan.tokens as f64;
        let law = additive_covariance(plan, 2 * plan.masked);
        let law_variance = (1.0 - k * share) / (1.0 - share);
        let mut ratios =
            FindingTable::new("ratios", &["ratio"], &["value", "error", "law"], &[ChartSpec::OverSteps("value")]);
        let mut ratio = |name: &str, of: &dyn Fn(&Estimates) -> f64, law: f64| {
            ratios.push([name.to_owned()], [of(&whole), error(of), law]);
        };
        ratio("covariance of disjoint masks / v_m", &|it| it.c / it.v_m, law);
        ratio("variance of disjoint / independent masks", &|it| it.measured[1] / it.measured[0], law_variance);
        ratio(
            "equal rows, total variance",
            &|it| (it.v_m + (k - 1.0) * it.c + k * it.v_x) / (it.v_m + it.v_x),
            f64::NAN,
        );
        ratio("-covariance of disjoint masks / v_x", &|it| -it.c / it.v_x, f64::NAN);
        let mut variances = FindingTable::new("variances", &["quantity"], &["value", "error"], &[]);
        let mut variance = |name: &str, of: &dyn Fn(&Estimates) -> f64| {
            variances.push([name.to_owned()], [of(&whole), error(of)]);
        };
        variance("v_m, of one mask", &|it| it.v_m);
        variance("v_x, between rows", &|it| it.v_x);
        variance("covariance of disjoint masks", &|it| it.c);
        variance("independent masks, predicted", &|it| it.v_m / k);
        variance("independent masks, measured", &|it| it.measured[0]);
        variance("disjoint masks, predicted", &|it| it.v_m / k + (1.0 - 1.0 / k) * it.c);
        variance("disjoint masks, measured", &|it| it.measured[1]);
        variance("hypergeometric mean (0 expected)", &|it| it.hypergeometric);
        let counts = [
            ("rows", rows.len()),
            ("tokens of a row", plan.tokens),
            ("masked tokens", plan.masked),
            ("masks", self.masks),
        ];
        for (name, count) in counts {
            variances.push([name.to_owned()], [count as f64, f64::NAN]);
        }
        vec![ratios, variances, curve(rows, plan, whole.v_m), histogram(rows, plan, whole.v_m)]
    }
}

/// Returns the covariance by distance, with standard errors over rows.
fn curve(rows: &[RowStatistics], plan: &MaskPlan, v_m: f64) -> FindingTable {
    let charts = &[ChartSpec::OverKey { key: "distance", value: "covariance_over_v_m" }];
    let values = &["covariance", "error", "covariance_over_v_m", "law"];
    let mut table = FindingTable::new("covariance", &["distance"], values, charts);
    for (at, &distance) in plan.distances.iter().enumerate() {
        let mean: crate::statistics::Mean = rows.iter().map(|row| row.products[at] - row.product).collect();
        let law = additive_covariance(plan, distance);
        table.push([distance.to_string()], [mean.mean(), mean.error(), mean.mean() / v_m, law]);
    }
    table
}

/// Bins of the histograms.
const BINS: usize = 40;

/// Returns histograms of `(g_1 · g_2 − U) / V_m` for the smallest, a middle and the largest distance above 0.
fn histogram(rows: &[RowStatistics], plan: &MaskPlan, v_m: f64) -> FindingTable {
    let charts = &[ChartSpec::OverKey { key: "product", value: "share" }];
    let mut table = FindingTable::new("products", &["distance", "product"], &["count", "share"], charts);
    let last = plan.distances.len() - 1;
    let mut shown = vec![1, last.div_ceil(2), last];
    shown.dedup();
    let values = |at: usize| rows.iter().flat_map(move |row| row.pairs[at].iter().map(move |value| value / v_m));
    let (low, high) = shown
        .iter()
        .flat_map(|&at| values(at))
        .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| (low.min(value), high.max(value)));
    let width = (high - low) / BINS as f64;
    if !(width.is_finite() && width > 0.0) {
        return table;
    }
    for at in shown {
        let mut counts = vec![0.0; BINS];
        let total = values(at).count() as f64;
        for value in values(at) {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "values are at least `low`")]
            let bin = ((value - low) / width).floor() as usize;
            counts[bin.min(BINS - 1)] += 1.0;
        }
        for (bin, count) in counts.into_iter().enumerate() {
            let center = low + (bin as f64 + 0.5) * width;
            table.push([plan.distances[at].to_string(), format!("{center:.6}")], [count, count / total]);
        }
    }
    table
}

#[cfg(test)]
mod tests;
