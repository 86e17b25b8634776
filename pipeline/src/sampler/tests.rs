//! Invariants of an epoch.

use std::collections::BTreeMap;

use proptest::prelude::*;
use schemas::{PartId, Shard};

use super::*;

fn split(groups: &[&[u32]]) -> Split {
    let shard = |groups: &&[u32]| Shard {
        path: String::new(),
        part: PartId(0),
        first_row: 0,
        rows: groups.iter().map(|&rows| u64::from(rows)).sum(),
        tokens: 0,
        groups: groups.to_vec(),
        bytes: 0,
        blake3: String::new(),
        content: String::new(),
    };
    Split { shards: groups.iter().map(shard).collect() }
}

fn options(seed: u64, window_blocks: usize) -> SamplerOptions {
    SamplerOptions { pieces: 1, copies: 1, seed, order: Order::Shuffled, window_blocks, fraction: 1.0 }
}

#[test]
fn a_fraction_of_the_data_is_the_same_part_of_every_block() {
    let split = split(&[&[8, 5], &[1]]);
    let sampler = Sampler::new(&split, SamplerOptions { fraction: 0.25, ..options(1, 2) });
    let kept: Vec<_> = sampler.blocks().iter().map(|block| (block.first.row, block.rows)).collect();
    assert_eq!(kept, [(0, 2), (8, 2), (0, 1)], "rows are counted over their part");
    assert_eq!(sampler.rows_per_epoch(), 5);
}

#[test]
fn windows_are_of_one_size_or_nearly() {
    assert_eq!(balanced(17, 16), [8, 9]);
    assert_eq!(balanced(16, 16), [16]);
    assert_eq!(balanced(3, 16), [3]);
    assert_eq!(balanced(5, 1), [1; 5]);
}

proptest! {
    #[test]
    fn an_epoch_visits_every_piece_once_and_copies_are_adjacent(
        groups in prop::collection::vec(prop::collection::vec(0_u32..9, 1..5), 1..6),
        window_blocks in 1_usize..6, pieces in 1_u32..4, copies in 1_u32..4, seed: u64, epoch in 0_u64..3,
    ) {
        let groups: Vec<&[u32]> = groups.iter().map(Vec::as_slice).collect();
        let split = split(&groups);
        prop_assume!(split.rows() > 0);
        let sampler = Sampler::new(&split, SamplerOptions { pieces, copies, seed, window_blocks, fraction: 1.0, order: Order::Shuffled });
        let rows = sampler.rows_per_epoch();
        prop_assert_eq!(rows, split.rows() * u64::from(pieces * copies));
        let epoch = Epoch(epoch);
        let picks = sampler.rows(epoch, 0..rows);
        let mut seen = BTreeMap::new();
        for (index, pick) in (0..).zip(&picks) {
            prop_assert_eq!(&[*pick][..], &sampler.rows(epoch, index..index + 1));
            prop_assert_eq!(u64::from(pick.copy), index % u64::from(copies));
            prop_assert!(sampler.window(epoch, pick.window).contains(&pick.block));
            *seen.entry((pick.block, pick.row, pick.piece)).or_insert(0) += 1;
        }
        prop_assert_eq!(seen.len() as u64 * u64::from(copies), rows);
        prop_assert!(seen.values().all(|&count| count == copies));
        prop_assert!(picks.windows(2).all(|pair| pair[0].window <= pair[1].window), "windows follow one another");
    }
}

#[test]
fn epochs_differ_and_seeds_differ() {
    let split = split(&[&[50, 50], &[50, 50, 17]]);
    let order = |seed, epoch: u64| {
        let sampler = Sampler::new(&split, options(seed, 2));
        let picks = sampler.rows(Epoch(epoch), 0..217);
        picks.iter().map(|pick| (pick.block, pick.row)).collect::<Vec<_>>()
    };
    assert_eq!(order(1, 0), order(1, 0));
    assert_ne!(order(1, 0), order(1, 1));
    assert_ne!(order(1, 0), order(2, 0));
}

#[test]
fn rows_of_a_window_are_drawn_uniformly() {
    let split = split(&[&[30, 50], &[20, 7]]);
    for pieces in [1, 3] {
        let sampler = Sampler::new(&split, SamplerOptions { pieces, ..options(1, 2) });
        for (epoch, window) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let epoch = Epoch(epoch);
            let blocks = sampler.window(epoch, window);
            let rows: u32 = blocks.iter().map(|&block| sampler.blocks()[block].rows).sum();
            let mut counts = BTreeMap::new();
            let rng = Key::new(1, Epoch(0), "", "test").row(SampleAddress::numbered(window), 0);
            for (block, row) in sampler.draws(epoch, window, rng).take(100 * rows as usize) {
                assert!(blocks.contains(&block) && row < sampler.blocks()[block].rows as usize);
                *counts.entry((block, row)).or_insert(0_u32) += 1;
            }
            assert_eq!(counts.len(), rows as usize, "every row is drawn");
            // 100 draws per row, within five standard deviations.
            assert!(counts.values().all(|count| (50..=150).contains(count)), "{counts:?}");
        }
    }
}

#[test]
fn stored_order_is_stored_order() {
    let sampler = Sampler::new(
        &split(&[&[2], &[0, 1]]),
        SamplerOptions { pieces: 2, order: Order::Spread(u64::MAX), ..options(5, 2) },
    );
    let picks: Vec<_> = sampler.rows(Epoch(0), 0..6).iter().map(|pick| (pick.block, pick.row, pick.piece)).collect();
    assert_eq!(picks, [(0, 0, 0), (0, 0, 1), (0, 1, 0), (0, 1, 1), (1, 0, 0), (1, 0, 1)]);
}

#[test]
fn any_step_is_found_at_once() {
    let groups = vec![2048; 100_000];
    let sampler = Sampler::new(&split(&[&groups]), options(5, 16));
    let began = std::time::Instant::now();
    assert_eq!(sampler.rows(Epoch(1 << 40), 1 << 25..(1 << 25) + 256).len(), 256);
    assert!(began.elapsed() < std::time::Duration::from_secs(1), "{:?}", began.elapsed());
}

proptest! {
    #[test]
    fn validation_is_as_many_samples_as_were_asked_for_from_all_over_the_split(
        groups in prop::collection::vec(prop::collection::vec(0_u32..200, 1..9), 1..9), samples in 1_u64..1200,
    ) {
        let groups: Vec<&[u32]> = groups.iter().map(Vec::as_slice).collect();
        let split = split(&groups);
        prop_assume!(split.rows() > 0);
        let sampler = Sampler::new(&split, SamplerOptions { order: Order::Spread(samples), ..options(1, 3) });
        let rows = sampler.rows_per_epoch();
        prop_assert_eq!(rows, samples.min(split.rows()));
        let picks = sampler.rows(Epoch(0), 0..rows);
        let place = |pick: &RowRef| (sampler.blocks()[pick.block].shard, sampler.blocks()[pick.block].group, pick.row);
        prop_assert!(picks.is_sorted_by(|a, b| place(a) < place(b)), "in stored order, none twice");
        for pick in &picks {
            prop_assert!(pick.row < sampler.blocks()[pick.block].stored as usize);
        }
    }
}

#[test]
fn validation_leaves_no_corner_of_the_split_out() {
    let split = split(&[&[2048; 40], &[2048; 60]]);
    let sampler = Sampler::new(&split, SamplerOptions { order: Order::Spread(800), ..options(1, 16) });
    let picks = sampler.rows(Epoch(0), 0..800);
    let mut groups: Vec<u32> = sampler.blocks().iter().map(|block| 40 * block.shard + block.group).collect();
    groups.dedup();
    assert_eq!(groups.len(), 25, "each for 32 rows");
    assert!(groups[0] < 4 && groups[24] >= 96 && groups.windows(2).all(|pair| pair[1] - pair[0] == 4), "{groups:?}");
    let rows: Vec<usize> = picks[..32].iter().map(|pick| pick.row).collect();
    assert_eq!(rows, (0..32).map(|row| 64 * row).collect::<Vec<_>>(), "all over the group");
}

#[test]
fn the_mixture_of_a_window_is_as_sure_as_it_is_large() {
    let split = split(&[&[10; 100], &[10; 156]]);
    let error = |window| Sampler::new(&split, options(1, window)).mixture_error();
    // √(240 / 255 / 16) / 2; for sources that occupy whole row groups, the share in a window of 16 varies by this
    // error.
    assert!((error(16) - 0.121_268).abs() < 1e-6 && error(64) < 0.055, "{} {}", error(16), error(64));
    assert!(error(256).abs() < f64::EPSILON && error(1) > 0.49);
    let sampler = Sampler::new(&split, options(3, 16));
    let shares: Vec<f64> = (0..16)
        .flat_map(|window| (0..30).map(move |epoch| (Epoch(epoch), window)))
        .map(|(epoch, window)| {
            let blocks = sampler.window(epoch, window);
            blocks.iter().filter(|&&block| block < 128).count() as f64 / blocks.len() as f64
        })
        .collect();
    let variance = shares.iter().map(|share| (share - 0.5).powi(2)).sum::<f64>() / shares.len() as f64;
    // Measured over 480 windows, within a fifth.
    assert!((variance.sqrt() / error(16) - 1.0).abs() < 0.2, "{}", variance.sqrt());
}

/// Parts that end shortly after a row group does: half of the groups contain nearly all rows.
#[test]
fn a_mixture_of_uneven_row_groups_is_less_sure() {
    let groups: Vec<u32> = (0..256).map(|group| if group % 2 == 0 { 2048 } else { 12 }).collect();
    let split = split(&[&groups]);
    let sampler = Sampler::new(&split, options(3, 16));
    let mut squares = Vec::new();
    for (epoch, window) in (0..30).flat_map(|epoch| (0..16).map(move |window| (Epoch(epoch), window))) {
        let blocks = sampler.window(epoch, window);
        let rows = |wanted: &dyn Fn(usize) -> bool| {
            blocks
                .iter()
                .filter(|&&block| wanted(block))
                .map(|&block| f64::from(sampler.blocks()[block].stored))
                .sum::<f64>()
        };
        let share = rows(&|block| block % 4 < 2) / rows(&|_| true);
        squares.push((share - 0.5).powi(2));
    }
    let found = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
    let promised = sampler.mixture_error();
    assert!(promised > 0.16 && (found / promised - 1.0).abs() < 0.2, "{found} is not {promised}");
}
