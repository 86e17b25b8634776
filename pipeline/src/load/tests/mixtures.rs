//! Several sources in one stream.

use std::ops::Range;

use schemas::{SampleAddress, StreamHash, TokenIds};

use super::bad_rows::{MemoryBadRows, Panics};
use super::*;
use crate::exposure::RowDocuments;
use crate::mixture::{PERIOD, Weight, WeightFrom};
use crate::shard::reader::ShardReader;

/// Three folders that share only their tokenizer. Their samples have the same addresses, some the same tokens.
struct Sources {
    homes: Vec<Home>,
}

const NAMES: [&str; 3] = ["books", "news", "wiki"];

impl Sources {
    fn new() -> Self {
        let shape = |seed: u64, train_rows: u64, valid_rows: u64| Synthetic {
            lengths: 0..63,
            seed,
            train_rows,
            valid_rows,
            ..Synthetic::default()
        };
        // The first and the last have the same tokens, as far as they go.
        Self { homes: vec![home(&shape(1, 230, 33)), home(&shape(2, 90, 0)), home(&shape(1, 700, 10))] }
    }

    fn plan(&self, weights: &[Weight], data: &DataConfig, rows: Rows) -> Arc<LoadPlan> {
        self.tried(weights, data, rows).expect("no problem")
    }

    fn tried(&self, weights: &[Weight], data: &DataConfig, rows: Rows) -> Result<Arc<LoadPlan>, Vec<Problem>> {
        let (views, wanted) = all_views();
        let sources: Vec<SourceRequest<'_>> = self
            .homes
            .iter()
            .zip(NAMES)
            .zip(weights)
            .map(|((home, name), weight)| SourceRequest {
                name,
                weight,
                store: &home.store,
                manifest: &home.manifest,
                dataset_version: home.manifest.newest(),
                follow: None,
                gone: MissingParts::Refused,
            })
            .collect();
        let first = &self.homes[0];
        let request = LoadRequest { rows, sources: &sources, ..first.request(data, &views, &wanted) };
        LoadPlan::new(&request).map(Arc::new)
    }
}

fn weights() -> [Weight; 3] {
    let table = [(0, 0.5), (2 * PERIOD, 0.0), (5 * PERIOD, 1.0)];
    let table = table.map(|(rows, weight)| WeightFrom { rows, weight }).to_vec();
    [Weight::Constant(0.3), Weight::Constant(0.2), Weight::Table(table)]
}

/// Returns facts and digests of the rows of these batches.
fn rendered(plan: &LoadPlan, batches: Range<u64>) -> Vec<(RowFacts, blake3::Hash)> {
    let groups = plan.groups();
    let rows = |index| {
        let facts = plan.explain(&groups, index).expect("good");
        let batch = plan.batch(&groups, index).expect("good");
        facts.into_iter().zip(batch.row_digests().to_vec()).collect::<Vec<_>>()
    };
    batches.map(BatchIndex).flat_map(rows).collect()
}

#[test]
fn a_mixture_is_independent_of_worker_count_and_start() {
    let sources = Sources::new();
    let copies = |workers| DataConfig { copies_per_sample: 2, seq_len: Some(24), ..data(workers) };
    // The rows include both changes of weights, at rows 4000 and 10,000, rounded to periods of 2000 rows.
    let plan = sources.plan(&weights(), &copies(1), Rows::Train);
    let expected: Vec<_> = rendered(&plan, 0..1300).into_iter().map(|(_, digest)| digest).collect();
    for workers in [1, 3, 7] {
        let plan = sources.plan(&weights(), &copies(workers), Rows::Train);
        for start in [0, 1, 1999, 2000, 3993, 5999, 8005] {
            let mut stream = plan.stream(RowIndex(start), RankShard::ALONE);
            let seen: Vec<_> =
                stream.by_ref().take(40).flat_map(|batch| batch.expect("good").row_digests().to_vec()).collect();
            let start = usize::try_from(start).expect("small");
            assert_eq!(seen, expected[start..start + 320], "{workers} workers from {start}");
            assert!(stream.groups().alive_max() <= plan.facts().groups_alive_max, "windows are freed");
        }
    }
    let hash = |ranks: u32| {
        let mut batches = Vec::new();
        for rank in 0..ranks {
            let share = RankShard::new(rank, ranks).expect("a rank");
            let own = usize::try_from(share.of(60)).expect("small");
            batches.extend(plan.stream(RowIndex(3900), share).take(own).map(|batch| batch.expect("good")));
        }
        batches.sort_by_key(Batch::first_row);
        let mut hash = StreamHash::new();
        for batch in &batches {
            hash.step(batch.row_digests().iter().copied());
        }
        hash
    };
    assert_eq!(hash(1), hash(3), "ranks see together the stream of one");
}

/// The rows of a source depend neither on weights nor on the other sources.
#[test]
fn a_source_gives_the_same_rows_in_the_same_order_in_any_mixture() {
    let sources = Sources::new();
    let of = |plan: &LoadPlan, name: &str, batches: u64| -> Vec<_> {
        let rows = rendered(plan, 0..batches).into_iter().filter(|(facts, _)| facts.of.as_deref() == Some(name));
        rows.map(|(facts, digest)| (facts.epoch, facts.sample, facts.piece, digest)).collect()
    };
    let mixed = sources.plan(&weights(), &data(1), Rows::Train);
    let alone = [Weight::Constant(1.0)];
    let books = sources.plan(&alone, &data(1), Rows::Train);
    let among = of(&mixed, "books", 300);
    let alone = of(&books, "books", 100);
    assert!(among.len() > 600 && alone.len() == 800, "{} {}", among.len(), alone.len());
    assert_eq!(among[..600], alone[..600]);
    // Each epoch of each source has every sample once.
    for (name, rows) in NAMES.into_iter().zip([230, 90, 700]) {
        let seen = of(&mixed, name, 1500);
        for epoch in seen.chunks_exact(rows) {
            let samples: BTreeSet<_> = epoch.iter().map(|row| row.1).collect();
            assert_eq!((samples.len(), epoch[0].0), (rows, epoch[rows - 1].0), "{name}");
        }
        assert!(seen.len() > rows, "{name} passes into a second epoch");
    }
}

/// Tokens and digest of a row of each source.
type BySource = BTreeMap<String, (Vec<u32>, blake3::Hash)>;

/// Parts and rows of two folders have the same numbers.
#[test]
fn samples_of_two_sources_at_one_address_are_drawn_apart() {
    let sources = Sources::new();
    let even = [Weight::Constant(1.0), Weight::Constant(1.0), Weight::Constant(1.0)];
    let plan = sources.plan(&even, &data(1), Rows::Train);
    let content = |home: &Home, facts: &RowFacts| -> Vec<u32> {
        let shard = home.manifest.now().train.shards.into_iter().find(|shard| shard.path == facts.shard);
        let shard = shard.expect("it is there");
        let reader =
            ShardReader::open(&home.store, &shard, ShardExpectation::from_manifest(&home.manifest)).expect("good");
        let group = reader.read(facts.group as usize).expect("good");
        let ids: TokenIds<'_> = group.sample(facts.row_in_group).input_ids;
        ids.iter().collect()
    };
    let mut digests: BTreeMap<(SampleAddress, u64), BySource> = BTreeMap::new();
    for (facts, digest) in rendered(&plan, 0..150) {
        let source = facts.of.clone().expect("a mixture");
        let home = &sources.homes[NAMES.iter().position(|name| *name == source).expect("a source")];
        digests.entry((facts.sample, facts.epoch.0)).or_default().insert(source, (content(home, &facts), digest));
    }
    let both = digests.values().filter_map(|of| Some((of.get("books")?, of.get("wiki")?)));
    // Masks on few tokens can be equal by chance.
    let equal: Vec<_> = both.filter(|(books, wiki)| books.0 == wiki.0 && books.0.len() > 20).collect();
    assert!(equal.len() > 20, "{} of the same tokens at the same address", equal.len());
    assert!(equal.iter().all(|(books, wiki)| books.1 != wiki.1), "their masks are drawn apart");
}

#[test]
fn validation_is_shared_out_by_the_weights_that_the_stream_begins_with() {
    let sources = Sources::new();
    let counts = |rows: u64, weights: &[Weight]| {
        let plan = sources.plan(weights, &data(2), Rows::Valid { rows });
        let seen =
            plan.stream(RowIndex(0), RankShard::ALONE).map(|batch| batch.expect("good").rows() as u64).sum::<u64>();
        let facts = rendered(&plan, 0..plan.batches().expect("finite"));
        assert_eq!(seen, facts.len() as u64);
        let of = |name: &str| facts.iter().filter(|(facts, _)| facts.of.as_deref() == Some(name)).count();
        let samples: BTreeSet<_> = facts.iter().map(|(facts, _)| (facts.of.clone(), facts.sample)).collect();
        assert_eq!(samples.len(), facts.len(), "no row comes twice");
        assert!(facts.is_sorted_by_key(|(facts, _)| facts.of.clone()), "one source after another");
        NAMES.map(of)
    };
    // 0.3, 0.2 and 0.5 of 20; `news` has no validation split.
    assert_eq!(counts(20, &weights()), [6, 0, 10]);
    assert_eq!(counts(1000, &weights()), [33, 0, 10]);
    let zero = Weight::Table(vec![WeightFrom { rows: 0, weight: 0.0 }, WeightFrom { rows: 9, weight: 1.0 }]);
    assert_eq!(counts(1000, &[zero, Weight::Constant(1.0), Weight::Constant(1.0)]), [0, 0, 10]);
}

#[test]
fn epochs_are_counted_for_each_source_and_for_all_together() {
    let sources = Sources::new();
    let plan = sources.plan(&weights(), &data(1), Rows::Train);
    let by_source = plan.epochs_by_source(RowIndex(4 * PERIOD)).expect("one dataset version");
    // The first two thousands have 300, 200 and 500 each, the others 600 and 400.
    let expected = [1800.0 / 230.0, 1200.0 / 90.0, 1000.0 / 700.0];
    for (name, expected) in NAMES.into_iter().zip(expected) {
        assert!((by_source[name] - expected).abs() < 1e-9, "{by_source:?}");
    }
    assert_eq!(plan.planned_epochs(RowIndex(4 * PERIOD)), by_source);
    let all = plan.epochs(RowIndex(4 * PERIOD)).expect("one dataset version");
    assert!((all - 4000.0 / 1020.0).abs() < 1e-9, "{all}");
    let alone = sources.homes[0].plan(&data(1), Rows::Train);
    assert!(alone.epochs_by_source(RowIndex(500)).expect("one dataset version").is_empty());
}

#[test]
fn workers_and_windows_yield_to_the_source_that_has_it_worst() {
    let sources = Sources::new();
    let plan =
        sources.plan(&weights(), &DataConfig { shuffle_window_groups: 4, prefetch_batches: 6, ..data(4) }, Rows::Train);
    let facts = plan.facts();
    assert_eq!(facts.sources.iter().map(|source| source.name.as_str()).collect::<Vec<_>>(), NAMES);
    assert_eq!(facts.sources[2].shares, [(0, 500), (2000, 0), (5000, 667)]);
    assert_eq!(facts.samples, 230 + 90 + 700);
    assert_eq!(facts.groups_alive_max, facts.sources.iter().map(|source| source.groups_alive_max).sum::<u64>());
    assert!(
        facts.workers.max_items_alive() < 4 * 7 + 1,
        "{:?} yields to windows of {}",
        facts.workers,
        facts.window_rows_min
    );
    for source in facts.sources.iter().filter(|source| !source.resident) {
        // All rows in flight could be from one source.
        assert!(facts.batches_alive_max as u64 * 8 <= source.window_rows_min, "{source:?}");
    }
}

#[test]
fn windows_of_every_source_are_freed() {
    let sources = Sources::new();
    let plan = sources.plan(&weights(), &DataConfig { shuffle_window_groups: 4, ..data(3) }, Rows::Train);
    let facts = plan.facts();
    assert!(
        facts.groups_alive_max < facts.blocks,
        "{} of {}: not all stays decoded",
        facts.groups_alive_max,
        facts.blocks
    );
    let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
    stream.by_ref().take(900).for_each(|batch| drop(batch.expect("good")));
    let most = stream.groups().alive_max();
    let decoded = stream.groups().decoded();
    assert!(most <= facts.groups_alive_max && decoded > 2 * facts.blocks, "{most} of {decoded}, {facts:?}");
}

#[test]
fn sources_that_do_not_fit_one_another_are_refused_by_name() {
    let check = |change: &dyn Fn(&mut Manifest), words: [&str; 2]| {
        let mut sources = Sources::new();
        change(&mut sources.homes[1].manifest);
        let problems = sources.tried(&weights(), &data(1), Rows::Train).expect_err("refused");
        let problem = problems.iter().find(|problem| problem.key == "sources.news.folder").expect("by its name");
        assert!(words.iter().all(|word| problem.to_string().contains(word)), "{problem}");
    };
    check(&|it| it.tokenizer.vocab_size = 999, ["its tokenizer (999 synthetic ids)", "that of `sources.books.folder`"]);
    check(&|it| it.tokenizer.fingerprint = "other".into(), ["its tokenizer", "one `prepare.tokenizer`"]);
    check(&|it| it.max_seq_len = 128, ["its rows have 128 tokens, those of `sources.books.folder` 64", "max_seq_len"]);
    check(&|it| it.pack.cuts = false, ["it is packed as `block`", "one `prepare.packing`"]);
    check(&|it| it.dataset_versions[0].parts.clear(), ["its training split is empty", "larger"]);
    let mut weights = weights();
    weights[1] = Weight::Constant(-1.0);
    let problems = Sources::new().tried(&weights, &data(1), Rows::Train).expect_err("refused");
    assert_eq!(problems[0].key, "sources.news.weight");
}

/// Bad rows are reported with their source, and documents with the source of their row.
#[test]
fn outcome_of_a_row_counts_for_its_source() {
    let sources = Sources::new();
    let expected = {
        let plan = sources.plan(&weights(), &data(1), Rows::Train);
        rendered(&plan, 0..20)
    };
    let always: fn(u64, u32) -> bool = |row, _| row % 23 == 5;
    for workers in [1, 3] {
        let plan = sources.plan(&weights(), &DataConfig { max_bad_rows: 9, ..data(workers) }, Rows::Train);
        let kept = Arc::<MemoryBadRows>::default();
        let bad_rows = Some(Arc::clone(&kept) as _);
        let faults = Some(Arc::new(Panics(always)) as _);
        let policy = RowPolicy { bad_rows, faults, counts_documents: true, ..RowPolicy::default() };
        let options = StreamOptions { policy, ..StreamOptions::default() };
        let mut stream = BatchStream::new(&plan, RowIndex(0), RankShard::ALONE, options);
        let seen: Vec<_> =
            stream.by_ref().take(20).flat_map(|batch| batch.expect("left out").row_digests().to_vec()).collect();
        for ((facts, digest), seen) in expected.iter().zip(&seen) {
            assert_eq!(digest != seen, always(facts.row.0, 0), "{facts}");
        }
        let bad: Vec<RowFacts> = kept.0.lock().expect("whole").iter().map(|bad| bad.row.clone()).collect();
        let facts: Vec<RowFacts> = expected.iter().map(|(facts, _)| facts.clone()).collect();
        assert_eq!(bad, facts.iter().filter(|facts| always(facts.row.0, 0)).cloned().collect::<Vec<_>>());
        assert!(NAMES.iter().all(|name| bad.iter().any(|row| row.of.as_deref() == Some(name))), "{bad:?}");
        assert!(bad[0].to_string().contains(&format!("source `{}`", bad[0].of.as_ref().expect("a source"))));
        let told = |facts: RowFacts| RowDocuments {
            row: facts.row,
            of: facts.of.expect("a source").into(),
            dataset_version: facts.dataset_version,
            documents: facts.documents,
            bad: always(facts.row.0, 0),
        };
        assert_eq!(stream.documents(), facts.into_iter().map(told).collect::<Vec<_>>(), "{workers} workers");
    }
}
