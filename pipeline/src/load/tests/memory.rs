//! What is decoded and in flight stays within `data.memory_max`.

use super::*;

#[test]
fn lanes_yield_to_memory_and_what_cannot_fit_is_refused() {
    let (home, views, wanted) = (home(&Synthetic::default()), taco(), wanted());
    let plan = |memory_max| {
        // One window: it asks no lane to yield.
        let data = DataConfig { memory_max, depth: 6, shuffle_blocks: 100, ..data(3) };
        LoadPlan::new(&home.request(&data, &views, &wanted))
    };
    let bytes = |plan: &LoadPlan| plan.facts().batches_bytes + plan.facts().groups_bytes;
    let order = |plan: &LoadPlan| plan.explain_rows(&plan.groups(), 0..200).expect("decodable");
    let most = plan(u64::MAX).expect("room");
    assert_eq!((most.lanes.workers, most.lanes.queue_depth), (3, 6));
    let mut at_most = bytes(&most);
    let mut seen = vec![most.lanes];
    let problems = loop {
        match plan(at_most) {
            Ok(plan) => {
                assert!(bytes(&plan) <= at_most, "{:?}", plan.lanes);
                assert_eq!(order(&plan), order(&most), "{:?}", plan.lanes);
                seen.push(plan.lanes);
                at_most = bytes(&plan) - 1;
            }
            Err(problems) => break problems,
        }
    };
    let counts: Vec<_> = seen.iter().map(|lanes| (lanes.workers, lanes.queue_depth)).collect();
    assert_eq!(counts, [(3, 6), (3, 6), (3, 5), (3, 4), (3, 3), (3, 2), (3, 1), (2, 1), (1, 1)]);
    assert!(problems.iter().all(|problem| problem.key == "data.memory_max" && problem.hint.is_some()), "{problems:?}");
}

/// Streams of shuffled windows, for one rank and for more than windows were made wide for.
#[test]
fn a_stream_stays_within_what_its_lanes_are_said_to_take() {
    let home = home(&Synthetic { train_rows: 2000, ..Synthetic::default() });
    let (views, wanted) = (taco(), wanted());
    let plan = |shuffle_blocks, memory_max| {
        let data = DataConfig { memory_max, depth: 6, shuffle_blocks, ..data(4) };
        LoadPlan::new(&home.request(&data, &views, &wanted)).map(Arc::new)
    };
    for shuffle_blocks in [1, 16] {
        let (roomy, rest) = (plan(shuffle_blocks, u64::MAX).expect("room"), DataConfig::default().memory_max);
        assert!(!roomy.facts().resident);
        let one = PoolOptions { workers: 1, queue_depth: 1, ..roomy.lanes };
        for ranks in [1, 2, 5] {
            let share = Share::new(0, ranks).expect("the first");
            let total = |(batches, groups): (u64, u64)| batches + groups;
            let least = total(roomy.bytes_at_most(one, ranks.into()));
            // Of five ranks with windows of a group the plan of one would take less.
            for memory_max in [least, least + least / 3, rest] {
                let plan = plan(shuffle_blocks, memory_max).expect("room for one lane");
                let lanes = plan.lanes_of(share);
                let (batches_bytes, groups_bytes) = plan.bytes_at_most(lanes, ranks.into());
                assert!(batches_bytes + groups_bytes <= memory_max, "{lanes:?} of {ranks} ranks");
                let mut stream = plan.stream(RowIndex(0), share);
                // Whatever its rows, an array has some hundred bytes of its own.
                let arrays = wanted.len() * 128;
                let most = stream.by_ref().take(200).map(|batch| batch.expect("good").bytes() - arrays).max();
                let most = (most.expect("batches") * lanes.max_items_alive()) as u64;
                assert!(most <= batches_bytes, "{most} of {batches_bytes}: {lanes:?} of {ranks} ranks");
                let (found, alive_max) =
                    (stream.groups().alive_max(), plan.groups_alive_max(lanes, ranks.into()).sum());
                assert!(found <= alive_max, "{found} of {alive_max} groups: {lanes:?} of {ranks} ranks");
            }
        }
    }
}
