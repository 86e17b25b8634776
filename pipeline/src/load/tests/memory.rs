//! Memory limit test: decoded groups and batches in flight stay within `data.max_memory_bytes`.

use super::*;

#[test]
fn workers_yield_to_memory_and_what_cannot_fit_is_refused() {
    let home = home(&Synthetic::default());
    let views = taco();
    let wanted = wanted();
    let plan = |max_memory_bytes| {
        // With one window, the number of workers is not reduced.
        let data = DataConfig { max_memory_bytes, prefetch_batches: 6, shuffle_window_groups: 100, ..data(3) };
        LoadPlan::new(&home.request(&data, &views, &wanted))
    };
    let bytes = |plan: &LoadPlan| plan.facts().batches_bytes + plan.facts().groups_bytes;
    let order = |plan: &LoadPlan| plan.explain_rows(&plan.groups(), 0..200).expect("decodable");
    let most = plan(u64::MAX).expect("room");
    assert_eq!((most.workers.workers, most.workers.queue_depth), (3, 6));
    let mut at_most = bytes(&most);
    let mut seen = vec![most.workers];
    let problems = loop {
        match plan(at_most) {
            Ok(plan) => {
                assert!(bytes(&plan) <= at_most, "{:?}", plan.workers);
                assert_eq!(order(&plan), order(&most), "{:?}", plan.workers);
                seen.push(plan.workers);
                at_most = bytes(&plan) - 1;
            }
            Err(problems) => break problems,
        }
    };
    let counts: Vec<_> = seen.iter().map(|workers| (workers.workers, workers.queue_depth)).collect();
    assert_eq!(counts, [(3, 6), (3, 6), (3, 5), (3, 4), (3, 3), (3, 2), (3, 1), (2, 1), (1, 1)]);
    assert!(
        problems.iter().all(|problem| problem.key == "data.max_memory_bytes" && problem.hint.is_some()),
        "{problems:?}"
    );
}

/// Streams of shuffled windows, for one rank and for more ranks than the windows were sized for.
#[test]
fn a_stream_stays_within_what_its_workers_are_said_to_take() {
    let home = home(&Synthetic { train_rows: 2000, ..Synthetic::default() });
    let views = taco();
    let wanted = wanted();
    let plan = |shuffle_window_groups, max_memory_bytes| {
        let data = DataConfig { max_memory_bytes, prefetch_batches: 6, shuffle_window_groups, ..data(4) };
        LoadPlan::new(&home.request(&data, &views, &wanted)).map(Arc::new)
    };
    for shuffle_window_groups in [1, 16] {
        let roomy = plan(shuffle_window_groups, u64::MAX).expect("room");
        let rest = DataConfig::default().max_memory_bytes;
        assert!(!roomy.facts().resident);
        let one = PoolOptions { workers: 1, queue_depth: 1, ..roomy.workers };
        for ranks in [1, 2, 5] {
            let share = RankShard::new(0, ranks).expect("the first");
            let total = |(batches, groups): (u64, u64)| batches + groups;
            let least = total(roomy.bytes_at_most(one, ranks.into()));
            // For five ranks with windows of one group, the plan of one rank would take less.
            for max_memory_bytes in [least, least + least / 3, rest] {
                let plan = plan(shuffle_window_groups, max_memory_bytes).expect("room for one worker");
                let workers = plan.workers_of(share);
                let (batches_bytes, groups_bytes) = plan.bytes_at_most(workers, ranks.into());
                assert!(batches_bytes + groups_bytes <= max_memory_bytes, "{workers:?} of {ranks} ranks");
                let mut stream = plan.stream(RowIndex(0), share);
                // Each array adds about a hundred bytes, whatever its rows.
                let arrays = wanted.len() * 128;
                let most = stream.by_ref().take(200).map(|batch| batch.expect("good").bytes() - arrays).max();
                let most = (most.expect("batches") * workers.max_items_alive()) as u64;
                assert!(most <= batches_bytes, "{most} of {batches_bytes}: {workers:?} of {ranks} ranks");
                let found = stream.groups().alive_max();
                let alive_max = plan.groups_alive_max(workers, ranks.into()).sum();
                assert!(found <= alive_max, "{found} of {alive_max} groups: {workers:?} of {ranks} ranks");
            }
        }
    }
}
