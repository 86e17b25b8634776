//! Statistics of gradients: U-statistics of inner products, and sketches of long gradients.

use crate::measure::dot;
use crate::random::Dice;

/// Values above which a gradient is sketched if no number of buckets is given.
const EXACT_VALUES: usize = 1 << 20;

/// Buckets of a sketch if no number is given.
const BUCKETS: usize = 4096;

/// Sum of vectors with the sum of their squared lengths.
#[derive(Clone, Debug, Default)]
pub(crate) struct GradientSum {
    sum: Vec<f64>,
    squares: f64,
    count: f64,
}

impl GradientSum {
    /// Adds a vector.
    pub(crate) fn add(&mut self, vector: &[f64]) {
        self.sum.resize(vector.len(), 0.0);
        self.sum.iter_mut().zip(vector).for_each(|(sum, value)| *sum += value);
        self.squares += dot(vector, vector);
        self.count += 1.0;
    }

    /// Returns the mean of `g_i · g_j` over `i ≠ j`: a U-statistic, unbiased for the squared length of the expectation.
    pub(crate) fn mean_product(&self) -> f64 {
        (dot(&self.sum, &self.sum) - self.squares) / (self.count * (self.count - 1.0))
    }

    /// Returns the mean of `g · g`.
    pub(crate) fn mean_square(&self) -> f64 {
        self.squares / self.count
    }

    /// Returns the squared length of the mean vector.
    pub(crate) fn square_of_mean(&self) -> f64 {
        dot(&self.sum, &self.sum) / (self.count * self.count)
    }

    /// Returns the mean vector.
    pub(crate) fn mean(&self) -> Vec<f64> {
        self.sum.iter().map(|sum| sum / self.count).collect()
    }
}

/// Sign sketch of vectors: each value is added with a random sign to a random bucket. Inner products stay unbiased.
#[derive(Clone, Debug)]
pub(crate) struct Sketch {
    buckets: usize,
    seed: u64,
}

impl Sketch {
    /// Creates a sketch of that many buckets; 0 keeps gradients of up to a million values whole.
    pub(crate) fn new(buckets: usize, seed: u64) -> Self {
        Self { buckets, seed }
    }

    /// Returns the sketch of a vector, or the vector.
    pub(crate) fn of(&self, vector: &[f32]) -> Vec<f64> {
        if self.buckets == 0 && vector.len() <= EXACT_VALUES {
            return vector.iter().copied().map(f64::from).collect();
        }
        let buckets = if self.buckets == 0 { BUCKETS } else { self.buckets };
        let mut sketch = vec![0.0; buckets];
        let mut dice = Dice::new(self.seed, "sketch");
        for &value in vector {
            let bits = dice.number();
            let bucket = usize::try_from(bits >> 1).unwrap_or_default() % buckets;
            sketch[bucket] += if bits & 1 == 0 { f64::from(value) } else { -f64::from(value) };
        }
        sketch
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn u_statistics_of_four_numbers_are_those_by_hand() {
        // objectives of one token each, with gradients 1, 2, 4, 8: all four masks once.
        let mut sum = GradientSum::default();
        for value in [1.0, 2.0, 4.0, 8.0] {
            sum.add(&[value]);
        }
        // Σ_{i≠j} g_i g_j / 12 = (15² − 85) / 12; less the squared mean 3.75² it is −2.395833.
        assert!((sum.mean_product() - 140.0 / 12.0).abs() < 1e-12);
        assert!((sum.mean_product() - sum.square_of_mean() + 2.395_833_333_333_333).abs() < 1e-12);
        assert!((sum.mean_square() - sum.square_of_mean() - 7.1875).abs() < 1e-12);
        assert_eq!(sum.mean(), [3.75]);
    }

    #[test]
    fn sketches_preserve_inner_products_on_average() {
        let mut dice = Dice::new(1, "values");
        let mut vector = || (0..200).map(|_| f32::from(u8::try_from(dice.below(200)).expect("small")) - 99.5).collect();
        let [a, b]: [Vec<f32>; 2] = [vector(), vector()];
        let exact = dot(&Sketch::new(0, 1).of(&a), &Sketch::new(0, 1).of(&b));
        let products: crate::statistics::Mean =
            (0..2000).map(|seed| dot(&Sketch::new(64, seed).of(&a), &Sketch::new(64, seed).of(&b))).collect();
        assert!((products.mean() - exact).abs() < 5.0 * products.error(), "{} {exact}", products.mean());
    }
}
