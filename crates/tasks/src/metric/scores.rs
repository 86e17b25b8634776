//! Metrics of scores: Pearson and Spearman correlation, and mean squared error.
//!
//! # Source
//! `scipy.stats.pearsonr` and `spearmanr` (ties have the mean of their ranks), scikit-learn's `mean_squared_error`.

use std::cmp::Ordering;

use super::value::{MetricValue, UndefinedReason};

/// Returns Pearson's correlation of gold and predicted scores.
///
/// # Panics
/// Panics if the lengths differ.
pub fn pearson(gold: &[f64], predicted: &[f64]) -> MetricValue {
    match undefined(gold, predicted, 2) {
        Some(reason) => MetricValue::Undefined(reason),
        None => correlation(gold, predicted),
    }
}

/// Returns Spearman's correlation: Pearson's correlation of the ranks.
///
/// # Panics
/// Panics if the lengths differ.
pub fn spearman(gold: &[f64], predicted: &[f64]) -> MetricValue {
    match undefined(gold, predicted, 2) {
        Some(reason) => MetricValue::Undefined(reason),
        None => correlation(&ranks(gold), &ranks(predicted)),
    }
}

/// Returns the mean squared difference.
///
/// # Panics
/// Panics if the lengths differ.
pub fn mean_squared_error(gold: &[f64], predicted: &[f64]) -> MetricValue {
    if let Some(reason) = undefined(gold, predicted, 1) {
        return MetricValue::Undefined(reason);
    }
    let squares = gold.iter().zip(predicted).map(|(gold, predicted)| (gold - predicted).powi(2));
    finite(squares.sum::<f64>() / gold.len() as f64)
}

fn undefined(gold: &[f64], predicted: &[f64], min: usize) -> Option<UndefinedReason> {
    assert_eq!(gold.len(), predicted.len(), "one prediction per gold value");
    if gold.is_empty() {
        return Some(UndefinedReason::NoExamples);
    }
    if gold.len() < min {
        return Some(UndefinedReason::TooFew);
    }
    let is_finite = gold.iter().chain(predicted).all(|value| value.is_finite());
    (!is_finite).then_some(UndefinedReason::NotFinite)
}

fn correlation(left: &[f64], right: &[f64]) -> MetricValue {
    let is_constant = |values: &[f64]| values.iter().all(|&value| value.total_cmp(&values[0]).is_eq());
    if is_constant(left) || is_constant(right) {
        return MetricValue::Undefined(UndefinedReason::Constant);
    }
    let left = unit(left);
    let right = unit(right);
    let product: f64 = left.iter().zip(&right).map(|(left, right)| left * right).sum();
    finite(product.clamp(-1.0, 1.0))
}

/// Centres values and divides them by their norm, after scaling by the largest, so that no square overflows.
fn unit(values: &[f64]) -> Vec<f64> {
    let mean = values.iter().map(|value| value / values.len() as f64).sum::<f64>();
    let centred: Vec<f64> = values.iter().map(|value| value - mean).collect();
    let largest = centred.iter().fold(0.0, |largest: f64, value| largest.max(value.abs()));
    let norm = centred.iter().map(|value| (value / largest).powi(2)).sum::<f64>().sqrt();
    centred.iter().map(|value| value / largest / norm).collect()
}

/// Returns the ranks from 1. Equal values have the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&left, &right| values[left].partial_cmp(&values[right]).expect("finite values"));
    let mut ranks = vec![0.0; values.len()];
    let mut start = 0;
    // 0.0 and -0.0 are tied.
    for tied in order.chunk_by(|&left, &right| values[left].partial_cmp(&values[right]).is_some_and(Ordering::is_eq)) {
        let mean = start as f64 + (tied.len() + 1) as f64 / 2.0;
        for &index in tied {
            ranks[index] = mean;
        }
        start += tied.len();
    }
    ranks
}

fn finite(value: f64) -> MetricValue {
    if value.is_finite() { MetricValue::Defined(value) } else { MetricValue::Undefined(UndefinedReason::NotFinite) }
}
