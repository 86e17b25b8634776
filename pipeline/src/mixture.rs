//! Mixture of several sources in one stream: source of each row, and row number within that source.
//!
//! # What
//! *Positions* (rows, or all adjacent copies of one) are assigned to sources in *periods* of [`PERIOD`]. In a period
//! each source has a whole number of positions. A permutation per period determines their places. Each source
//! contributes its rows in its order, one after another, without gap or repeat.
//!
//! # Why
//! Row `r` stays a function of `r`. The number of a source's rows before it has three terms: a sum over earlier
//! recipes, a product over the periods of this one, and a count within the current period. A run can therefore resume
//! at any row, and any batch can be made from its number. Proportions are exact in each period, not only in the long
//! run.
//!
//! # Definition
//! For weights `w`, source `s` has `⌊P w_s / Σ w⌋` positions of a period of `P`. The remaining positions go to the
//! largest remainders; ties go to the first by name. No share differs from its weight by more than `1 / P`. A weight
//! applies from the first period that begins at or after its row.
//!
//! # Reference
//! Hamilton's method of largest remainders. The permutation is that of [`permutation`](crate::permutation), keyed by
//! the run's seed and the period's number.

mod source_assignment;
#[cfg(test)]
mod tests;
mod vocab_merge;
mod weight;

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

use schemas::{Epoch, Problem, SampleAddress};

pub(crate) use self::source_assignment::SourceAssignment;
pub use self::vocab_merge::merge_vocabs;
pub use self::weight::{Weight, WeightFrom};
use crate::permutation::Permutation;
use crate::rng::{Key, Rng};

/// Positions of a period. Shares are exact to a thousandth, and a period ends after a few steps.
pub const PERIOD: u64 = 1000;

/// Number of cached orders of periods, more than the batches in flight need.
const ORDERS_MAX: usize = 16;

/// Order of the rows of several sources.
#[derive(Debug)]
pub struct Mixture {
    copies: u64,
    key: Key,
    /// Recipes, ascending, at least one.
    recipes: Vec<Recipe>,
    /// Orders of the periods that were used last.
    orders: Mutex<Vec<(u64, Arc<Vec<u16>>)>>,
}

/// Consecutive rows with their assigned sources.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AssignedRows {
    /// Source of each row.
    pub(crate) sources: Vec<u16>,
    /// Range of rows of each source. The rows of a source are consecutive too.
    pub(crate) rows: Vec<Range<u64>>,
}

/// Composition of periods, from one period on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recipe {
    /// First period of the recipe.
    pub period: u64,
    /// Positions of each source in a period. The sum is [`PERIOD`].
    pub shares: Vec<u64>,
    /// Positions of each source in all earlier periods.
    before: Vec<u64>,
}

impl Mixture {
    /// Creates the mixture of sources with these names and weights. Each position is `copies` rows.
    ///
    /// # Errors
    /// All problems of the weights.
    pub fn new(sources: &[(&str, &Weight)], copies: u32, seed: u64) -> Result<Self, Vec<Problem>> {
        let copies = u64::from(copies.max(1));
        let mut problems: Vec<Problem> =
            sources.iter().flat_map(|(name, weight)| weight.problems(name, copies * PERIOD)).collect();
        if sources.is_empty() || sources.len() as u64 > PERIOD {
            let message = format!("{} sources cannot share periods of {PERIOD} rows", sources.len());
            problems.push(Problem::new("sources", message).hint("give at least one, and at most that many"));
        }
        if !problems.is_empty() {
            return Err(problems);
        }
        let steps: Vec<_> = sources.iter().map(|(_, weight)| weight.steps(copies * PERIOD)).collect();
        let periods: BTreeSet<u64> = steps.iter().flatten().map(|&(period, _)| period).collect();
        let mut recipes: Vec<Recipe> = Vec::new();
        for period in periods {
            let at = |steps: &Vec<(u64, f64)>| steps[steps.partition_point(|&(from, _)| from <= period) - 1].1;
            let weights: Vec<f64> = steps.iter().map(at).collect();
            let row = period * copies * PERIOD;
            match shares(sources, &weights, row) {
                Ok(shares) => {
                    let before = recipes.last().map_or_else(|| vec![0; sources.len()], |last| last.rows_before(period));
                    recipes.push(Recipe { period, shares, before });
                }
                Err(problem) => problems.push(problem),
            }
        }
        // This key differs from that of any view: the name in `views.NAME` is never empty.
        let key = Key::new(seed, Epoch(0), "", "sources");
        if problems.is_empty() { Ok(Self { copies, key, recipes, orders: Mutex::default() }) } else { Err(problems) }
    }

    /// Returns the recipes. Each applies until the next.
    #[must_use]
    pub fn recipes(&self) -> &[Recipe] {
        &self.recipes
    }

    /// Returns the first row of a period.
    #[must_use]
    pub fn first_row(&self, period: u64) -> u64 {
        period * PERIOD * self.copies
    }

    /// Returns the number of rows of each source before a row of the stream.
    #[must_use]
    pub fn rows_before(&self, row: u64) -> Vec<u64> {
        let position = row / self.copies;
        let copy = row % self.copies;
        let period = position / PERIOD;
        let slot = position % PERIOD;
        let mut rows = self.recipe(period).rows_before(period);
        if (slot, copy) == (0, 0) {
            return rows.into_iter().map(|rows| rows * self.copies).collect();
        }
        let order = self.order(period);
        let slot = usize::try_from(slot).expect("below the period");
        for &source in &order[..slot] {
            rows[usize::from(source)] += 1;
        }
        let mut rows: Vec<u64> = rows.into_iter().map(|rows| rows * self.copies).collect();
        rows[usize::from(order[slot])] += copy;
        rows
    }

    /// Assigns the rows `rows` of the stream to sources.
    pub(crate) fn assign(&self, rows: Range<u64>) -> AssignedRows {
        let mut ranges: Vec<Range<u64>> = self.rows_before(rows.start).into_iter().map(|first| first..first).collect();
        let mut sources = Vec::with_capacity(usize::try_from(rows.end.saturating_sub(rows.start)).unwrap_or(0));
        let mut known: Option<(u64, Arc<Vec<u16>>)> = None;
        for position in rows.clone().map(|row| row / self.copies) {
            let period = position / PERIOD;
            let slot = position % PERIOD;
            let order = match known.take() {
                Some((of, order)) if of == period => order,
                _ => self.order(period),
            };
            let source = order[usize::try_from(slot).expect("below the period")];
            ranges[usize::from(source)].end += 1;
            sources.push(source);
            known = Some((period, order));
        }
        AssignedRows { sources, rows: ranges }
    }

    /// Returns the row of the stream that contains a source's row `row`. `None` if the stream never reaches it.
    #[must_use]
    pub fn row_of(&self, source: usize, row: u64) -> Option<u64> {
        let position = row / self.copies;
        let copy = row % self.copies;
        // A recipe without a share of the source has the same count as the next. The last of equal counts contains the
        // row.
        let behind = self.recipes.partition_point(|recipe| recipe.before[source] <= position);
        let recipe = &self.recipes[behind - 1];
        let share = recipe.shares[source];
        let since = position - recipe.before[source];
        let period = recipe.period + since.checked_div(share)?;
        let rank = usize::try_from(since % share).expect("below the period");
        let order = self.order(period);
        let mut slots = (0..).zip(order.iter()).filter(|(_, of)| usize::from(**of) == source);
        let (slot, _) = slots.nth(rank).expect("a source has its share of each period");
        Some((period * PERIOD + slot) * self.copies + copy)
    }

    /// Returns the maximum number of a source's rows among `rows` consecutive rows of the stream.
    #[must_use]
    pub fn at_most(&self, source: usize, rows: u64) -> u64 {
        let share = self.recipes.iter().map(|recipe| recipe.shares[source]).max().unwrap_or(0);
        // The rows can touch one period more than they would fill.
        let periods = rows.div_ceil(PERIOD * self.copies) + 1;
        rows.min(periods.saturating_mul(share * self.copies))
    }

    /// Returns the positions of each source in the first period.
    #[must_use]
    pub fn first_shares(&self) -> &[u64] {
        &self.recipes[0].shares
    }

    fn recipe(&self, period: u64) -> &Recipe {
        &self.recipes[self.recipes.partition_point(|recipe| recipe.period <= period) - 1]
    }

    /// Returns the source of each position of a period.
    fn order(&self, period: u64) -> Arc<Vec<u16>> {
        let mut orders = self.orders.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, order)) = orders.iter().find(|(of, _)| *of == period) {
            return Arc::clone(order);
        }
        let order = Arc::new(self.recipe(period).order(&mut self.key.row(SampleAddress::numbered(period), 0)));
        if orders.len() == ORDERS_MAX {
            orders.remove(0);
        }
        orders.push((period, Arc::clone(&order)));
        order
    }
}

impl Recipe {
    /// Returns the positions of each source in all periods before `period`, which is of this recipe or the first of the
    /// next.
    fn rows_before(&self, period: u64) -> Vec<u64> {
        let periods = period - self.period;
        self.before.iter().zip(&self.shares).map(|(before, share)| before + periods * share).collect()
    }

    /// Shuffles the positions of a period.
    fn order(&self, rng: &mut Rng) -> Vec<u16> {
        let sorted: Vec<u16> =
            (0..).zip(&self.shares).flat_map(|(source, &share)| (0..share).map(move |_| source)).collect();
        let permutation = Permutation::new(PERIOD, rng);
        (0..PERIOD).map(|slot| sorted[usize::try_from(permutation.apply(slot)).expect("below the period")]).collect()
    }
}

/// Computes the positions of each source in a period from the weights at a row.
fn shares(sources: &[(&str, &Weight)], weights: &[f64], row: u64) -> Result<Vec<u64>, Problem> {
    let sum: f64 = weights.iter().sum();
    if !(sum > 0.0 && sum.is_finite()) {
        let message = format!("from row {row} on, no source has a share: the weights add up to {sum}");
        return Err(Problem::new("sources", message).hint("give at least one a `weight` above 0"));
    }
    let shares = apportion(PERIOD, weights);
    let lost = sources.iter().zip(weights).zip(&shares).find(|((_, weight), share)| **weight > 0.0 && **share == 0);
    match lost {
        None => Ok(shares),
        Some((((name, _), weight), _)) => {
            let message = format!("from row {row} on, {weight} of {sum} is less than one row of {PERIOD}");
            let hint = format!("give at least {}, or 0", sum / PERIOD as f64);
            Err(Problem::new(format!("sources.{name}.weight"), message).hint(hint))
        }
    }
}

/// Splits `total` into whole numbers in proportion to the weights, by largest remainder. Ties go to the first.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "floors of numbers from 0 to `total`")]
pub(crate) fn apportion(total: u64, weights: &[f64]) -> Vec<u64> {
    let sum: f64 = weights.iter().sum();
    let quotas: Vec<f64> = weights.iter().map(|weight| total as f64 * (weight / sum)).collect();
    let mut parts: Vec<u64> = quotas.iter().map(|quota| (quota.floor() as u64).min(total)).collect();
    let mut ranked: Vec<usize> = (0..quotas.len()).filter(|&index| weights[index] > 0.0).collect();
    ranked.sort_by(|&a, &b| quotas[b].fract().total_cmp(&quotas[a].fract()).then(a.cmp(&b)));
    let left = total.saturating_sub(parts.iter().sum());
    for &index in ranked.iter().cycle().take(usize::try_from(left).unwrap_or(0)) {
        parts[index] += 1;
    }
    parts
}
