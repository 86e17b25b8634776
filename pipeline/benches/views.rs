//! What each view costs, in nanoseconds per token: `cargo bench -p cloze-pipeline --bench views`.
//!
//! Rows of 512 tokens, 256 to a batch, one thread. A view includes what it reads: `mask` frames its rows as well.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::load::{DataConfig, LoadPlan, LoadRequest, Rows, read_vocab};
use pipeline::shard::synthetic::Synthetic;
use pipeline::views::AnyView;
use schemas::atomic::Folder;
use schemas::columns::{ATTENTION_MASK, INPUT_IDS, LABELS, POSITIVES};
use schemas::{BatchIndex, ColumnSpec};

const WIDTH: u32 = 512;
const ROWS: u32 = 256;

fn views(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Folder::create(home.path()).expect("there");
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
    let vocab = Arc::new(read_vocab(home.path(), &manifest).expect("as written"));
    let views: BTreeMap<String, AnyView> = toml::from_str(
        "masked = { kind = \"mask\" }\n\
         bernoulli = { kind = \"mask\", count = \"bernoulli\" }\n\
         neighbors = { kind = \"window\" }",
    )
    .expect("three views");
    let data = DataConfig::default();
    let mut group = criterion.benchmark_group("views, per token");
    group.throughput(Throughput::Elements(u64::from(WIDTH * ROWS)));
    let cases: [(&str, &[(&str, ColumnSpec)]); 5] = [
        ("original", &[("original", INPUT_IDS.spec())]),
        ("mask, exact", &[("masked", INPUT_IDS.spec()), ("masked", LABELS.spec())]),
        ("mask, bernoulli", &[("bernoulli", INPUT_IDS.spec()), ("bernoulli", LABELS.spec())]),
        ("window", &[("neighbors", POSITIVES.spec())]),
        ("mask + window", &[("masked", INPUT_IDS.spec()), ("masked", LABELS.spec()), ("neighbors", POSITIVES.spec())]),
    ];
    let plan = |wanted: &[(&str, ColumnSpec)]| {
        let wanted: BTreeSet<_> = wanted.iter().map(|&(view, column)| (view.to_owned(), column)).collect();
        let request = LoadRequest {
            folder: home.path(),
            manifest: &manifest,
            vocab: Arc::clone(&vocab),
            rows: Rows::Train,
            data: &data,
            views: &views,
            wanted: &wanted,
            seed: 1,
            rows_per_batch: u64::from(ROWS),
        };
        LoadPlan::new(&request).expect("no problem")
    };
    for (name, wanted) in cases {
        let plan = plan(wanted);
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
        let plan = plan(&wanted.iter().copied().chain(lengths).collect::<Vec<_>>());
        let (batch, mut audit) = (plan.batch(&plan.groups(), BatchIndex(1)).expect("good"), plan.audit());
        group.bench_function(format!("audit of {name}"), |bencher| bencher.iter(|| audit.add(&batch)));
    }
}

criterion_group!(benches, views);
criterion_main!(benches);
