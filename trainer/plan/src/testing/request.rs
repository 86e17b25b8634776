//! A tiny run for tests: two layers, 60 words. The engine's tests include this file too.

use std::collections::BTreeMap;

use schemas::SpecialIds;
use trainer_plan::config::{CheckpointConfig, ReportConfig, TrainConfig, ValidationConfig};
use trainer_plan::device::DeviceChoice;
use trainer_plan::encoder::{EncoderConfig, VocabFacts};
use trainer_plan::identity::Identity;
use trainer_plan::networks::AnyNetwork;
use trainer_plan::objectives::AnyObjective;
use trainer_plan::optimizer::OptimizerConfig;
use trainer_plan::schedule::{ScheduleConfig, ScheduleKind};
use trainer_plan::{TrainPlan, TrainRequest};

/// Ids of the vocabulary.
pub(crate) const WORDS: u32 = 60;
/// Rows of a micro-batch.
pub(crate) const ROWS: usize = 4;

/// 12 steps of two micro-batches each, all objectives that there are.
pub(crate) fn request() -> TrainRequest {
    let objectives: Vec<AnyObjective> = AnyObjective::examples();
    let encoder = EncoderConfig {
        layers: 2,
        hidden: 16,
        heads: 2,
        feed_forward: 32,
        max_positions: 16,
        ..EncoderConfig::default()
    };
    let vocab = VocabFacts {
        size: WORDS,
        special: SpecialIds { pad: 0, unk: Some(1), cls: 2, sep: 3, mask: 4 },
        unigram_log_probabilities: vec![-f64::from(WORDS).ln(); WORDS as usize],
    };
    TrainRequest {
        seed: 7,
        networks: networks(),
        loss: objectives.iter().map(|objective| (objective.kind().to_owned(), 1.0)).collect(),
        objectives: objectives.into_iter().map(|objective| (objective.kind().to_owned(), objective)).collect(),
        train: TrainConfig {
            steps: 12,
            global_batch_size: 8,
            micro_batch_size: ROWS as u64,
            device: DeviceChoice::Cpu,
            threads: 1,
            ..TrainConfig::default()
        },
        optimizer: OptimizerConfig { lr: 0.01, ..OptimizerConfig::default() },
        schedule: ScheduleConfig { kind: ScheduleKind::Linear, warmup_steps: 2, ..ScheduleConfig::default() },
        validation: ValidationConfig { every_steps: 5, rows: 8, stop: None },
        checkpoints: CheckpointConfig { every_steps: 4, keep: 2, ..CheckpointConfig::default() },
        report: ReportConfig { every_steps: 3 },
        identity: Identity::new([("seed".to_owned(), "7".to_owned())].into()),
        data_content: "data".to_owned(),
        ..TrainRequest::new(encoder, vocab, 12)
    }
}

/// A request without problems.
pub(crate) fn checked(request: TrainRequest) -> TrainPlan {
    TrainPlan::new(request).unwrap_or_else(|problems| panic!("{problems:?}"))
}

/// A generator and a teacher, as objectives expect them unless told otherwise.
pub(crate) fn networks() -> BTreeMap<String, AnyNetwork> {
    let text = "generator = { kind = 'generator', layers = 1, hidden = 8, heads = 1, feed_forward = 16 }\n\
                teacher = { kind = 'teacher' }";
    toml::from_str(text).expect("two networks")
}
