//! Tests of the covariance of gradients.

use super::*;
use crate::testing::{ToyModel, rows};

fn plan(tokens: usize, masked: usize) -> MaskPlan {
    MaskPlan { tokens, masked, distances: (0..=masked).map(|half| 2 * half).collect() }
}

#[test]
fn additive_laws_are_those_of_the_published_numbers() {
    for (tokens, masked, k, expected) in [
        (16, 4, 4, [-0.333_333, 0.0]),
        (64, 8, 4, [-0.142_857, 0.571_429]),
        (510, 76, 4, [-0.175_115, 0.474_654]),
        (512, 64, 8, [-0.142_857, 0.0]),
    ] {
        let plan = plan(tokens, masked);
        let share = masked as f64 / tokens as f64;
        let found = [additive_covariance(&plan, 2 * masked), (1.0 - f64::from(k) * share) / (1.0 - share)];
        assert!(found.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-6), "{found:?}");
        let law: Vec<f64> = plan.distances.iter().map(|&distance| additive_covariance(&plan, distance)).collect();
        assert!(hypergeometric_mean(&plan, &law).abs() < 1e-9, "independent masks do not covary");
        assert!((law[0] - 1.0).abs() < 1e-12);
    }
}

#[test]
fn moved_masks_have_their_size_and_distance() {
    let mut dice = Dice::new(1, "test");
    for moves in 0..=4 {
        let found = moved(&[1, 4, 5, 9], 16, moves, &mut dice);
        let kept = found.iter().filter(|at| [1, 4, 5, 9].contains(*at)).count();
        let distinct: std::collections::BTreeSet<_> = found.iter().collect();
        assert_eq!((distinct.len(), kept), (4, 4 - moves));
    }
}

#[test]
fn an_additive_model_follows_the_law() {
    // The toy's gradient is a sum over masked positions.
    let ids: Vec<Vec<u32>> = (0..6).map(|row| (0..12).map(|at| 5 + (row * 5 + at * 7) % 25).collect()).collect();
    let texts: Vec<(usize, &[u32])> = ids.iter().enumerate().map(|(row, ids)| (row, ids.as_slice())).collect();
    let data = AnalysisData { rows: rows(&texts), ..AnalysisData::default() };
    let analysis = GradCov { ratio: 0.25, k: 3, masks: 300, distances: 4, ..GradCov::default() };
    let tables = analysis.compute(&ToyModel::new(), &data, 1).expect("computed");
    let close = |table: usize, key: &str, expected: f64| {
        let value = tables[table].number(&[key], "value");
        let error = tables[table].number(&[key], "error");
        assert!((value - expected).abs() < 5.0 * error + 1e-9, "{key}: {value} ± {error} is not {expected}");
    };
    close(0, "covariance of disjoint masks / v_m", -1.0 / 3.0);
    close(0, "variance of disjoint / independent masks", 1.0 / 3.0);
    close(1, "hypergeometric mean (0 expected)", 0.0);
    let [predicted, measured] =
        ["predicted", "measured"].map(|which| tables[1].number(&[&format!("independent masks, {which}")], "value"));
    assert!((predicted / measured - 1.0).abs() < 0.15, "{predicted} {measured}");
    let curve = &tables[2];
    assert_eq!(curve.rows.iter().map(|row| row.keys[0].as_str()).collect::<Vec<_>>(), ["0", "2", "4", "6"]);
    assert!((curve.number(&["0"], "covariance_over_v_m") - 1.0).abs() < 1e-9, "Cov(0) is V_m");
    for row in &curve.rows {
        assert!((row.values[2] - row.values[3]).abs() < 0.1, "{row:?}");
    }
    let shares: f64 = tables[3].rows.iter().map(|row| row.values[1]).sum();
    assert!((shares - 3.0).abs() < 1e-9, "each histogram has all of its pairs");
    // All tokens in K masks: the mean over a group does not vary.
    let analysis = GradCov { ratio: 0.25, k: 4, masks: 300, distances: 4, ..GradCov::default() };
    let tables = analysis.compute(&ToyModel::new(), &data, 1).expect("computed");
    close_to_zero(&tables[0]);
}

fn close_to_zero(ratios: &FindingTable) {
    let key = &["variance of disjoint / independent masks"];
    let found = [ratios.number(key, "value"), ratios.number(key, "error")];
    assert!(found[0].abs() < 5.0 * found[1] + 1e-9, "{found:?}");
    assert!(ratios.number(key, "law").abs() < 1e-12);
}

#[test]
fn masks_that_do_not_fit_and_rows_that_are_too_few_are_refused() {
    let model = ToyModel::new();
    let data = AnalysisData { rows: rows(&[(0, &[5, 6, 7, 8]), (1, &[9, 10, 11, 12])]), ..AnalysisData::default() };
    let refused = |analysis: GradCov, data: &AnalysisData, words: &[&str]| {
        let error = analysis.compute(&model, data, 1).expect_err("refused").to_string();
        assert!(words.iter().all(|word| error.contains(word)), "{error}");
    };
    refused(GradCov { ratio: 0.5, ..GradCov::default() }, &data, &["4 disjoint masks of 2", "--row-tokens"]);
    let one = AnalysisData { rows: rows(&[(0, &[5, 6]), (1, &[1, 7])]), ..AnalysisData::default() };
    refused(GradCov::default(), &one, &["at least 2 rows", "1 of 2 tokens"]);
    assert!(!GradCov { masks: 30, ..GradCov::default() }.problems().is_empty());
}
