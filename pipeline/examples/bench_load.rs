//! Tokens per second from prepared shards on disk to batches of `mask` + `window`, and the time per stage.
//!
//! ```text
//! bench_load make FOLDER [SAMPLES]                 random ids 1000..30000, rows of 512
//! bench_load run FOLDER [WORKERS] [M_TOKENS]         streams at least M_TOKENS million tokens
//! bench_load hash FOLDER [WORKERS] [M_TOKENS]        the same batches, hashed
//! ```
//!
//! FOLDER may be several, joined by `+`: a mixture of equal shares of each.
//!
//! `run` reads the folders once beforehand, so that the page cache is warm. It measures from the request for the first
//! batch to the receipt of the last. Its consumer reads every value of every batch. For comparison it prints the time
//! to fill such buffers: the bound set by memory. `hash` runs separately, without timing. It prints the hash of the
//! same stream, with one batch per step; the hash does not depend on the number of workers.

#![allow(clippy::print_stdout, reason = "a program for people")]

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::hint::black_box;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use pipeline::load::{DataConfig, LoadPlan, LoadRequest, MissingParts, Rows, SourceRequest, find, open, read_vocab};
use pipeline::mixture::Weight;
use pipeline::shard::synthetic::Synthetic;
use pipeline::views::AnyView;
use pipeline::{Error, Result};
use runtime::PoolOptions;
use schemas::columns::{ATTENTION_MASK, INPUT_IDS, LABELS, POSITIVES};
use schemas::{Batch, BatchIndex, ColumnSpec, Manifest, RankShard, RowIndex, StreamHash};
use store::Store;

const ROWS_PER_BATCH: u64 = 256;

/// Default of the compared loaders: (60 + 16) batches of 256 rows.
const RIVALS_SAMPLES: u64 = 256 * (60 + 16);

fn main() -> Result<()> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    match arguments.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["make", folder, rest @ ..] if rest.len() <= 1 => make(Path::new(folder), number(rest, 0, RIVALS_SAMPLES)?),
        ["run", folder, rest @ ..] if rest.len() <= 2 => {
            run(&opened(folder)?, number(rest, 0, 4)?, number(rest, 1, 100)?)
        }
        ["hash", folder, rest @ ..] if rest.len() <= 2 => {
            hash(&opened(folder)?, number(rest, 0, 4)?, number(rest, 1, 100)?)
        }
        _ => Err(Error::Config("usage: bench_load make|run|hash FOLDER [NUMBER [NUMBER]]".into())),
    }
}

fn number(arguments: &[&str], place: usize, default: u64) -> Result<u64> {
    let Some(text) = arguments.get(place) else { return Ok(default) };
    text.parse().map_err(|_| Error::Config(format!("`{text}` is not a whole number")))
}

fn make(folder: &Path, samples: u64) -> Result<()> {
    let shape = Synthetic {
        vocab_size: 30_522,
        ids: 1000..30_000,
        max_seq_len: 512,
        lengths: 510..511,
        documents: 1,
        rows_per_group: 2048,
        groups_per_shard: 16,
        train_rows: samples,
        valid_rows: 0,
        seed: 0,
        ..Synthetic::default()
    };
    let manifest = shape.write(&Store::folder(folder)?)?;
    let bytes: u64 = manifest.now().train.shards.iter().map(|shard| shard.bytes).sum();
    let tokens = manifest.now().train.tokens();
    println!(
        "{} samples, {tokens} tokens, {:.3} bytes per token",
        manifest.now().train.rows(),
        bytes as f64 / tokens as f64
    );
    Ok(())
}

/// A prepared folder by its name.
type Folder = (String, Store, Manifest);

/// Opens the folders that an argument names.
fn opened(folders: &str) -> Result<Vec<Folder>> {
    let open = |folder: &str| {
        let store = find(Path::new(folder))?;
        let manifest = open(&store)?;
        Ok((folder.to_owned(), store, manifest))
    };
    folders.split('+').map(open).collect()
}

/// Returns one source of several.
fn source<'a>((name, store, manifest): &'a Folder, weight: &'a Weight) -> SourceRequest<'a> {
    let dataset_version = manifest.newest();
    let gone = MissingParts::Refused;
    SourceRequest { name, weight, store, manifest, dataset_version, follow: None, gone }
}

/// Returns a plan of `mask` and `window` at the folders' width.
fn plan(folders: &[Folder], workers: u64, columns: &[(&str, ColumnSpec)]) -> Result<Arc<LoadPlan>> {
    let (_, store, manifest) = &folders[0];
    let weight = Weight::default();
    let sources: Vec<SourceRequest<'_>> =
        if folders.len() > 1 { folders.iter().map(|folder| source(folder, &weight)).collect() } else { Vec::new() };
    let views: BTreeMap<String, AnyView> =
        toml::from_str("masked = { kind = \"mask\" }\nneighbors = { kind = \"window\", of = \"masked\" }")
            .map_err(|error| Error::Config(error.to_string()))?;
    let wanted: BTreeSet<_> = columns.iter().map(|&(view, column)| (view.to_owned(), column)).collect();
    let workers = usize::try_from(workers).map_err(|error| Error::Config(error.to_string()))?;
    let data = DataConfig { workers: Some(workers), ..DataConfig::default() };
    let request = LoadRequest {
        sources: &sources,
        store,
        manifest,
        dataset_version: manifest.newest(),
        epoch_versions: None,
        segment_source: None,
        vocab: Arc::new(read_vocab(store, manifest, manifest.newest())?),
        rows: Rows::Train,
        missing_parts: MissingParts::Refused,
        data: &data,
        views: &views,
        wanted: &wanted,
        cache: None,
        seed: 1,
        rows_per_batch: ROWS_PER_BATCH,
    };
    let text = |problems: Vec<_>| problems.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
    LoadPlan::new(&request).map(Arc::new).map_err(|problems| Error::Config(text(problems)))
}

const COLUMNS: [(&str, ColumnSpec); 4] = [
    ("masked", INPUT_IDS.spec()),
    ("masked", ATTENTION_MASK.spec()),
    ("masked", LABELS.spec()),
    ("neighbors", POSITIVES.spec()),
];

fn run(folders: &[Folder], workers: u64, m_tokens: u64) -> Result<()> {
    for (_, store, manifest) in folders {
        for shard in &manifest.now().train.shards {
            store.get(&shard.path)?;
        }
    }
    let plan = plan(folders, workers, &COLUMNS)?;
    let facts = plan.facts();
    let tokens_per_batch = ROWS_PER_BATCH * u64::from(folders[0].2.max_seq_len);
    let batches = (m_tokens * 1_000_000).div_ceil(tokens_per_batch);
    let tokens = batches * tokens_per_batch;
    let PoolOptions { workers: count, queue_depth: depth, .. } = facts.workers;
    let residence = if facts.resident { "everything stays decoded: not a measure of reading" } else { "not resident" };
    println!("{count} workers, depth {depth}, windows of {} blocks, {residence}", facts.window_blocks);

    let began = Instant::now();
    let mut sum = 0_i64;
    let mut bytes = 0;
    let mut stream = plan.stream(RowIndex(0), RankShard::ALONE);
    let worker_stats = stream.worker_stats();
    for batch in stream.by_ref().take(usize::try_from(batches).unwrap_or(usize::MAX)) {
        let batch = batch?;
        sum = sum.wrapping_add(touch(&batch));
        bytes = batch.bytes();
    }
    let wall = began.elapsed();
    let reader = worker_stats.reader();
    let workers = worker_stats.workers();
    let groups = Arc::clone(stream.groups());
    drop(stream);
    let total = |clock: fn(&runtime::WorkerStats) -> Duration| workers.iter().map(clock).sum::<Duration>();
    let per_token = |spent: Duration| spent.as_secs_f64() * 1e9 / tokens as f64;
    let made: u64 = workers.iter().map(|worker| worker.items).sum();
    let decode = Duration::from_nanos(groups.decode_ns());
    println!(
        "{:.1} M tokens/s ({:.1} M tokens in {:.2} s; checksum {sum:x})",
        tokens as f64 / 1e6 / wall.as_secs_f64(),
        tokens as f64 / 1e6,
        wall.as_secs_f64()
    );
    println!("ns per token, workers together:");
    println!("  busy            {:6.2}  ({made} batches made)", per_token(total(|worker| worker.busy)));
    println!("    decode        {:6.2}  ({} groups)", per_token(decode), groups.decoded());
    println!("    the rest      {:6.2}", per_token(total(|worker| worker.busy).saturating_sub(decode)));
    println!(
        "  starved         {:6.2}  (waiting for another worker's decoding)",
        per_token(total(|worker| worker.starved))
    );
    println!("  blocked         {:6.2}  (the consumer is the slower side)", per_token(total(|worker| worker.blocked)));
    println!("consumer: busy {:.2}, starved {:.2}", per_token(reader.busy), per_token(reader.starved));
    fills(facts.workers.workers, bytes, tokens_per_batch);
    stages(folders)
}

/// Measures the machine's memory bandwidth: as many threads fill buffers of a batch's size, of 64 MB each, so that no
/// cache holds them; the best of eight times. Batches are compared with half of that.
fn fills(workers: usize, bytes: usize, tokens: u64) {
    let mut best = 0.0_f64;
    let buffers = (64_000_000 / bytes.max(1)).max(1);
    let mut all: Vec<Vec<Vec<u64>>> = (0..workers).map(|_| vec![vec![0; bytes.div_ceil(8)]; buffers]).collect();
    for turn in 1..=8 {
        let began = Instant::now();
        std::thread::scope(|scope| {
            for of_worker in &mut all {
                scope.spawn(move || of_worker.iter_mut().for_each(|buffer| black_box(buffer).fill(black_box(turn))));
            }
        });
        best = best.max((workers * buffers * bytes) as f64 / began.elapsed().as_secs_f64());
    }
    let per_token = bytes as f64 / tokens as f64;
    println!(
        "memory: {:.1} GB/s are filled; half of it at {per_token:.1} bytes per token: {:.0} M tokens/s",
        best / 1e9,
        best / 2.0 / per_token / 1e6
    );
}

/// Prints the cost that each stage adds, alone on one thread with everything decoded.
fn stages(folders: &[Folder]) -> Result<()> {
    let stages: [(&str, &[(&str, ColumnSpec)]); 3] =
        [("frame, collate", &[("original", INPUT_IDS.spec())]), ("+ mask", &COLUMNS[..3]), ("+ window", &COLUMNS)];
    println!("ns per token, one thread, decoded samples:");
    for (name, columns) in stages {
        let plan = plan(folders, 1, columns)?;
        let groups = plan.groups();
        let mut best = f64::INFINITY;
        for index in 0..40 {
            let began = Instant::now();
            let batch = plan.batch(&groups, BatchIndex(index))?;
            best = best
                .min(began.elapsed().as_secs_f64() * 1e9 / (batch.rows() as f64 * f64::from(folders[0].2.max_seq_len)));
        }
        println!("  {name:<15} {best:6.2}");
    }
    Ok(())
}

/// Reads every value, as an upload would.
fn touch(batch: &Batch) -> i64 {
    let sum =
        |column| batch.column("masked", column).map_or(0, |grid| grid.values().iter().map(|&id| i64::from(id)).sum());
    let positives =
        batch.column("neighbors", POSITIVES).map_or(0, |grid| grid.values().iter().map(|&at| i64::from(at)).sum());
    sum(INPUT_IDS).wrapping_add(sum(LABELS)).wrapping_add(positives)
}

fn hash(folders: &[Folder], workers: u64, m_tokens: u64) -> Result<()> {
    let plan = plan(folders, workers, &COLUMNS)?;
    let batches = (m_tokens * 1_000_000).div_ceil(ROWS_PER_BATCH * u64::from(folders[0].2.max_seq_len));
    let mut hash = StreamHash::new();
    for batch in plan.stream(RowIndex(0), RankShard::ALONE).take(usize::try_from(batches).unwrap_or(usize::MAX)) {
        hash.step(batch?.row_digests().iter().copied());
    }
    println!("{batches} batches, {workers} workers: {hash}");
    Ok(())
}
