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
    assert_eq!((most.lanes.count, most.lanes.depth), (3, 6));
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
    let counts: Vec<_> = seen.iter().map(|lanes| (lanes.count, lanes.depth)).collect();
    assert_eq!(counts, [(3, 6), (3, 6), (3, 5), (3, 4), (3, 3), (3, 2), (3, 1), (2, 1), (1, 1)]);
    assert!(problems.iter().all(|problem| problem.key == "data.memory_max" && problem.hint.is_some()), "{problems:?}");
}
