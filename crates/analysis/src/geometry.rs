//! Properties of sets of vectors: self-similarity, alignment, uniformity.

use crate::measure::{dot, unit};

/// Similarity of the positions within rows.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct SelfSimilarity {
    /// Mean cosine over all pairs of all rows: long rows weigh more.
    pub pooled: f64,
    /// Mean over rows of their mean cosines.
    pub row_mean: f64,
    /// Pairs.
    pub pairs: f64,
}

/// Sums of a [`SelfSimilarity`], row by row. A row with fewer than two positions has no pair and does not count.
///
/// Su et al. 2022 (TaCL), figure 2 (pooled).
#[derive(Clone, Copy, Debug, Default)]
pub struct SelfSimilaritySum {
    cosines: f64,
    pairs: f64,
    row_means: f64,
    rows: f64,
}

impl SelfSimilaritySum {
    /// Adds the positions of a row.
    pub fn add(&mut self, row: impl IntoIterator<Item = Vec<f64>>) {
        // The sum over all pairs of unit vectors is that of their sum with itself, without the diagonal.
        let mut whole: Vec<f64> = Vec::new();
        let mut diagonal = 0.0;
        let mut count = 0.0;
        for vector in row {
            let vector = unit(&vector);
            diagonal += dot(&vector, &vector);
            count += 1.0;
            whole.resize(vector.len(), 0.0);
            whole.iter_mut().zip(&vector).for_each(|(whole, value)| *whole += value);
        }
        let pairs = count * (count - 1.0) / 2.0;
        if pairs > 0.0 {
            let cosines = (dot(&whole, &whole) - diagonal) / 2.0;
            self.cosines += cosines;
            self.pairs += pairs;
            self.row_means += cosines / pairs;
            self.rows += 1.0;
        }
    }

    /// Returns the result; NaN without a pair.
    #[must_use]
    pub fn finish(&self) -> SelfSimilarity {
        SelfSimilarity { pooled: self.cosines / self.pairs, row_mean: self.row_means / self.rows, pairs: self.pairs }
    }
}

/// Alignment of pairs and uniformity of all their vectors; lower is better for both.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct AlignmentUniformity {
    /// Mean over pairs of `‖x − y‖²`; NaN without a pair.
    pub alignment: f64,
    /// `ln` of the mean over unordered pairs of the `2n` vectors of `exp(−2 ‖a − b‖²)`.
    pub uniformity: f64,
}

/// Computes alignment and uniformity of the unit vectors of pairs.
///
/// Wang & Isola 2020, section 4, with α = 2 and t = 2.
#[must_use]
pub(crate) fn alignment_uniformity(pairs: &[(Vec<f64>, Vec<f64>)]) -> AlignmentUniformity {
    let units: Vec<[Vec<f64>; 2]> = pairs.iter().map(|(x, y)| [unit(x), unit(y)]).collect();
    let gap = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>();
    let alignment = units.iter().map(|[x, y]| gap(x, y)).sum::<f64>() / units.len() as f64;
    let all: Vec<&Vec<f64>> = units.iter().flatten().collect();
    let mut sum = 0.0;
    for (at, a) in all.iter().enumerate() {
        sum += all[at + 1..].iter().map(|b| (-2.0 * gap(a, b)).exp()).sum::<f64>();
    }
    let couples = all.len() as f64 * (all.len() as f64 - 1.0) / 2.0;
    AlignmentUniformity { alignment, uniformity: (sum / couples).ln() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(what: &str, found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{what}: {found} is not {expected}");
    }

    #[test]
    fn long_rows_weigh_more_unless_rows_are_averaged() {
        // Row 0: cosines 1, 0, 0; row 1: one pair of −1; row 2: a single position.
        let mut sum = SelfSimilaritySum::default();
        sum.add([vec![1.0, 0.0], vec![3.0, 0.0], vec![0.0, 2.0]]);
        sum.add([vec![0.0, 1.0], vec![0.0, -4.0]]);
        sum.add([vec![1.0, 1.0]]);
        let found = sum.finish();
        check("pooled", found.pooled, (1.0 - 1.0) / 4.0);
        check("mean of rows", found.row_mean, f64::midpoint(1.0 / 3.0, -1.0));
        check("pairs", found.pairs, 4.0);
        assert!(SelfSimilaritySum::default().finish().pooled.is_nan());
    }

    #[test]
    fn four_points_on_a_circle_have_the_uniformity_of_a_square() {
        let found = alignment_uniformity(&[(vec![1.0, 0.0], vec![-3.0, 0.0]), (vec![0.0, 2.0], vec![0.0, -1.0])]);
        check("alignment", found.alignment, 4.0);
        // Four sides of squared length 2 and two diagonals of 4.
        let mean = (4.0 * (-4.0_f64).exp() + 2.0 * (-8.0_f64).exp()) / 6.0;
        check("uniformity", found.uniformity, mean.ln());
        let none = alignment_uniformity(&[]);
        assert!(none.alignment.is_nan() && none.uniformity.is_nan());
    }
}
