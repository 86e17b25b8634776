//! Rank tests: from any row, all ranks together see the stream of one.

use schemas::StreamHash;

use super::*;

/// Returns the digests of the first `rows` rows of the stream from `from` on, in the stream's order. `ranks` ranks read
/// them in micro-batches of `rows_per_batch`.
fn seen(home: &Home, ranks: u32, rows_per_batch: u64, from: u64, rows: u64) -> Vec<blake3::Hash> {
    let (views, wanted) = all_views();
    let data = DataConfig { copies_per_sample: 2, seq_len: Some(24), ..data(2) };
    let request = LoadRequest { rows_per_batch, ..home.request(&data, &views, &wanted) };
    let plan = Arc::new(LoadPlan::new(&request).expect("no problem"));
    let mut batches = Vec::new();
    for rank in 0..ranks {
        let share = RankShard::new(rank, ranks).expect("a rank");
        let own = usize::try_from(share.of(rows.div_ceil(rows_per_batch))).expect("small");
        batches.extend(plan.stream(RowIndex(from), share).take(own).map(|batch| batch.expect("good")));
    }
    batches.sort_by_key(Batch::first_row);
    let mut next = from;
    for batch in &batches {
        assert_eq!(batch.first_row().0, next, "{ranks} ranks take every row once");
        next += batch.rows() as u64;
    }
    let mut digests: Vec<_> = batches.iter().flat_map(|batch| batch.row_digests().to_vec()).collect();
    digests.truncate(usize::try_from(rows).expect("small"));
    digests
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    #[test]
    fn ranks_see_together_the_stream_of_one(ranks in 1_u32..4, micro_batches in 1_u64..4, rows_per_batch in 1_u64..6) {
        let home = home(&Synthetic { lengths: 0..63, train_rows: 50, ..Synthetic::default() });
        // The rows cross the end of an epoch of 50 · 2 · 2 rows.
        let per_step = u64::from(ranks) * micro_batches * rows_per_batch;
        let rows = 220_u64.next_multiple_of(per_step);
        let alone = seen(&home, 1, 7, 0, rows);
        let together = seen(&home, ranks, rows_per_batch, 0, rows);
        prop_assert_eq!(&together, &alone);
        let hash = |digests: &[blake3::Hash]| {
            let mut hash = StreamHash::new();
            digests.chunks(usize::try_from(per_step).expect("small")).for_each(|step| hash.step(step.iter().copied()));
            hash
        };
        prop_assert_eq!(hash(&together), hash(&alone));
    }

    #[test]
    fn a_stream_continues_at_any_row(from in 0_u64..210, ranks in 1_u32..4, rows_per_batch in 1_u64..6) {
        let home = home(&Synthetic { lengths: 0..63, train_rows: 50, ..Synthetic::default() });
        let all = seen(&home, 1, 7, 0, from + 30);
        let at = usize::try_from(from).expect("small");
        prop_assert_eq!(&seen(&home, ranks, rows_per_batch, from, 30), &all[at..]);
    }
}

#[test]
fn ranks_validate_on_every_row_once() {
    let home = home(&Synthetic::default());
    let plan = home.plan(&data(2), Rows::Valid { rows: 33 });
    for ranks in 1..6 {
        let shares = (0..ranks).map(|rank| RankShard::new(rank, ranks).expect("a rank"));
        let mut batches: Vec<(BatchIndex, RowIndex, usize)> = shares
            .flat_map(|share| plan.stream(RowIndex(0), share))
            .map(|batch| batch.expect("good"))
            .map(|batch| (batch.index(), batch.first_row(), batch.rows()))
            .collect();
        batches.sort();
        let expected = [(0, 8), (8, 8), (16, 8), (24, 9)].map(|(first, rows)| (RowIndex(first), rows));
        let indices = (0..4).map(BatchIndex);
        let expected: Vec<_> = indices.zip(expected).map(|(index, (first, rows))| (index, first, rows)).collect();
        assert_eq!(batches, expected, "{ranks} ranks");
    }
}

#[test]
fn workers_yield_to_the_rows_of_all_ranks() {
    let home = home(&Synthetic { train_rows: 2000, ..Synthetic::default() });
    let plan = home.plan(&DataConfig { shuffle_window_groups: 8, prefetch_batches: 6, ..data(4) }, Rows::Train);
    for ranks in [1, 2, 3] {
        let share = RankShard::new(ranks - 1, ranks).expect("the last");
        let workers = plan.workers_of(share);
        let in_flight = workers.max_items_alive() as u64 * plan.rows_per_batch() * u64::from(ranks);
        assert!(
            in_flight <= plan.sources[0].epoch_plan.first().sampler().window_rows_min(),
            "{workers:?} of {ranks} ranks"
        );
        let mut stream = plan.stream(RowIndex(0), share);
        stream.by_ref().take(300).for_each(|batch| drop(batch.expect("good")));
        let alive_max = plan.groups_alive_max(workers, ranks.into()).sum();
        assert!(stream.groups().alive_max() <= alive_max, "{ranks} ranks");
    }
}
