//! Cost of each view in nanoseconds per token: `cargo bench -p cloze-pipeline --bench views`.
//!
//! Rows of 512 tokens, 256 to a batch, one thread. A view includes its inputs: `mask` frames its rows as well.
//!
//! `make bench-views` writes the table of them, with instructions. It runs this with `VIEWS=time` (medians, cases
//! interleaved) and, in callgrind, with `VIEWS=count`, which collects [`counted`] only.

#![allow(clippy::print_stdout, reason = "a table for a script")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use criterion::{Criterion, Throughput};
use pipeline::audit::Audit;
use pipeline::load::{DataConfig, LoadPlan, LoadRequest, MissingParts, Rows, read_vocab};
use pipeline::shard::groups::Groups;
use pipeline::shard::synthetic::Synthetic;
use pipeline::views::AnyView;
use schemas::columns::{ATTENTION_MASK, DRAWS, INPUT_IDS, LABELS, POSITIVES};
use schemas::{Batch, BatchIndex, ColumnSpec, Manifest, Vocab};
use store::Store;

const WIDTH: u32 = 512;
const ROWS: u32 = 256;
const TOKENS: u32 = WIDTH * ROWS;

type Wanted = &'static [(&'static str, ColumnSpec)];

const CASES: [(&str, Wanted); 11] = [
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

/// Prepared folder, and views of it.
struct Bench {
    _home: tempfile::TempDir,
    folder: Store,
    manifest: Manifest,
    vocab: Arc<Vocab>,
    views: BTreeMap<String, AnyView>,
}

impl Bench {
    fn new(rows: u64) -> Self {
        let home = tempfile::tempdir().expect("a temporary folder");
        let folder = Store::folder(home.path()).expect("there");
        let shape = Synthetic {
            vocab_size: 30_522,
            ids: 1000..30_000,
            max_seq_len: WIDTH,
            lengths: WIDTH - 2..WIDTH - 1,
            rows_per_group: 2048,
            train_rows: rows,
            ..Synthetic::default()
        };
        let manifest = shape.write(&folder).expect("written");
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
        Self { _home: home, folder, manifest, vocab, views }
    }

    fn plan(&self, name: &str, wanted: &[(&str, ColumnSpec)]) -> LoadPlan {
        let wanted: BTreeSet<_> = wanted.iter().map(|&(view, column)| (view.to_owned(), column)).collect();
        let copies = if name == "mask, disjoint" { 4 } else { 1 };
        let data = DataConfig { copies_per_sample: copies, ..DataConfig::default() };
        let request = LoadRequest {
            sources: &[],
            store: &self.folder,
            manifest: &self.manifest,
            dataset_version: self.manifest.newest(),
            epoch_versions: None,
            segment_source: None,
            vocab: Arc::clone(&self.vocab),
            rows: Rows::Train,
            missing_parts: MissingParts::Refused,
            data: &data,
            views: &self.views,
            wanted: &wanted,
            cache: None,
            seed: 1,
            rows_per_batch: u64::from(ROWS),
        };
        LoadPlan::new(&request).expect("no problem")
    }

    /// Returns a plan whose batches can be audited: the audit needs the start of padding.
    fn audited(&self, name: &str, wanted: &[(&str, ColumnSpec)]) -> LoadPlan {
        let lengths = wanted.iter().map(|&(view, _)| (view, ATTENTION_MASK.spec()));
        self.plan(name, &wanted.iter().copied().chain(lengths).collect::<Vec<_>>())
    }

    /// Returns all cases of the table, each repeatable.
    fn works(&self) -> Vec<(String, Work)> {
        let made = CASES.iter().map(|(name, wanted)| {
            let plan = self.plan(name, wanted);
            let groups = plan.groups();
            ((*name).to_owned(), Work::Make { plan: Box::new(plan), groups, index: 0 })
        });
        let audits = CASES[1..].iter().map(|(name, wanted)| {
            let plan = self.audited(name, wanted);
            let batch = plan.batch(&plan.groups(), BatchIndex(1)).expect("good");
            (format!("audit of {name}"), Work::Audit { batch, audit: Box::new(plan.audit()) })
        });
        made.chain(audits).collect()
    }
}

/// Measured operation on one batch.
enum Work {
    Make { plan: Box<LoadPlan>, groups: Groups, index: u64 },
    Audit { batch: Batch, audit: Box<Audit> },
}

impl Work {
    fn run(&mut self) {
        match self {
            Self::Make { plan, groups, index } => {
                *index += 1;
                // One row group: as many batches as it has.
                drop(black_box(plan.batch(groups, BatchIndex(*index % 8)).expect("good")));
            }
            Self::Audit { batch, audit } => audit.add(batch),
        }
    }
}

/// Function that callgrind collects; it dumps its counts at each call.
#[inline(never)]
fn counted(work: &mut Work) {
    work.run();
}

/// Prints a line for each case, in the order of the counts.
fn count() {
    let bench = Bench::new(2048);
    for (name, mut work) in bench.works() {
        work.run();
        counted(&mut work);
        println!("{name}");
    }
}

/// Prints medians over batches. Cases are interleaved, so that other load on the machine affects all of them.
fn time() {
    const TURNS: usize = 61;
    let bench = Bench::new(2048);
    let mut works = bench.works();
    let mut spent = vec![Vec::with_capacity(TURNS); works.len()];
    for turn in 0..=TURNS {
        for ((_, work), spent) in works.iter_mut().zip(&mut spent) {
            work.run();
            let began = Instant::now();
            work.run();
            if turn > 0 {
                spent.push(began.elapsed().as_secs_f64() * 1e9 / f64::from(TOKENS));
            }
        }
    }
    for ((name, _), mut spent) in works.into_iter().zip(spent) {
        spent.sort_by(f64::total_cmp);
        println!("{name}\t{:.2}", spent[TURNS / 2]);
    }
}

fn all(criterion: &mut Criterion) {
    let bench = Bench::new(8192);
    let mut group = criterion.benchmark_group("views, per token");
    group.throughput(Throughput::Elements(u64::from(TOKENS)));
    for (name, mut work) in bench.works() {
        group.bench_function(name, |bencher| bencher.iter(|| work.run()));
    }
    // Cost of a training run's hash, on the workers.
    for (name, wanted) in &CASES {
        let plan = bench.plan(name, wanted);
        let batch = plan.batch(&plan.groups(), BatchIndex(1)).expect("good");
        // A slice has no cached digests.
        let rows = batch.rows();
        group.bench_function(format!("digests of {name}"), |bencher| {
            bencher.iter(|| batch.slice(0, rows).row_digests().len());
        });
    }
}

fn main() {
    match env::var("VIEWS").as_deref() {
        Ok("time") => time(),
        Ok("count") => count(),
        _ => {
            let mut criterion = Criterion::default().configure_from_args();
            all(&mut criterion);
            criterion.final_summary();
        }
    }
}
