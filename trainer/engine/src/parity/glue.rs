//! Metrics of the GLUE tasks.
//!
//! All take predictions and labels of equal length and return a number in double precision, 0 for empty input.
//!
//! # Reference
//! Wang et al. 2019, "GLUE"; Gorodkin 2004 for Matthews' correlation of any number of classes, which equals the usual
//! one for two classes.

use std::collections::BTreeMap;

/// Returns the share of correct predictions.
#[must_use]
pub(super) fn accuracy(predicted: &[i64], truth: &[i64]) -> f64 {
    let right = pairs(predicted, truth).filter(|(predicted, truth)| predicted == truth).count();
    ratio(right as f64, truth.len() as f64)
}

/// Returns the F1 of one class (class 1 in GLUE): the harmonic mean of precision and recall.
///
/// It is 0 if the class is neither predicted nor present.
#[must_use]
pub(super) fn f1(predicted: &[i64], truth: &[i64], class: i64) -> f64 {
    let count = |chosen: &dyn Fn(i64, i64) -> bool| {
        pairs(predicted, truth).filter(|&(&predicted, &truth)| chosen(predicted, truth)).count() as f64
    };
    let hits = count(&|predicted, truth| predicted == class && truth == class);
    let misses = count(&|predicted, truth| (predicted == class) != (truth == class));
    ratio(2.0 * hits, 2.0 * hits + misses)
}

/// Returns the mean F1 of the classes `0..classes`. An absent class counts as 0.
#[must_use]
pub(super) fn macro_f1(predicted: &[i64], truth: &[i64], classes: u32) -> f64 {
    let sum: f64 = (0..classes).map(|class| f1(predicted, truth, i64::from(class))).sum();
    ratio(sum, f64::from(classes))
}

/// Returns Matthews' correlation, 0 if all predictions or all labels are of one class.
#[must_use]
pub(super) fn matthews(predicted: &[i64], truth: &[i64]) -> f64 {
    // Number of predictions and of labels of each class.
    let mut counts: BTreeMap<i64, (f64, f64)> = BTreeMap::new();
    for (&predicted, &truth) in pairs(predicted, truth) {
        counts.entry(predicted).or_default().0 += 1.0;
        counts.entry(truth).or_default().1 += 1.0;
    }
    let total = truth.len() as f64;
    let products = |of: &dyn Fn(f64, f64) -> f64| counts.values().map(|&(predicted, truth)| of(predicted, truth)).sum();
    let spread = |squares: f64| total * total - squares;
    let hits = accuracy(predicted, truth) * total;
    let together: f64 = products(&|predicted, truth| predicted * truth);
    let scale = spread(products(&|predicted, _| predicted * predicted)) * spread(products(&|_, truth| truth * truth));
    ratio(hits * total - together, scale.sqrt())
}

/// Returns Pearson's correlation, 0 if one side is constant.
#[must_use]
pub(super) fn pearson(predicted: &[f64], truth: &[f64]) -> f64 {
    let centred = |values: &[f64]| -> Vec<f64> {
        let mean = values.iter().sum::<f64>() / values.len() as f64;
        values.iter().map(|value| value - mean).collect()
    };
    let predicted = centred(predicted);
    let truth = centred(truth);
    let product = |a: &[f64], b: &[f64]| -> f64 { pairs(a, b).map(|(a, b)| a * b).sum() };
    ratio(product(&predicted, &truth), (product(&predicted, &predicted) * product(&truth, &truth)).sqrt())
}

/// Returns Spearman's correlation: Pearson's correlation of the ranks. Equal values share the mean of their ranks.
#[must_use]
pub(super) fn spearman(predicted: &[f64], truth: &[f64]) -> f64 {
    pearson(&ranks(predicted), &ranks(truth))
}

/// Returns the rank of each value, from 0. Equal values share the mean of their ranks.
fn ranks(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    let mut ranks = vec![0.0; values.len()];
    let mut before = 0;
    #[expect(clippy::float_cmp, reason = "ties are equal to the bit")]
    for tied in order.chunk_by(|&a, &b| values[a] == values[b]) {
        let last = before + tied.len() - 1;
        for &at in tied {
            ranks[at] = f64::midpoint(before as f64, last as f64);
        }
        before += tied.len();
    }
    ranks
}

fn pairs<'a, T>(predicted: &'a [T], truth: &'a [T]) -> impl Iterator<Item = (&'a T, &'a T)> {
    assert_eq!(predicted.len(), truth.len(), "one prediction for each truth");
    predicted.iter().zip(truth)
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{accuracy, f1, macro_f1, matthews, pearson, ranks, spearman};

    fn check(what: &str, found: f64, expected: f64) {
        assert!((found - expected).abs() < 1e-12, "{what}: {found} is not {expected}");
    }

    #[test]
    fn classes_equal_hand_counted_values() {
        // Three true positives, one false negative, two false positives, four true negatives.
        let predicted = [1, 1, 1, 0, 1, 1, 0, 0, 0, 0];
        let truth = [1, 1, 1, 1, 0, 0, 0, 0, 0, 0];
        check("accuracy", accuracy(&predicted, &truth), 0.7);
        check("f1", f1(&predicted, &truth, 1), 6.0 / 9.0);
        check("macro", macro_f1(&predicted, &truth, 2), f64::midpoint(6.0 / 9.0, 8.0 / 11.0));
        check("an absent class", macro_f1(&predicted, &truth, 4), (6.0 / 9.0 + 8.0 / 11.0) / 4.0);
        check("matthews", matthews(&predicted, &truth), (3.0 * 4.0 - 2.0) / (5.0_f64 * 4.0 * 6.0 * 5.0).sqrt());
    }

    #[test]
    fn degenerate_input_is_0() {
        check("one class predicted", matthews(&[1, 1, 1], &[1, 0, 1]), 0.0);
        check("neither there nor predicted", f1(&[0, 0], &[0, 0], 1), 0.0);
        check("constant", pearson(&[2.0, 2.0], &[1.0, 3.0]), 0.0);
        for of_nothing in [accuracy(&[], &[]), matthews(&[], &[]), spearman(&[], &[]), macro_f1(&[], &[], 0)] {
            check("nothing", of_nothing, 0.0);
        }
    }

    #[test]
    fn ties_share_their_ranks() {
        let found = ranks(&[3.0, 1.0, 3.0, 3.0, -1.0]);
        assert!(found.iter().zip([3.0, 1.0, 3.0, 3.0, 0.0]).all(|(a, b)| (a - b).abs() < 1e-12), "{found:?}");
        check("any growing curve", spearman(&[1.0, 2.0, 3.0, 9.0], &[0.1, 1.0, 100.0, 101.0]), 1.0);
        check("a tie", spearman(&[1.0, 2.0, 2.0], &[1.0, 2.0, 3.0]), 0.75_f64.sqrt());
    }

    #[test]
    fn a_line_correlates_fully() {
        check("up", pearson(&[1.0, 2.0, 4.0], &[3.0, 5.0, 9.0]), 1.0);
        check("down", pearson(&[1.0, 2.0, 4.0], &[-3.0, -5.0, -9.0]), -1.0);
    }
}
