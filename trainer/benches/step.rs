//! One optimizer step on the CPU: 4 layers × 256, rows of 128, 32 rows, the vocabulary of BERT.
//!
//! `cargo bench -p cloze-trainer --bench step`; per token, since that is what runs are counted in. `CLOZE_THREADS`
//! sets libtorch's threads (all cores otherwise).

use std::collections::BTreeMap;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schemas::columns::{IGNORE, INPUT_IDS, LABELS, POSITIVES};
use schemas::{Batch, BatchBuilder, BatchIndex, SpecialIds};
use trainer::device::DeviceChoice;
use trainer::identity::Identity;
use trainer::objectives::AnyObjective;
use trainer::optimizer::OptimizerConfig;
use trainer::plan::{
    CheckpointConfig, EncoderConfig, ReportConfig, TrainConfig, TrainPlan, ValidationConfig, VocabFacts,
};
use trainer::schedule::ScheduleConfig;
use trainer::step::Trainer;

const WORDS: u32 = 30_522;
const WIDTH: usize = 128;
const ROWS: usize = 32;

fn plan(objectives: &[&str]) -> TrainPlan {
    let known: BTreeMap<String, AnyObjective> =
        AnyObjective::examples().into_iter().map(|objective| (objective.kind().to_owned(), objective)).collect();
    let threads = std::env::var("CLOZE_THREADS").ok().and_then(|text| text.parse().ok()).unwrap_or(0);
    TrainPlan {
        seed: 1,
        width: 128,
        encoder: EncoderConfig { layers: 4, hidden: 256, heads: 4, feed_forward: 1024, ..EncoderConfig::default() },
        vocab: VocabFacts {
            size: WORDS,
            special: SpecialIds { pad: 0, unk: Some(100), cls: 101, sep: 102, mask: 103 },
            unigram_log_probabilities: vec![-f64::from(WORDS).ln(); WORDS as usize],
        },
        loss: objectives.iter().map(|name| ((*name).to_owned(), 1.0)).collect(),
        objectives: known,
        train: TrainConfig {
            rows_per_step: ROWS as u64,
            rows_per_micro_batch: ROWS as u64,
            device: DeviceChoice::Cpu,
            threads,
            ..TrainConfig::default()
        },
        optimizer: OptimizerConfig::default(),
        schedule: ScheduleConfig::default(),
        validation: ValidationConfig::default(),
        checkpoints: CheckpointConfig::default(),
        report: ReportConfig::default(),
        identity: Identity::new(BTreeMap::new()),
        data_content: String::new(),
        folder: "unused".into(),
    }
}

/// Ids with the frequencies of a language, roughly: few common, many rare. Every seventh is masked.
fn batch(index: u64) -> Batch {
    let mut state = index + 1;
    let mut id = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let rank = 1000 + (29_000_u64 >> (state >> 60)) * ((state >> 32) & 0xffff) / 0xffff;
        i32::try_from(rank).expect("below the vocabulary's size")
    };
    let words: Vec<i32> = (0..ROWS * WIDTH).map(|_| id()).collect();
    let masked = |at: usize| at.is_multiple_of(7);
    let ids = words.iter().enumerate().map(|(at, &id)| if masked(at) { 103 } else { id }).collect();
    let labels = words.iter().enumerate().map(|(at, &id)| if masked(at) { id } else { IGNORE }).collect();
    let neighbour = |at: usize| i16::try_from(if at == 0 { 1 } else { at - 1 }).expect("rows are narrow");
    let positives = (0..ROWS * WIDTH).map(|at| neighbour(at % WIDTH)).collect();
    let mut builder = BatchBuilder::new(BatchIndex(index), ROWS);
    builder.push("masked", INPUT_IDS, WIDTH, ids);
    builder.push("masked", LABELS, WIDTH, labels);
    builder.push("neighbors", INPUT_IDS, WIDTH, words);
    builder.push("neighbors", POSITIVES, WIDTH, positives);
    builder.finish()
}

fn steps(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("step");
    group.sample_size(20).throughput(Throughput::Elements((ROWS * WIDTH) as u64));
    for objectives in [&["masked_lm"][..], &["masked_lm", "token_contrastive"]] {
        let mut trainer = Trainer::new(&plan(objectives)).expect("a good plan");
        let batches: Vec<Batch> = (0..8).map(batch).collect();
        let mut next = 0;
        group.bench_function(objectives.join(" + "), |bencher| {
            bencher.iter(|| {
                trainer.step(std::slice::from_ref(&batches[next % batches.len()])).expect("good batches");
                next += 1;
            });
        });
    }
    group.finish();
}

criterion_group! {
    name = step;
    config = Criterion::default();
    targets = steps
}
criterion_main!(step);
