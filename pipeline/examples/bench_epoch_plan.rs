//! Cost of a folder of 10^10 rows in 10^5 shards: reading, starting, resuming, and drawing.
//!
//! `cargo run --release -p cloze-pipeline --example bench_epoch_plan -- [SHARDS]`: a synthetic manifest of that many
//! shards (default 100,000), each of 49 row groups of 2,048 rows. The shards themselves do not exist.

#![expect(clippy::print_stdout, reason = "its result")]

use std::hint::black_box;
use std::time::Instant;

use pipeline::epoch_plan::SplitSnapshot;
use pipeline::sampler::{Order, Sampler, SamplerOptions};
use schemas::manifest::{CorpusReport, DatasetVersionEntry, FileEntry, Pack, PartEntry, TokenizerInfo};
use schemas::{DatasetVersion, Epoch, Manifest, PartId, Shard, SpecialIds};

const GROUPS: usize = 49;

fn main() {
    let shards: u32 = std::env::args().nth(1).map_or(100_000, |shards| shards.parse().expect("a number of shards"));
    let manifest = manifest(shards);
    let (bytes, _) = timed("manifest to bytes", || manifest.to_json());
    println!("  {} MiB for {} rows", bytes.len() >> 20, manifest.now().train.rows());
    let (manifest, _) = timed("manifest read and checked", || Manifest::from_json(&bytes).expect("as written"));
    let (snapshot, _) = timed("the newest dataset version, of which nothing was dropped", || {
        SplitSnapshot::train(&manifest, DatasetVersion(0))
    });
    let half = Manifest {
        dataset_versions: [manifest.dataset_versions.clone(), vec![dropping(shards / 2)]].concat(),
        ..manifest.clone()
    };
    timed("the first dataset version, of which half was dropped", || SplitSnapshot::train(&half, DatasetVersion(0)));
    let options =
        SamplerOptions { pieces: 1, copies: 1, seed: 1, order: Order::Shuffled, window_blocks: 16, fraction: 1.0 };
    let (sampler, _) = timed("sampler", || Sampler::new(&snapshot.split, options));
    timed("the same in other windows", || Sampler::new(&snapshot.split, options).with_windows(64));
    let rows = sampler.rows_per_epoch();
    timed("first draw of an epoch", || sampler.rows(Epoch(3), rows / 2..rows / 2 + 1));
    let draws = 4096_u64;
    let ((), seconds) = timed("256 rows at a time, 4,096 times, all over the epoch", || {
        for draw in 0..draws {
            let row = (rows - 256) / draws * draw;
            black_box(sampler.rows(Epoch(3), row..row + 256));
        }
    });
    println!("  {:.0} ns a draw", seconds * 1e9 / (256 * draws) as f64);
    let spread = SamplerOptions { order: Order::Spread(10_000), ..options };
    let (valid, _) = timed("10,000 rows from all over it", || Sampler::new(&snapshot.split, spread));
    println!("  in {} row groups", valid.blocks().len());
}

fn timed<T>(what: &str, work: impl FnOnce() -> T) -> (T, f64) {
    let began = Instant::now();
    let done = work();
    let seconds = began.elapsed().as_secs_f64();
    println!("{what:<55} {seconds:>9.4} s");
    (done, seconds)
}

fn dropping(parts: u32) -> DatasetVersionEntry {
    DatasetVersionEntry { dropped: (0..parts).map(PartId).collect(), parts: Vec::new(), ..dataset_version(0) }
}

fn dataset_version(shards: u32) -> DatasetVersionEntry {
    let shard = |id: u32| Shard {
        path: format!("train/part-{id:05}-00-00.parquet"),
        part: PartId(id),
        first_row: 0,
        rows: GROUPS as u64 * 2048,
        tokens: GROUPS as u64 * 2048 * 500,
        groups: vec![2048; GROUPS],
        bytes: 100_000_000,
        blake3: "0".repeat(64),
        content: "0".repeat(64),
    };
    let part = |id| PartEntry { id: PartId(id), train: vec![shard(id)], valid: Vec::new() };
    DatasetVersionEntry {
        dropped: Vec::new(),
        parts: (0..shards).map(part).collect(),
        vocab: FileEntry::default(),
        corpus: CorpusReport::default(),
        content: String::new(),
    }
}

fn manifest(shards: u32) -> Manifest {
    Manifest {
        tokenizer: TokenizerInfo {
            fingerprint: String::new(),
            kind: "wordpiece".into(),
            vocab_size: 30_522,
            lowercase: true,
            special: SpecialIds { pad: 0, unk: Some(100), cls: 101, sep: 102, mask: 103 },
            specials: vec![0, 100, 101, 102, 103],
        },
        max_seq_len: 512,
        pack: Pack { name: "block".into(), content: 510, cuts: true, ..Pack::default() },
        files: std::collections::BTreeMap::new(),
        dataset_versions: vec![dataset_version(shards)],
    }
}
