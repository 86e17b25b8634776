//! Cost of the online stages other than views: `cargo bench -p cloze-pipeline --bench load`.
//!
//! Decoding a row group of 2048 × 510 tokens, the permutation, and the generator's random words, one thread.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use pipeline::mixture::{Mixture, Weight};
use pipeline::permutation::Permutation;
use pipeline::rng::Key;
use pipeline::shard::reader::{ShardExpectation, ShardReader};
use pipeline::shard::synthetic::Synthetic;
use schemas::{Epoch, SampleAddress};
use store::Store;

fn decode(criterion: &mut Criterion) {
    let home = tempfile::tempdir().expect("a temporary folder");
    let folder = Store::folder(home.path()).expect("there");
    let shape = Synthetic {
        vocab_size: 30_522,
        ids: 1000..30_000,
        max_seq_len: 512,
        lengths: 510..511,
        rows_per_group: 2048,
        train_rows: 2048,
        ..Synthetic::default()
    };
    let manifest = shape.write(&folder).expect("written");
    let shard = &manifest.now().train.shards[0];
    let promise = ShardExpectation::from_manifest(&manifest);
    let mut group = criterion.benchmark_group("shards, per token");
    group.throughput(Throughput::Elements(shard.tokens));
    let reader = ShardReader::open(&folder, shard, promise).expect("as written");
    group.bench_function("decode", |bencher| bencher.iter(|| reader.read(0).expect("good")));
    group.bench_function("open and verify", |bencher| {
        bencher.iter(|| ShardReader::open(&folder, shard, promise).expect("as written"));
    });
}

fn arithmetic(criterion: &mut Criterion) {
    let mut rng = Key::new(1, Epoch(0), "", "bench").row(SampleAddress::numbered(0), 0);
    let permutation = Permutation::new(1_000_003, &mut rng);
    let mut group = criterion.benchmark_group("arithmetic, per element");
    group.throughput(Throughput::Elements(1024));
    group.bench_function("permutation", |bencher| {
        bencher.iter(|| (0..1024).map(|index| permutation.apply(index)).sum::<u64>());
    });
    let weights = [Weight::Constant(0.7), Weight::Constant(0.2), Weight::Constant(0.1)];
    let named: Vec<(&str, &Weight)> = ["a", "b", "c"].into_iter().zip(&weights).collect();
    let mixture = Mixture::new(&named, 1, 1).expect("three sources");
    let mut row = 0;
    group.bench_function("rows dealt to three sources", |bencher| {
        bencher.iter(|| {
            row += 1024;
            mixture.rows_before(row)
        });
    });
    let mut words = vec![0; 1024];
    group.bench_function("philox words", |bencher| bencher.iter(|| rng.fill(&mut words)));
}

criterion_group!(benches, decode, arithmetic);
criterion_main!(benches);
