//! Similarities and distances of two vectors, in float64.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Similarity or distance of two vectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// Cosine; vectors shorter than 1e-12 count as that long.
    Cos,
    /// Inner product.
    Dot,
    /// Distance `Σ |a − b|`.
    L1,
    /// Distance `(Σ |a − b|²)^(1/2)`.
    L2,
    /// Distance `(Σ |a − b|¹⁰)^(1/10)`.
    L10,
}

impl Measure {
    /// All measures.
    pub const ALL: [Self; 5] = [Self::Cos, Self::Dot, Self::L1, Self::L2, Self::L10];

    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cos => "cos",
            Self::Dot => "dot",
            Self::L1 => "l1",
            Self::L2 => "l2",
            Self::L10 => "l10",
        }
    }

    /// Compares two vectors of equal width.
    #[must_use]
    pub fn compare(self, a: &[f64], b: &[f64]) -> f64 {
        match self {
            Self::Cos => cosine(a, b),
            Self::Dot => dot(a, b),
            Self::L1 => distance(a, b, 1),
            Self::L2 => distance(a, b, 2),
            Self::L10 => distance(a, b, 10),
        }
    }
}

/// Returns a vector in float64.
pub(crate) fn wide(vector: &[f32]) -> Vec<f64> {
    vector.iter().copied().map(f64::from).collect()
}

/// Returns the inner product.
pub(crate) fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Returns the vector divided by its length, which counts as at least 1e-12.
#[must_use]
pub(crate) fn unit(vector: &[f64]) -> Vec<f64> {
    let length = dot(vector, vector).sqrt().max(1e-12);
    vector.iter().map(|value| value / length).collect()
}

/// Returns the cosine.
pub(crate) fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let length = |vector: &[f64]| dot(vector, vector).sqrt().max(1e-12);
    dot(a, b) / (length(a) * length(b))
}

/// Returns the `L_p` distance. The largest difference is factored out: tenth powers of small numbers would underflow.
fn distance(a: &[f64], b: &[f64], p: i32) -> f64 {
    let gaps = || a.iter().zip(b).map(|(a, b)| (a - b).abs());
    let largest = gaps().fold(0.0, f64::max);
    if largest == 0.0 {
        return 0.0;
    }
    largest * gaps().map(|gap| (gap / largest).powi(p)).sum::<f64>().powf(1.0 / f64::from(p))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn measures_of_a_right_angle_are_as_by_hand() {
        let measured = |a: &[f64], b: &[f64]| Measure::ALL.map(|measure| measure.compare(a, b));
        let [cos, dot, l1, l2, l10] = measured(&[3.0, 0.0], &[0.0, 4.0]);
        assert_eq!((cos, dot, l1, l2), (0.0, 0.0, 7.0, 5.0));
        // 4 · (1 + 0.75^10)^(1/10)
        assert!((l10 - 4.021_974_149_8).abs() < 1e-9, "{l10}");
        let [cos, dot, l1, l2, l10] = measured(&[1e-40, 0.0], &[2e-40, 0.0]);
        assert!((cos - 2e-56).abs() < 1e-70 && dot > 0.0, "the length of a short vector counts as 1e-12: {cos}");
        assert!([l1, l2, l10].iter().all(|found| (found - 1e-40).abs() < 1e-50), "no underflow");
        assert_eq!(measured(&[1.0, 2.0], &[1.0, 2.0])[2..], [0.0, 0.0, 0.0]);
    }
}
