//! Masks of a row's copies: disjoint, and each with the usual distribution.

use super::*;

fn disjoint(unit: Unit, rate: f64) -> Mask {
    Mask { disjoint: true, word_budget: WordBudget::Words, ..mask(unit, rate) }
}

#[test]
fn parts_are_as_large_as_they_can_be() {
    let keys = Keys::new(0, Epoch(0), "v");
    let check = |size, of, copies: u32, expected: &[std::ops::Range<usize>]| {
        let parts: Vec<_> = (0..copies).map(|copy| explored::part(size, of, &super::at(&keys, copy, copies))).collect();
        assert_eq!(parts, expected, "{copies} parts of {size} from {of}");
    };
    check(3, 10, 3, &[0..3, 3..6, 6..9]);
    check(5, 10, 2, &[0..5, 5..10]);
    check(4, 10, 3, &[0..3, 3..6, 6..9]);
    // More copies than tokens: the parts repeat.
    check(2, 3, 5, &[0..1, 1..2, 2..3, 0..1, 1..2]);
    check(0, 3, 2, &[0..0, 0..0]);
    check(0, 0, 2, &[0..0, 0..0]);
}

#[test]
fn copies_of_pieces_share_the_order_of_their_own_piece() {
    let keys = Keys::new(0, Epoch(0), "v");
    let address = |copy| RowAddress { copy, pieces: 3, ..super::at(&keys, copy, 4) };
    assert_eq!([0, 2, 3, 11].map(|copy| address(copy).copy_number()), [0, 0, 1, 3]);
    assert_eq!([0, 2, 3, 11].map(|copy| address(copy).shared().copy), [0, 2, 0, 2]);
}

#[test]
fn disjoint_masks_of_any_unit_have_one_size_and_do_not_overlap() {
    // Words of one length, so that numbers of words and of tokens agree.
    for (unit, content) in [
        (Unit::Subword, words_of(&[1, 3], 200)),
        (Unit::Word, words_of(&[2], 200)),
        (Unit::Span, words_of(&[1, 3, 2], 200)),
    ] {
        for (rate, copies, expected) in [(0.15, 4, 30), (0.25, 4, 50), (0.2, 7, 28), (0.15, 1, 30)] {
            let rows = masks(&disjoint(unit, rate), &content, 20, copies);
            for copies in rows.chunks(copies as usize) {
                let union: BTreeSet<usize> = copies.iter().flatten().copied().collect();
                assert!(copies.iter().all(|mask| mask.len() == expected), "{unit:?}, {rate}");
                assert_eq!(union.len(), expected * copies.len(), "{unit:?}, {rate}: disjoint");
                assert!(union.iter().all(|&at| at < 200), "no special token");
            }
            let mut orders: Vec<_> = rows.chunks(copies as usize).collect();
            orders.dedup();
            assert_eq!(orders.len(), 20, "every row has its own order");
        }
    }
}

#[test]
fn copies_share_a_size_that_is_drawn() {
    for count in [Count::Bernoulli, Count::StochasticRound] {
        let rows = masks(&Mask { count, ..disjoint(Unit::Subword, 0.155) }, &[9; 100], 50, 4);
        let sizes: Vec<usize> = rows.iter().map(BTreeSet::len).collect();
        assert!(sizes.chunks(4).all(|sizes| sizes.iter().all(|size| size == &sizes[0])), "{count:?}: {sizes:?}");
        assert!(sizes.iter().any(|size| size != &sizes[0]), "{count:?} varies from row to row");
        assert!(rows.chunks(4).all(|row| row[0].is_disjoint(&row[3])));
    }
}

#[test]
fn more_copies_than_tokens_cycle() {
    let rows = masks(&disjoint(Unit::Subword, 0.15), &[9; 3], 50, 5);
    for copies in rows.chunks(5) {
        assert!(copies.iter().all(|mask| mask.len() == 1));
        assert_eq!([&copies[3], &copies[4]], [&copies[0], &copies[1]]);
        assert_eq!(copies[..3].iter().flatten().collect::<BTreeSet<_>>().len(), 3, "the first three are a partition");
    }
    assert!(masks(&disjoint(Unit::Span, 0.15), &[], 3, 2).iter().all(BTreeSet::is_empty));
}

#[test]
fn every_copy_masks_every_position_equally_often() {
    for unit in [Unit::Subword, Unit::Span] {
        let rows = masks(&disjoint(unit, 0.15), &words_of(&[1], 64), 4000, 4);
        for copy in 0..4 {
            let mut counts = vec![0.0_f64; 64];
            rows.iter().skip(copy).step_by(4).flatten().for_each(|&at| counts[at] += 1.0);
            // Tokens of one span are selected together: a span of l words raises the variance up to l-fold.
            let expected = 4000.0 * 10.0 / 64.0;
            let chi_square: f64 = counts.iter().map(|count| (count - expected).powi(2) / expected).sum();
            let together = if unit == Unit::Span { 10.0 } else { 1.0 };
            assert!(chi_square < together * (64.0 + 5.0 * 128_f64.sqrt()), "{unit:?}, copy {copy}: {chi_square}");
        }
    }
}

#[test]
fn the_first_copy_is_the_mask_of_a_single_row_and_each_decides_by_itself() {
    for unit in [Unit::Subword, Unit::Span] {
        let plain = Mask { word_budget: WordBudget::Words, ..mask(unit, 0.15) };
        let single = render(&plain, &[9; 100], 10, 1);
        let copies = render(&disjoint(unit, 0.15), &[9; 100], 10, 4);
        assert_eq!(chosen(&single), chosen(&copies).into_iter().step_by(4).collect::<Vec<_>>());
        let ids = |batch: &Batch, row| batch.column("view", INPUT_IDS).expect("made").row(row).to_vec();
        assert_eq!(ids(&single, 3), ids(&copies, 12));
    }
    // Copies with the same token share its position, and nothing else.
    let view = Mask { replacement: [50, 0, 50], ..disjoint(Unit::Subword, 0.15) };
    let batch = render(&view, &[9], 1, 64);
    let ids = batch.column("view", INPUT_IDS).expect("made");
    let hidden = (0..64).filter(|&row| ids.row(row)[1] == 4).count();
    assert!((12..=52).contains(&hidden), "{hidden} of 64");
}

/// Row of the table of mask statistics: tokens, τ, K; coverage of disjoint masks; coverage, distance and overlap of
/// independent ones; additive law of the covariance, and of the variance of the mean.
type Statistics = (u16, usize, u32, f64, f64, f64, f64, f64, f64);

const TABLE: [Statistics; 6] = [
    (16, 4, 4, 1.0, 0.683_594, 6.0, 1.0, -0.333_333, 0.0),
    (64, 8, 4, 0.5, 0.413_818, 14.0, 1.0, -0.142_857, 0.571_429),
    (510, 76, 4, 0.596_078, 0.475_581, 129.349, 11.325_5, -0.175_115, 0.474_654),
    (512, 77, 4, 0.601_562, 0.478_953, 130.840, 11.580_1, -0.177_011, 0.468_966),
    (512, 64, 8, 1.0, 0.656_391, 112.0, 8.0, -0.142_857, 0.0),
    (512, 128, 4, 1.0, 0.683_594, 192.0, 32.0, -0.333_333, 0.0),
];

#[test]
fn mask_statistics_match_the_specification() {
    for (n, tau, copies, coverage, coverage_iid, distance_iid, overlap_iid, covariance, variance) in TABLE {
        let what = format!("n = {n}, tau = {tau}, K = {copies}");
        let content: Vec<u16> = vec![9; n.into()];
        let view = mask(Unit::Subword, tau as f64 / f64::from(n));
        let draw = |disjoint| masks(&Mask { disjoint, ..view.clone() }, &content, 1000, copies);
        let explored = draw(true);
        let independent = draw(false);
        let count = copies as usize;
        for masks in explored.chunks(count) {
            assert!((covered(masks) / f64::from(n) - coverage).abs() < 1e-6, "{what}");
            assert!(masks.iter().all(|mask| mask.len() == tau), "{what}");
            assert_eq!(masks[0].symmetric_difference(&masks[1]).count(), 2 * tau, "{what}");
        }
        let over = |masks: &[BTreeSet<usize>], statistic: &dyn Fn(&[BTreeSet<usize>]) -> f64, expected: f64| {
            assert_mean(&masks.chunks(count).map(statistic).collect::<Vec<_>>(), expected, &what);
        };
        over(&independent, &|masks| covered(masks) / f64::from(n), coverage_iid);
        over(&independent, &|masks| masks[0].symmetric_difference(&masks[1]).count() as f64, distance_iid);
        over(&independent, &|masks| masks[0].intersection(&masks[1]).count() as f64, overlap_iid);
        let share = |masks: &[BTreeSet<usize>]| variance_share(masks, n, tau);
        over(&independent, &share, 1.0);
        over(&explored, &share, variance);
        // The variance V/K + (1 − 1/K) C of the mean gives the covariance C of two masks in units of V.
        over(&explored, &|masks| (share(masks) - 1.0) / f64::from(copies - 1), covariance);
    }
}

fn covered(masks: &[BTreeSet<usize>]) -> f64 {
    masks.iter().flatten().collect::<BTreeSet<_>>().len() as f64
}

/// Returns `(ḡ − E g)²`, `ḡ` being the mean of `g(m) = Σ_{i ∈ m} v_i` over a row's masks, in units of the variance of
/// the mean of as many independent masks: gradients that are sums over tokens.
fn variance_share(masks: &[BTreeSet<usize>], n: u16, tau: usize) -> f64 {
    let n = f64::from(n);
    let tau = tau as f64;
    let copies = masks.len() as f64;
    // Any numbers that are not all equal; these add up to 0.
    let value = |at: usize| at as f64 - (n - 1.0) / 2.0;
    let value_variance = (n * n - 1.0) / 12.0;
    let single = tau * (n - tau) / (n - 1.0) * value_variance;
    let mean = masks.iter().flatten().map(|&at| value(at)).sum::<f64>() / copies;
    mean.powi(2) / (single / copies)
}
