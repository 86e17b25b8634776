//! Invariants of the stream, tested on small folders of random ids.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use proptest::prelude::*;
use schemas::columns::{ATTENTION_MASK, DOCUMENT, INPUT_IDS, LABELS, ORIGIN, POSITIVES};
use schemas::{ColumnSpec, Epoch, Manifest, Problem};
use store::Store;

use super::*;
use crate::shard::synthetic::Synthetic;
use crate::views::{AnyView, ViewName};

mod bad_rows;
mod dataset_versions;
mod memory;
mod mixtures;
mod pairs;
mod remote;
mod shards;
mod shares;
mod streamed;

struct Home {
    folder: tempfile::TempDir,
    store: Store,
    manifest: Manifest,
    vocab: Arc<Vocab>,
}

fn home(synthetic: &Synthetic) -> Home {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = Store::folder(folder.path()).expect("there");
    let manifest = synthetic.write(&store).expect("written");
    let vocab = Arc::new(read_vocab(&store, &manifest, manifest.newest()).expect("as written"));
    Home { folder, store, manifest, vocab }
}

fn taco() -> BTreeMap<ViewName, AnyView> {
    let text = "masked = { kind = \"mask\" }\nneighbors = { kind = \"window\", of = \"masked\" }";
    toml::from_str(text).expect("two views")
}

/// All views that draw randomly, including those of COCO-LM and FE-MLM.
fn all_views() -> (BTreeMap<ViewName, AnyView>, BTreeSet<(ViewName, ColumnSpec)>) {
    let text = r#"
        masked = { kind = "mask", disjoint = true }
        neighbors = { kind = "window", of = "masked" }
        spans = { kind = "mask", unit = "span", disjoint = true, random_words = "unigram" }
        words = { kind = "mask", unit = "word", count = "stochastic_round" }
        random = { kind = "corrupt", of = "cropped" }
        cropped = { kind = "crop", keep_fraction = 0.5 }
    "#;
    let columns = |(name, view): (&ViewName, &AnyView)| {
        let of_frame = [INPUT_IDS.spec(), ATTENTION_MASK.spec(), ORIGIN.spec()];
        let columns: BTreeSet<_> = of_frame.iter().chain(view.columns()).copied().collect();
        columns.into_iter().map(|spec| (name.clone(), spec)).collect::<Vec<_>>()
    };
    let views: BTreeMap<ViewName, AnyView> = toml::from_str(text).expect("views");
    let wanted = views.iter().flat_map(columns).collect();
    (views, wanted)
}

fn wanted() -> BTreeSet<(ViewName, ColumnSpec)> {
    let masked = [INPUT_IDS.spec(), ATTENTION_MASK.spec(), LABELS.spec(), ORIGIN.spec(), DOCUMENT.spec()];
    let mut wanted: BTreeSet<_> = masked.map(|spec| ("masked".to_owned(), spec)).into();
    wanted.insert(("neighbors".into(), POSITIVES.spec()));
    wanted
}

impl Home {
    fn request<'a>(
        &'a self,
        data: &'a DataConfig,
        views: &'a BTreeMap<ViewName, AnyView>,
        wanted: &'a BTreeSet<(ViewName, ColumnSpec)>,
    ) -> LoadRequest<'a> {
        LoadRequest {
            sources: &[],
            store: &self.store,
            manifest: &self.manifest,
            dataset_version: self.manifest.newest(),
            epoch_versions: None,
            segment_source: None,
            vocab: Arc::clone(&self.vocab),
            rows: Rows::Train,
            missing_parts: MissingParts::Refused,
            data,
            views,
            wanted,
            cache: None,
            seed: 7,
            rows_per_batch: 8,
        }
    }

    fn plan(&self, data: &DataConfig, rows: Rows) -> Arc<LoadPlan> {
        let views = taco();
        let wanted = wanted();
        let request = LoadRequest { rows, ..self.request(data, &views, &wanted) };
        Arc::new(LoadPlan::new(&request).expect("no problem"))
    }
}

fn data(workers: usize) -> DataConfig {
    DataConfig { workers: Some(workers), shuffle_window_groups: 2, ..DataConfig::default() }
}

#[test]
fn order_is_independent_of_worker_count_and_start() {
    let home = home(&Synthetic { lengths: 0..63, ..Synthetic::default() });
    let (views, wanted) = all_views();
    let plan = |data: &DataConfig| Arc::new(LoadPlan::new(&home.request(data, &views, &wanted)).expect("no problem"));
    let of_workers = |workers: usize| plan(&DataConfig { copies_per_sample: 3, seq_len: Some(24), ..data(workers) });
    let plan = of_workers(1);
    let groups = plan.groups();
    // The rows exceed an epoch of 230 · 2 · 3 rows.
    let expected: Vec<_> =
        (0..190).map(|index| plan.batch(&groups, BatchIndex(index)).expect("good").row_digests().to_vec()).collect();
    for workers in [1, 2, 3, 7] {
        let plan = of_workers(workers);
        for start in [0, 5, 170] {
            let seen: Vec<_> = plan
                .stream(RowIndex(8 * start), RankShard::ALONE)
                .take(20)
                .map(|batch| batch.expect("good").row_digests().to_vec())
                .collect();
            let start = usize::try_from(start).expect("small");
            assert_eq!(seen, expected[start..start + 20], "{workers} workers from {start}");
        }
    }
}

#[test]
fn the_copies_of_a_row_are_masked_apart() {
    let home = home(&Synthetic { lengths: 0..63, ..Synthetic::default() });
    let (views, wanted) = all_views();
    let data = DataConfig { copies_per_sample: 4, seq_len: Some(24), ..data(1) };
    let plan = LoadPlan::new(&home.request(&data, &views, &wanted)).expect("no problem");
    let groups = plan.groups();
    for index in 0..60 {
        // Eight rows: two pieces with four copies each.
        let batch = plan.batch(&groups, BatchIndex(index)).expect("good");
        for name in ["masked", "spans"] {
            let labels = batch.column(name, LABELS).expect("made");
            for first in [0, 4] {
                let masks = |at: usize| (first..first + 4).filter(|&row| labels.row(row)[at] >= 0).count();
                let tokens = labels.row(first).iter().filter(|&&label| label >= 0).count();
                let overlap = (0..24).map(masks).max().expect("a row has positions");
                // Each copy has at least one token to predict, unless there are fewer tokens than copies.
                assert!(overlap <= 1 || tokens == 1, "{name}, batch {index}");
                assert!(
                    (first..first + 4).all(|row| labels.row(row).iter().filter(|&&label| label >= 0).count() == tokens)
                );
            }
        }
    }
}

#[test]
fn an_epoch_shows_every_token_once() {
    let home = home(&Synthetic { lengths: 40..63, ..Synthetic::default() });
    let plan = home.plan(&data(2), Rows::Train);
    let mut seen = Vec::new();
    for batch in plan.stream(RowIndex(0), RankShard::ALONE).take(30) {
        let batch = batch.expect("good");
        let ids = batch.column("masked", INPUT_IDS).expect("made");
        let labels = batch.column("masked", LABELS).expect("made");
        let origin = batch.column("masked", ORIGIN).expect("made");
        for row in 0..batch.rows() {
            let restored = (0..64).filter(|&at| origin.row(row)[at] >= 0);
            let original = |at: usize| if labels.row(row)[at] >= 0 { labels.row(row)[at] } else { ids.row(row)[at] };
            seen.push(restored.map(original).collect::<Vec<i32>>());
        }
    }
    seen.truncate(230);
    seen.sort();
    let groups = plan.groups();
    let block = |index: usize| (index, plan.sources[0].epoch_plan.first().sampler().blocks()[index]);
    let all: Vec<_> = (0..plan.sources[0].epoch_plan.first().sampler().blocks().len()).map(block).collect();
    let mut stored = Vec::new();
    for group in groups
        .get(0, &plan.sources[0].epoch_plan.first().snapshot().split, 0, &all, WorkerIndex::ALONE)
        .expect("good")
        .values()
    {
        for row in 0..group.rows() {
            stored.push(group.sample(row).input_ids.iter().map(u32::cast_signed).collect::<Vec<i32>>());
        }
    }
    stored.sort();
    assert_eq!(seen, stored);
}

#[test]
fn groups_are_decoded_once_per_window_and_two_windows_are_the_most() {
    let home = home(&Synthetic { train_rows: 2000, ..Synthetic::default() });
    for workers in [1, 4] {
        let data = DataConfig { shuffle_window_groups: 5, ..data(workers) };
        let plan = home.plan(&data, Rows::Train);
        let facts = plan.facts();
        assert!(!facts.resident);
        let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
        let epochs = 3;
        for batch in stream.by_ref().take(epochs * 250) {
            batch.expect("good");
        }
        let groups = Arc::clone(stream.groups());
        drop(stream);
        // Workers can be ahead, in the next window.
        let decoded = usize::try_from(groups.decoded()).expect("small");
        assert!(
            (epochs * 100..=epochs * 100 + facts.window_blocks).contains(&decoded),
            "{decoded} with {workers} workers"
        );
        assert!(groups.alive_max() <= facts.groups_alive_max, "{} of {}", groups.alive_max(), facts.groups_alive_max);
        assert_eq!(facts.groups_alive_max, 2 * facts.window_blocks as u64);
    }
}

#[test]
fn a_small_split_stays_decoded() {
    let home = home(&Synthetic::default());
    let plan = home.plan(&DataConfig { shuffle_window_groups: 16, ..data(3) }, Rows::Train);
    let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
    stream.by_ref().take(200).for_each(|batch| drop(batch.expect("good")));
    assert_eq!((stream.groups().decoded(), plan.facts().resident), (12, true));
}

#[test]
fn workers_yield_to_the_window_and_never_the_other_way() {
    let home = home(&Synthetic::default());
    let plan = |workers: usize, depth: usize| {
        home.plan(&DataConfig { prefetch_batches: depth, shuffle_window_groups: 1, ..data(workers) }, Rows::Train)
    };
    let order = |plan: &Arc<LoadPlan>| -> Vec<_> {
        let groups = plan.groups();
        let rows = (0..40).flat_map(|batch| plan.explain(&groups, BatchIndex(batch)).expect("decodable"));
        rows.map(|row| row.sample).collect()
    };
    let expected = order(&plan(1, 1));
    for (workers, depth) in [(1, 6), (2, 1), (4, 2), (8, 6)] {
        let plan = plan(workers, depth);
        assert_eq!(order(&plan), expected, "{workers} workers of depth {depth} change no number");
        let facts = plan.facts();
        let in_flight = facts.batches_alive_max as u64 * plan.rows_per_batch();
        assert!(
            facts.resident || in_flight <= plan.sources[0].epoch_plan.first().sampler().window_rows_min(),
            "{facts:?}"
        );
    }
}

#[test]
fn validation_is_stored_order_and_ends_without_a_lone_row() {
    let home = home(&Synthetic::default());
    let check = |rows, expected: &[usize]| {
        let plan = home.plan(&data(2), Rows::Valid { rows });
        let batches: Vec<Batch> =
            plan.stream(RowIndex(0), RankShard::ALONE).map(|batch| batch.expect("good")).collect();
        assert_eq!(batches.iter().map(Batch::rows).collect::<Vec<_>>(), expected, "{rows} rows");
        let groups = plan.groups();
        let facts = (0..plan.batches().expect("finite"))
            .flat_map(|index| plan.explain(&groups, BatchIndex(index)).expect("good"));
        let samples: Vec<u64> = facts.map(|row| row.sample.packed()).collect();
        assert_eq!(samples.len(), expected.iter().sum::<usize>());
        assert!(samples.is_sorted_by(|a, b| a < b) && samples[samples.len() - 1] < 33, "{samples:?}");
    };
    check(8, &[8]);
    check(16, &[8, 8]);
    check(18, &[8, 8, 2]);
    check(17, &[8, 9]);
    check(1, &[1]);
    check(5, &[5]);
    check(1000, &[8, 8, 8, 9]);
}

#[test]
fn a_far_step_starts_at_once() {
    let home = home(&Synthetic::default());
    let plan = home.plan(&data(2), Rows::Train);
    let began = Instant::now();
    let batch = plan.stream(RowIndex(1 << 43), RankShard::ALONE).next().expect("endless").expect("good");
    assert_eq!(batch.index(), BatchIndex(1 << 40));
    assert!(began.elapsed() < Duration::from_secs(2), "{:?}", began.elapsed());
}

#[test]
fn columns_that_are_not_read_are_not_made() {
    let home = home(&Synthetic::default());
    let views = taco();
    let data = data(1);
    let wanted = BTreeSet::from([("neighbors".to_owned(), POSITIVES.spec())]);
    let plan = LoadPlan::new(&home.request(&data, &views, &wanted)).expect("no problem");
    let all = home.plan(&data, Rows::Train);
    let (few, all) = [&plan, &*all].map(|plan| plan.batch(&plan.groups(), BatchIndex(3)).expect("good")).into();
    assert_eq!(few.names().collect::<Vec<_>>(), ["neighbors.positives"]);
    let positives = |batch: &Batch| batch.column("neighbors", POSITIVES).expect("made").values().to_vec();
    assert_eq!(positives(&few), positives(&all), "what else is made changes nothing");
    assert_eq!(
        all.names().collect::<Vec<_>>(),
        ["masked.input_ids", "masked.document", "masked.labels", "masked.origin", "neighbors.positives"]
    );
}

#[test]
fn all_problems_are_reported_at_once() {
    let home = home(&Synthetic::default());
    let views = toml::from_str(
        "a = { kind = \"mask\", of = \"b\", rate = 1.5 }\nb = { kind = \"mask\", of = \"a\" }\nc = { kind = \"window\", of = \"x\" }",
    )
    .expect("three views");
    let data = DataConfig { seq_len: Some(65), copies_per_sample: 0, ..data(1) };
    let wanted = BTreeSet::from([("original".to_owned(), POSITIVES.spec()), ("y".to_owned(), INPUT_IDS.spec())]);
    let problems = LoadPlan::new(&home.request(&data, &views, &wanted)).expect_err("many problems");
    let keys: Vec<&str> = problems.iter().map(|problem| problem.key.as_str()).collect();
    assert_eq!(
        keys,
        [
            "data.seq_len",
            "data.copies_per_sample",
            "views.a.rate",
            "views.a.of",
            "views.b.of",
            "views.c.of",
            "views.original",
            "views.y"
        ],
        "{problems:#?}"
    );
}

#[test]
fn a_replay_makes_its_batches_once() {
    let home = home(&Synthetic::default());
    let plan = home.plan(&data(2), Rows::Train);
    let options = StreamOptions { replay: Some(3), ..StreamOptions::default() };
    let stream = BatchStream::new(&plan, RowIndex(40), RankShard::ALONE, options);
    let worker_stats = stream.worker_stats();
    let batches: Vec<Batch> = stream.take(7).map(|batch| batch.expect("good")).collect();
    let indices: Vec<u64> = batches.iter().map(|batch| batch.index().0).collect();
    assert_eq!(indices, [5, 6, 7, 5, 6, 7, 5]);
    assert_eq!(batches[0].row_digests(), batches[3].row_digests());
    assert_eq!(worker_stats.workers().iter().map(|worker| worker.items).sum::<u64>(), 3);
}

#[test]
fn a_sleeping_worker_is_seen() {
    let home = home(&Synthetic::default());
    let plan = home.plan(&DataConfig { shuffle_window_groups: 1000, ..data(2) }, Rows::Train);
    let slow =
        Some(LatencyInjection { who: DelayedWorkers::Worker(1), time: Duration::from_millis(20), computes: false });
    let options = StreamOptions { digests: true, latency_injection: slow, ..StreamOptions::default() };
    let mut stream = BatchStream::new(&plan, RowIndex(40), RankShard::ALONE, options);
    let worker_stats = stream.worker_stats();
    assert_eq!(stream.by_ref().take(7).flatten().count(), 7);
    drop(stream);
    let workers = worker_stats.workers();
    assert!(workers[1].busy >= Duration::from_millis(60), "{workers:?}");
    assert!(worker_stats.reader().starved >= Duration::from_millis(40), "{:?}", worker_stats.reader());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(16))]
    #[test]
    fn a_batch_is_a_function_of_its_index(index in 0_u64..1000, width in 3_u32..=64, copies in 1_u32..4) {
        let home = home(&Synthetic { lengths: 0..63, train_rows: 50, ..Synthetic::default() });
        let data = DataConfig { seq_len: Some(width), copies_per_sample: copies, ..data(1) };
        let plan = home.plan(&data, Rows::Train);
        let warm = plan.groups();
        plan.batch(&warm, BatchIndex(index / 2)).expect("good");
        let batch = plan.batch(&warm, BatchIndex(index)).expect("good");
        prop_assert_eq!(batch.row_digests().to_vec(), plan.batch(&plan.groups(), BatchIndex(index)).expect("good").row_digests().to_vec());
        let facts = plan.explain(&warm, BatchIndex(index)).expect("good");
        prop_assert!(facts.iter().all(|row| row.copy < copies && row.piece < 62 / (width - 2)));
    }
}

#[test]
fn counts_that_no_machine_has_are_refused_before_anything_is_started() {
    let home = home(&Synthetic::default());
    let views = taco();
    let wanted = wanted();
    for (key, data) in [
        ("data.workers", DataConfig { workers: Some(usize::MAX), ..DataConfig::default() }),
        ("data.workers", DataConfig { workers: Some(1 << 32), ..DataConfig::default() }),
        ("data.prefetch_batches", DataConfig { prefetch_batches: usize::MAX, ..DataConfig::default() }),
        ("data.shuffle_window_groups", DataConfig { shuffle_window_groups: usize::MAX, ..DataConfig::default() }),
        ("data.copies_per_sample", DataConfig { copies_per_sample: u32::MAX, ..DataConfig::default() }),
    ] {
        let problems = LoadPlan::new(&home.request(&data, &views, &wanted)).expect_err(key);
        assert!(problems.iter().any(|problem| problem.key == key && problem.hint.is_some()), "{key}: {problems:?}");
    }
}
