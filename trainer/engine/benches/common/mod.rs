//! Common helpers of the benchmarks of this package.

use std::collections::BTreeMap;

use schemas::SpecialIds;
use trainer_plan::config::{CheckpointConfig, ReportConfig, SpikeGuardConfig, TrainConfig, ValidationConfig};
use trainer_plan::device::DeviceChoice;
use trainer_plan::encoder::{EncoderConfig, VocabFacts};
use trainer_plan::identity::Identity;
use trainer_plan::optimizer::OptimizerConfig;
use trainer_plan::schedule::ScheduleConfig;
use trainer_plan::{AmendedRequest, TrainRequest};

/// Size of BERT's vocabulary.
pub(crate) const WORDS: u32 = 30_522;

/// Returns a run of BERT-base on the CPU, without objectives, with steps of one micro-batch of `rows` rows.
pub(crate) fn request(rows: usize) -> TrainRequest {
    let rows = rows as u64;
    TrainRequest {
        seed: 1,
        width: 128,
        view_widths: BTreeMap::new(),
        encoder: EncoderConfig::default(),
        networks: BTreeMap::new(),
        vocab: VocabFacts {
            size: WORDS,
            special: SpecialIds { pad: 0, unk: Some(100), cls: 101, sep: 102, mask: 103 },
            unigram_log_probabilities: Vec::new(),
        },
        objectives: BTreeMap::new(),
        loss: BTreeMap::new(),
        train: TrainConfig {
            global_batch_size: rows,
            micro_batch_size: rows,
            device: DeviceChoice::Cpu,
            ..TrainConfig::default()
        },
        optimizer: OptimizerConfig::default(),
        schedule: ScheduleConfig::default(),
        validation: ValidationConfig::default(),
        checkpoints: CheckpointConfig::default(),
        report: ReportConfig::default(),
        guard: SpikeGuardConfig::default(),
        identity: Identity::new(BTreeMap::new()),
        data_content: String::new(),
        amended: AmendedRequest::default(),
    }
}
