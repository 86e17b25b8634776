//! Cost of objectives in a step: `cargo bench -p cloze-trainer --bench objectives`.
//!
//! The benchmark times whole steps of 4 layers × 256 over 32 rows of 128 tokens with BERT's vocabulary and 15 % masked
//! tokens: masked language modelling alone, then with token contrast, detached and live.

mod common;

use std::collections::BTreeMap;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use schemas::columns::{IGNORE, INPUT_IDS, LABELS, POSITIVES};
use schemas::{Batch, BatchBuilder, BatchIndex};
use trainer::training::{SingleProcess, Trainer};
use trainer_plan::encoder::EncoderConfig;
use trainer_plan::objectives::AnyObjective;
use trainer_plan::{TrainPlan, TrainRequest};

use crate::common::request;

const ROWS: usize = 32;
const WIDTH: usize = 128;

fn steps(criterion: &mut Criterion) {
    let batch = [batch()];
    let mut group = criterion.benchmark_group("step");
    group.sample_size(10).throughput(Throughput::Elements((ROWS * WIDTH) as u64));
    let contrast = "[tc]\nkind = \"token_contrastive\"\n";
    for (name, contrast) in [
        ("masked_lm", String::new()),
        ("masked_lm + token_contrastive", contrast.to_owned()),
        ("masked_lm + token_contrastive, live", format!("{contrast}detach = false\n")),
    ] {
        let objectives = toml::from_str(&format!("[mlm]\nkind = \"masked_lm\"\n{contrast}")).expect("two objectives");
        let mut trainer = Trainer::new(&plan(objectives), Arc::new(SingleProcess)).expect("a good plan");
        group.bench_function(name, |bencher| bencher.iter(|| trainer.step(&batch).expect("a step")));
    }
    group.finish();
}

fn plan(objectives: BTreeMap<String, AnyObjective>) -> TrainPlan {
    let request = TrainRequest {
        width: 128,
        encoder: EncoderConfig { layers: 4, hidden: 256, heads: 4, feed_forward: 1024, ..EncoderConfig::default() },
        loss: objectives.keys().map(|name| (name.clone(), 1.0)).collect(),
        objectives,
        ..request(ROWS)
    };
    TrainPlan::new(request).expect("a good plan")
}

/// Batch of full rows. Every seventh token is predicted. Positions `2i` and `2i + 1` are each other's positives.
fn batch() -> Batch {
    let ids: Vec<i32> = (0..ROWS * WIDTH).map(|at| 1000 + i32::try_from(at * 7919 % 29_000).expect("small")).collect();
    let labels = ids.iter().enumerate().map(|(at, &id)| if at % 7 == 0 { id } else { IGNORE });
    let positives = (0..ROWS * WIDTH).map(|at| i16::try_from((at % WIDTH) ^ 1).expect("narrow rows"));
    let mut builder = BatchBuilder::new(BatchIndex(0), ROWS);
    builder.push("masked", LABELS, WIDTH, labels.collect());
    builder.push("neighbors", INPUT_IDS, WIDTH, ids.clone());
    builder.push("neighbors", POSITIVES, WIDTH, positives.collect());
    builder.push("masked", INPUT_IDS, WIDTH, ids);
    builder.finish()
}

criterion_group!(benches, steps);
criterion_main!(benches);
