use std::collections::{BTreeMap, BTreeSet};

use schemas::ordinal::{BatchIndex, Step};
use schemas::{Batch, BatchBuilder};
use trainer_plan::objectives::Reduction;
use trainer_plan::run_weights;

use super::*;
use crate::model::forward::StepContext;
use crate::model::layers::Mode;
use crate::model::networks::built::Networks;
use crate::model::parameters::Parameters;
use crate::model::upload::send_column;
use crate::testing;

const WIDTH: usize = 8;
/// Number of tokens of each row; one row has only padding.
const LENGTHS: [usize; 4] = [8, 5, 0, 3];
const SPECIAL: SpecialIds = SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 };

/// Builds rows of those lengths: [CLS] words [SEP] padding, column 1 masked; the positive is the column to the right.
fn batch(index: u64, lengths: &[usize]) -> Batch {
    let cells = || (0..lengths.len()).flat_map(|row| (0..WIDTH).map(move |at| (lengths[row], row, at)));
    let id = |(length, _, at): (usize, usize, usize)| match at {
        at if at >= length => 0,
        0 => 2,
        1 => 4,
        at if at + 1 == length => 3,
        _ => 9,
    };
    let place = |at: usize| i16::try_from(at).expect("narrow rows");
    let positive = |(length, _, at): (usize, usize, usize)| if at + 1 < length { place(at + 1) } else { -1 };
    // Rows 0 and 1 share document 5; frame tokens belong to none.
    let document = |cell: (usize, usize, usize)| match (id(cell), cell.1) {
        (0 | 2 | 3, _) => -1,
        (_, 0 | 1) => 5,
        _ => 6,
    };
    let mut builder = BatchBuilder::new(BatchIndex(index), lengths.len());
    builder.push("masked", INPUT_IDS, WIDTH, cells().map(id).collect());
    let label = |cell| if id(cell) == 4 { 9 } else { IGNORE };
    builder.push("masked", LABELS, WIDTH, cells().map(label).collect());
    builder.push("masked", ATTENTION_MASK, WIDTH, cells().map(|(length, _, at)| u8::from(at < length)).collect());
    builder.push("masked", DOCUMENT, WIDTH, cells().map(document).collect());
    builder.push("neighbors", POSITIVES, WIDTH, cells().map(positive).collect());
    builder.finish()
}

fn flats(tensor: &Tensor) -> Vec<i64> {
    Vec::try_from(tensor.reshape([-1])).expect("whole numbers")
}

fn networks() -> Networks {
    let plan = testing::plan();
    let specs = run_weights::of_networks(&plan.encoder, &BTreeMap::new(), plan.vocab.size);
    let parameters = Parameters::new(&specs, 1, tch::Device::Cpu);
    Networks::build(&plan.encoder, &BTreeMap::new(), &plan.vocab, plan.train.precision, &parameters)
}

fn anchored(batch: &Batch, config: &TokenContrastive) -> AnchorPairs {
    let _generator = testing::generator();
    let networks = networks();
    AnchorPairs::new(&HostBatch::new(batch, &networks).expect("a good batch"), config, SPECIAL)
}

/// Returns the anchor, the negative and whether it counts, for every pair drawn for a batch.
fn draw(config: &TokenContrastive, batch: &Batch, seed: u64) -> Vec<(i64, i64, bool)> {
    let _generator = testing::generator();
    let networks = networks();
    let context = StepContext { seed, step: Step(3), mode: Mode::Train };
    let none = BTreeSet::new();
    let batch = HostBatch::new(batch, &networks).expect("a good batch");
    let anchored = AnchorPairs::new(&batch, config, SPECIAL);
    let mut staging = Staging::default();
    anchored.send("tc", &mut staging);
    send_column(&batch, &config.view, DOCUMENT, &mut staging);
    let forward = Forward::run(&batch, &none, &none, context, staging).expect("all columns are there");
    let drawn = anchored.draw(&forward, config, "tc");
    let anchors = drawn.anchors_n.unsqueeze(1).expand_as(&drawn.negatives_nk);
    let counts = drawn.excluded_nk.map_or_else(|| anchors.ones_like(), |excluded| 1 - excluded.to_kind(Kind::Int64));
    let pairs = flats(&anchors).into_iter().zip(flats(&drawn.negatives_nk)).zip(flats(&counts));
    pairs.map(|((anchor, negative), counts)| (anchor, negative, counts == 1)).collect()
}

fn row_and_column(flat: i64) -> (usize, usize) {
    let flat = usize::try_from(flat).expect("not negative");
    (flat / WIDTH, flat % WIDTH)
}

#[test]
fn negatives_are_real_tokens_of_other_rows_each_as_often() {
    let config = TokenContrastive { negatives: 400, ..TokenContrastive::default() };
    let mut times: BTreeMap<(usize, usize), f64> = BTreeMap::new();
    for (anchor, negative, counts) in draw(&config, &batch(0, &LENGTHS), 1) {
        let ((own, _), (row, column)) = (row_and_column(anchor), row_and_column(negative));
        assert!(counts && own != row && column < LENGTHS[row], "{anchor} {negative}");
        if own == 0 {
            *times.entry((row, column)).or_default() += 1.0;
        }
    }
    // 7 anchors of row 0 draw 2,800: half from row 1 (5 columns), half from row 3 (3 columns).
    assert_eq!(times.len(), 8);
    let share = |row: usize| 1400.0 / LENGTHS[row] as f64;
    let chi_square: f64 = times.iter().map(|(&(row, _), &seen)| (seen - share(row)).powi(2) / share(row)).sum();
    assert!(chi_square < 24.3, "7 degrees of freedom exceed that once in a thousand: {chi_square} for seed 1");
}

#[test]
fn anchors_of_a_row_can_share_one_draw() {
    let distinct = |shared_negatives| {
        let config = TokenContrastive { shared_negatives, ..TokenContrastive::default() };
        let mut of_row: BTreeMap<usize, BTreeSet<Vec<i64>>> = BTreeMap::new();
        for of_anchor in draw(&config, &batch(0, &LENGTHS), 1).chunks(50) {
            let own = row_and_column(of_anchor[0].0).0;
            assert!(of_anchor.iter().all(|&(_, negative, counts)| counts && row_and_column(negative).0 != own));
            of_row.entry(own).or_default().insert(of_anchor.iter().map(|pair| pair.1).collect());
        }
        of_row.into_values().map(|draws| draws.len()).collect::<Vec<_>>()
    };
    assert_eq!(distinct(true), [1, 1, 1]);
    assert_eq!(distinct(false), [7, 4, 2]);
}

#[test]
fn a_draw_is_a_function_of_seed_and_batch() {
    let config = TokenContrastive::default();
    assert_eq!(draw(&config, &batch(0, &LENGTHS), 1), draw(&config, &batch(0, &LENGTHS), 1));
    assert_ne!(draw(&config, &batch(0, &LENGTHS), 1), draw(&config, &batch(0, &LENGTHS), 2));
    assert_ne!(draw(&config, &batch(0, &LENGTHS), 1), draw(&config, &batch(1, &LENGTHS), 1));
}

#[test]
fn matched_negatives_lie_as_far_as_positives_do() {
    let config = TokenContrastive { negative_columns: NegativeColumns::Matched, ..TokenContrastive::default() };
    let mut offsets = BTreeSet::new();
    let pairs = draw(&config, &batch(0, &[8, 8, 3]), 1);
    for &(anchor, negative, counts) in &pairs {
        let ((own, from), (row, to)) = (row_and_column(anchor), row_and_column(negative));
        assert_ne!(own, row);
        if counts {
            assert!(to < [8, 8, 3][row]);
            offsets.insert(i64::try_from(to).expect("small") - i64::try_from(from).expect("small"));
        }
    }
    assert_eq!(offsets, BTreeSet::from([-2, -1, 1, 2]));
    // Column 6 has no neighbour within 2 in the short row. Each draw picks the long row with probability 1/2, so one of
    // 5 draws (4 redraws) does in 31 of 32 cases.
    let of_column_6: Vec<bool> = pairs.iter().filter(|pair| pair.0 == 6).map(|pair| pair.2).collect();
    assert!(of_column_6.iter().filter(|&&counts| counts).count() > of_column_6.len() * 4 / 5);
}

#[test]
fn negatives_of_the_own_document_are_left_out() {
    let config = TokenContrastive { exclude_same_document: true, ..TokenContrastive::default() };
    // The batch has only rows 0 and 1, which share their document: only frame tokens remain as negatives.
    let pairs = draw(&config, &batch(0, &[8, 5]), 1);
    let mut kept = 0;
    let mut excluded_count = 0;
    for (anchor, negative, counts) in pairs {
        let ((_, from), (row, to)) = (row_and_column(anchor), row_and_column(negative));
        let is_frame = |row: usize, at: usize| at == 0 || at + 1 == [8, 5][row];
        let own_is_frame = is_frame(row_and_column(anchor).0, from);
        assert_eq!(counts, own_is_frame || is_frame(row, to), "{anchor} {negative}");
        *(if counts { &mut kept } else { &mut excluded_count }) += 1;
    }
    assert!(kept > 0 && excluded_count > 0);
}

#[test]
fn switches_choose_anchors() {
    let check = |config: TokenContrastive, expected: &[i64], count: f64| {
        let found = anchored(&batch(0, &LENGTHS), &config);
        assert_eq!(found.anchors, expected, "{config:?}");
        assert!(found.positives.iter().zip(expected).all(|(positive, anchor)| *positive == anchor + 1));
        assert!((found.count() - count).abs() < 1e-9, "{config:?}: {}", found.count());
    };
    let base = TokenContrastive::default;
    // A row's last token has no right neighbour here.
    let all: [i64; 13] = [0, 1, 2, 3, 4, 5, 6, 8, 9, 10, 11, 24, 25];
    check(base(), &all, 13.0);
    check(TokenContrastive { reduction: Reduction::Sequences, ..base() }, &all, 3.0);
    check(TokenContrastive { specials: false, ..base() }, &[1, 2, 3, 4, 5, 6, 9, 10, 11, 25], 10.0);
    check(TokenContrastive { anchors: Anchors::Masked, ..base() }, &[1, 9, 25], 3.0);
    let unmasked = [0, 2, 3, 4, 5, 6, 8, 10, 11, 24];
    check(TokenContrastive { anchors: Anchors::Unmasked, ..base() }, &unmasked, 10.0);
}

#[test]
fn one_row_with_tokens_has_no_anchors() {
    let found = anchored(&batch(0, &[8, 0, 0]), &TokenContrastive::default());
    assert_eq!(found.len(), 0);
    assert_eq!(draw(&TokenContrastive::default(), &batch(0, &[8, 0, 0]), 1), []);
}
