//! What each view costs, in nanoseconds per token: `cargo bench -p cloze-pipeline --bench views`.
//!
//! Rows of 512 tokens, 256 to a batch, one thread. A view includes what it reads: `mask` frames its rows as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::load::{DataConfig, GoneParts, LoadPlan, LoadRequest, Rows, read_vocab};
use pipeline::shard::synthetic::Synthetic;
use pipeline::views::AnyView;
use schemas::columns::{ATTENTION_MASK, DRAWS, INPUT_IDS, LABELS, POSITIVES};
use schemas::{BatchIndex, ColumnSpec};
use store::Store;

const WIDTH: u32 = 512;
const ROWS: u32 = 256;

fn views(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(home.path()).expect("there");
    let manifest = Synthetic {
        vocab_size: 30_522,
        ids: 1000..30_000,
        tokens_max: WIDTH,
        lengths: WIDTH - 2..WIDTH - 1,
        rows_per_group: 2048,
        train_rows: 8192,
        ..Synthetic::default()
    }
    .write(&folder)
    .expect("written");
    let vocab = Arc::new(read_vocab(&folder, &manifest, manifest.newest()).expect("as written"));
    let views: BTreeMap<String, AnyView> = toml::from_str(
        "masked = { kind = \"mask\" }\n\
         bernoulli = { kind = \"mask\", count = \"bernoulli\" }\n\
         words = { kind = \"mask\", unit = \"word\" }\n\
         spans = { kind = \"mask\", unit = \"span\" }\n\
         disjoint = { kind = \"mask\", disjoint = true }\n\
         random = { kind = \"corrupt\" }\n\
         cropped = { kind = \"crop\" }\n\
         neighbors = { kind = \"window\" }",
    )
    .expect("eight views");
    let mut group = criterion.benchmark_group("views, per token");
    group.throughput(Throughput::Elements(u64::from(WIDTH * ROWS)));
    let cases: [(&str, &[(&str, ColumnSpec)]); 11] = [
        ("original", &[("original", INPUT_IDS.spec())]),
        ("mask, exact", &[("masked", INPUT_IDS.spec()), ("masked", LABELS.spec())]),
        ("mask, bernoulli", &[("bernoulli", INPUT_IDS.spec()), ("bernoulli", LABELS.spec())]),
        ("mask, words", &[("words", INPUT_IDS.spec()), ("words", LABELS.spec())]),
        ("mask, spans", &[("spans", INPUT_IDS.spec()), ("spans", LABELS.spec())]),
        ("mask, disjoint", &[("disjoint", INPUT_IDS.spec()), ("disjoint", LABELS.spec())]),
        ("mask, with draws", &[("masked", INPUT_IDS.spec()), ("masked", LABELS.spec()), ("masked", DRAWS.spec())]),
        ("corrupt", &[("random", INPUT_IDS.spec()), ("random", LABELS.spec())]),
        ("crop", &[("cropped", INPUT_IDS.spec())]),
        ("window", &[("neighbors", POSITIVES.spec())]),
        ("mask + window", &[("masked", INPUT_IDS.spec()), ("masked", LABELS.spec()), ("neighbors", POSITIVES.spec())]),
    ];
    let plan = |name: &str, wanted: &[(&str, ColumnSpec)]| {
        let wanted: BTreeSet<_> = wanted.iter().map(|&(view, column)| (view.to_owned(), column)).collect();
        let copies = if name == "mask, disjoint" { 4 } else { 1 };
        let data = DataConfig { copies, ..DataConfig::default() };
        let request = LoadRequest {
            sources: &[],
            store: &folder,
            manifest: &manifest,
            generation: manifest.newest(),
            follow: None,
            growth: None,
            vocab: Arc::clone(&vocab),
            rows: Rows::Train,
            gone: GoneParts::Refused,
            data: &data,
            views: &views,
            wanted: &wanted,
            seed: 1,
            rows_per_batch: u64::from(ROWS),
        };
        LoadPlan::new(&request).expect("no problem")
    };
    for (name, wanted) in cases {
        let plan = plan(name, wanted);
        let groups = plan.groups();
        let mut index = 0;
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                index += 1;
                plan.batch(&groups, BatchIndex(index)).expect("good")
            });
        });
    }
    // The audit looks at batches that are there, and needs to know where padding begins.
    for (name, wanted) in &cases[1..] {
        let lengths = wanted.iter().map(|&(view, _)| (view, ATTENTION_MASK.spec()));
        let plan = plan(name, &wanted.iter().copied().chain(lengths).collect::<Vec<_>>());
        let (batch, mut audit) = (plan.batch(&plan.groups(), BatchIndex(1)).expect("good"), plan.audit());
        group.bench_function(format!("audit of {name}"), |bencher| bencher.iter(|| audit.add(&batch)));
    }
    // What a training run pays for its hash, on the lanes.
    for (name, wanted) in &cases {
        let plan = plan(name, wanted);
        let batch = plan.batch(&plan.groups(), BatchIndex(1)).expect("good");
        // A slice is a batch that was not asked yet.
        let rows = batch.rows();
        group.bench_function(format!("digests of {name}"), |bencher| {
            bencher.iter(|| batch.slice(0, rows).row_digests().len());
        });
    }
}

criterion_group!(benches, views);
criterion_main!(benches);
