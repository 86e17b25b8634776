//! Invariants of a mixture.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schemas::{SpecialIds, Vocab};

use super::*;

const NAMES: [&str; 4] = ["a", "b", "c", "d"];

/// Mixture of sources with these weights.
fn mixture(weights: &[Weight], copies: u32, seed: u64) -> Result<Mixture, Vec<Problem>> {
    let named: Vec<(&str, &Weight)> = NAMES.into_iter().zip(weights).collect();
    Mixture::new(&named, copies, seed)
}

fn constant(weights: &[f64]) -> Vec<Weight> {
    weights.iter().map(|&weight| Weight::Constant(weight)).collect()
}

fn table(steps: &[(u64, f64)]) -> Weight {
    Weight::Table(steps.iter().map(|&(rows, weight)| WeightFrom { rows, weight }).collect())
}

/// Weight: 0, or a share that is neither tiny nor huge compared with the others.
fn any_weight() -> impl Strategy<Value = f64> {
    prop_oneof![1 => Just(0.0), 6 => 0.05_f64..3.0, 1 => (1_u32..9).prop_map(f64::from)]
}

/// Constant, or up to four weights that each apply for at least one period.
fn any_weights() -> impl Strategy<Value = Weight> {
    let steps = prop::collection::vec((1_u64..3, 0_u64..4 * PERIOD, any_weight()), 0..4);
    let of_table = (any_weight(), steps).prop_map(|(first, steps)| {
        let mut rows = 0;
        let mut table = vec![WeightFrom { rows, weight: first }];
        for (periods, more, weight) in steps {
            // Copies make periods longer: up to 3 of them.
            rows += 3 * PERIOD * periods + more;
            table.push(WeightFrom { rows, weight });
        }
        Weight::Table(table)
    });
    prop_oneof![any_weight().prop_map(Weight::Constant), of_table]
}

/// Returns the weight at a row, by reading the table from the top.
fn weight_at(weight: &Weight, row: u64, period: u64) -> f64 {
    match weight {
        Weight::Constant(weight) => *weight,
        Weight::Table(table) => {
            let mut holds = table[0].weight;
            for step in table.iter().filter(|step| step.rows.next_multiple_of(period) <= row) {
                holds = step.weight;
            }
            holds
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn proportions_are_exact_in_every_period_and_positions_have_no_gap(
        weights in prop::collection::vec(any_weights(), 1..5), copies in 1_u32..4, seed: u64, periods in 1_u64..24,
        from in 0_u64..20_000, count in 0_u64..4000,
    ) {
        let Ok(mixture) = mixture(&weights, copies, seed) else { return Ok(()) };
        let copies = u64::from(copies);
        let period = PERIOD * copies;
        let rows = periods * PERIOD * copies;
        let all = mixture.assign(0..rows);
        // Brute force: one counter for each source.
        let mut next = vec![0; weights.len()];
        let mut befores = Vec::new();
        for (row, &source) in (0..).zip(&all.sources) {
            if row % 97 == 0 || row % period < 2 {
                prop_assert_eq!(&mixture.rows_before(row), &next, "before row {}", row);
                let source = usize::from(source);
                prop_assert_eq!(mixture.row_of(source, next[source]), Some(row));
            }
            if row % copies > 0 {
                prop_assert_eq!(source, all.sources[usize::try_from(row).expect("small") - 1], "copies are adjacent");
            }
            befores.push(next.clone());
            next[usize::from(source)] += 1;
        }
        befores.push(next);
        for first in (0..rows).step_by(usize::try_from(period).expect("small")) {
            let at = |row: u64| &befores[usize::try_from(row).expect("small")];
            let now: Vec<f64> = weights.iter().map(|weight| weight_at(weight, first, period)).collect();
            for source in 0..weights.len() {
                let dealt = at(first + period)[source] - at(first)[source];
                prop_assert_eq!(dealt % copies, 0);
                let dealt = (dealt / copies) as f64;
                let wanted = PERIOD as f64 * now[source] / now.iter().sum::<f64>();
                prop_assert!((dealt - wanted).abs() < 1.0, "{} of a period, not {}, from row {}", dealt, wanted, first);
            }
        }
        // Any range of rows is a part of them.
        let start = from.min(rows);
        let end = (from + count).min(rows);
        let [first, behind] = [start, end].map(|row| usize::try_from(row).expect("small"));
        let some = mixture.assign(start..end);
        prop_assert_eq!(&some.sources[..], &all.sources[first..behind]);
        for (source, range) in some.rows.iter().enumerate() {
            prop_assert_eq!(range, &(befores[first][source]..befores[behind][source]));
            prop_assert!(range.end - range.start <= mixture.at_most(source, end - start));
        }
    }

    #[test]
    fn parts_are_whole_and_nearest_to_their_weights(total in 0_u64..3000, weights in prop::collection::vec(any_weight(), 1..9)) {
        let sum: f64 = weights.iter().sum();
        prop_assume!(sum > 0.0);
        let parts = apportion(total, &weights);
        prop_assert_eq!(parts.iter().sum::<u64>(), total);
        for (part, weight) in parts.iter().zip(&weights) {
            prop_assert!((*part as f64 - total as f64 * weight / sum).abs() < 1.0);
            prop_assert!(*weight > 0.0 || *part == 0);
        }
    }
}

#[test]
fn a_turn_that_never_comes_has_no_row() {
    let never = [Weight::Constant(1.0), table(&[(0, 1.0), (5000, 0.0)])];
    let mixture = mixture(&never, 1, 3).expect("two sources");
    assert!(mixture.row_of(1, 2499).is_some_and(|row| row < 5000));
    assert_eq!(mixture.row_of(1, 2500), None);
    assert_eq!(mixture.row_of(0, 2500), Some(5000));
    assert_eq!(mixture.rows_before(1 << 60)[1], 2500);
}

#[test]
fn periods_have_equal_shares_and_different_orders() {
    let even = mixture(&constant(&[0.3, 0.7]), 1, 5).expect("two sources");
    let mut firsts = vec![0_u32; 1000];
    for row in 0..400 * PERIOD {
        let slot = usize::try_from(row % PERIOD).expect("small");
        firsts[slot] += u32::from(even.assign(row..row + 1).sources[0] == 0);
    }
    // 400 draws of 0.3 a slot: 120 ± 9.2, within six standard deviations.
    assert!(firsts.iter().all(|count| (65..=175).contains(count)), "{firsts:?}");
    // Runs of one source are as short as in a shuffle: 0.7^60 is 5e-10.
    let sources = even.assign(0..100 * PERIOD).sources;
    assert!(sources.windows(60).all(|run| run.contains(&0)), "sources are interleaved");
    let other = mixture(&constant(&[0.3, 0.7]), 1, 6).expect("two sources");
    assert_ne!(other.assign(0..100).sources, even.assign(0..100).sources, "another seed deals in another order");
}

/// Golden values of the format; they must never change.
#[test]
fn the_order_of_a_period_is_known() {
    let weights = [Weight::Constant(2.0), table(&[(0, 1.0), (4000, 3.0)]), Weight::Constant(1.0)];
    let mixture = mixture(&weights, 2, 7).expect("three sources");
    let shares: Vec<_> = mixture.recipes().iter().map(|recipe| (recipe.period, recipe.shares.clone())).collect();
    assert_eq!(shares, [(0, vec![500, 250, 250]), (2, vec![333, 500, 167])]);
    assert_eq!(mixture.assign(0..20).sources, [0, 0, 2, 2, 2, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 0, 0]);
    // Two periods of the first weights and one of the second; each position is two rows.
    assert_eq!(mixture.rows_before(6000), [2 * 1333, 2 * 1000, 2 * 667]);
}

#[test]
fn a_far_row_is_found_at_once() {
    let weights = [Weight::Constant(0.999), Weight::Constant(0.001)];
    let mixture = mixture(&weights, 3, 7).expect("two sources");
    let row = (1 << 62) + 5;
    let before = mixture.rows_before(row);
    assert_eq!(before.iter().sum::<u64>(), row);
    let assigned = mixture.assign(row..row + 1);
    let source = usize::from(assigned.sources[0]);
    assert_eq!((assigned.rows[source].start, mixture.row_of(source, before[source])), (before[source], Some(row)));
}

#[test]
fn weights_that_are_no_shares_are_refused_with_a_way_out() {
    let said = |weights: &[Weight]| {
        let problems = mixture(weights, 2, 1).expect_err("refused");
        assert!(problems.iter().all(|problem| problem.hint.is_some()), "{problems:?}");
        problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
    };
    let one = Weight::Constant(1.0);
    for (weight, words) in [
        (Weight::Constant(-1.0), "`sources.b.weight`: -1 is not a weight"),
        (Weight::Constant(f64::NAN), "NaN is not a weight"),
        (Weight::Constant(f64::INFINITY), "inf is not a weight"),
        (Weight::Constant(1e-4), "less than one row of 1000"),
        (table(&[]), "no weight for the start of the stream"),
        (table(&[(5, 1.0)]), "begin with `{ rows = 0"),
        (table(&[(0, 1.0), (9000, 2.0), (7000, 1.0)]), "a weight from row 7000 on is listed after one from row 9000"),
        (table(&[(0, 1.0), (2001, 2.0), (3999, 1.0)]), "rows 2001 and 3999 round to the same"),
    ] {
        let text = said(&[one.clone(), weight]);
        assert!(text.contains(words), "{words}: {text}");
    }
    let zero = said(&[table(&[(0, 1.0), (4000, 0.0)]), table(&[(0, 1.0), (3000, 0.0)])]);
    assert!(zero.contains("`sources`: from row 4000 on, no source has a share"), "{zero}");
    assert!(said(&[]).contains("0 sources"));
    assert!(said(&constant(&[f64::MAX, f64::MAX])).contains("inf"));
}

#[test]
fn a_weight_is_read_as_it_is_written() {
    #[derive(Debug, Default, PartialEq, serde::Deserialize)]
    #[serde(default)]
    struct Source {
        weight: Weight,
    }
    #[derive(Debug, PartialEq, serde::Deserialize)]
    struct Sources {
        sources: BTreeMap<String, Source>,
    }
    let text = "[sources.a]\nfolder = 'x'\nweight = 2\n[sources.b]\nfolder = 'y'\n\
                weight = [{ rows = 0, weight = 0.5 }, { rows = 9_000, weight = 1 }]\n[sources.c]\nfolder = 'z'";
    let read: Sources = toml::from_str(text).expect("three sources");
    let weights: Vec<&Weight> = read.sources.values().map(|source| &source.weight).collect();
    let expected = [Weight::Constant(2.0), table(&[(0, 0.5), (9000, 1.0)]), Weight::Constant(1.0)];
    assert_eq!(weights, expected.iter().collect::<Vec<_>>());
    for wrong in
        ["'much'", "[{ rows = 0 }]", "[0.5]", "[{ rows = -1, weight = 1 }]", "[{ rows = 0, weight = 1, x = 1 }]"]
    {
        let error = toml::from_str::<Sources>(&format!("[sources.a]\nweight = {wrong}")).expect_err(wrong).to_string();
        assert!(error.contains("a weight is a number, or a list like"), "{wrong}: {error}");
    }
    assert!(table(&[(0, 0.0), (9, 0.0)]).is_never() && !table(&[(0, 0.0), (9, 1.0)]).is_never());
}

#[test]
fn a_mixed_vocabulary_counts_what_is_seen() {
    let special = SpecialIds { pad: 0, unk: None, cls: 1, sep: 2, mask: 3 };
    let tokens = || ["p", "c", "s", "m", "x", "y"].map(String::from).to_vec();
    let vocab = |counts: [u64; 6]| Arc::new(Vocab::new(tokens(), vec![true; 6], counts.to_vec(), special, &[]));
    let sources = [vocab([0, 0, 0, 0, 1000, 0]), vocab([0, 0, 0, 0, 1, 9])];
    // 1010 tokens: half distributed as in the first, half as in the second.
    assert_eq!(merge_vocabs(&sources, &[500, 500]).counts(), [0, 0, 0, 0, 505 + 51, 455]);
    let first = merge_vocabs(&sources[..1], &[1000]);
    assert_eq!((first.counts(), &first), (sources[0].counts(), &*sources[0]));
    let huge = vocab([0, 0, 0, 0, u64::MAX, u64::MAX]);
    assert_eq!(merge_vocabs(&[huge.clone(), huge], &[1, 999]).counts()[4], u64::MAX);
}
