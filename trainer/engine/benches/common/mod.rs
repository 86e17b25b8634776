//! Common helpers of the benchmarks of this package.

use schemas::SpecialIds;
use trainer_plan::TrainRequest;
use trainer_plan::config::TrainConfig;
use trainer_plan::device::DeviceChoice;
use trainer_plan::encoder::{EncoderConfig, VocabFacts};

/// Size of BERT's vocabulary.
pub(crate) const WORDS: u32 = 30_522;

/// Returns a run of BERT-base on the CPU, without objectives, with steps of one micro-batch of `rows` rows.
pub(crate) fn request(rows: usize) -> TrainRequest {
    let rows = rows as u64;
    let vocab = VocabFacts {
        size: WORDS,
        special: SpecialIds { pad: 0, unk: Some(100), cls: 101, sep: 102, mask: 103 },
        unigram_log_probabilities: Vec::new(),
    };
    let train = TrainConfig {
        global_batch_size: rows,
        micro_batch_size: rows,
        device: DeviceChoice::Cpu,
        ..TrainConfig::default()
    };
    TrainRequest { seed: 1, train, ..TrainRequest::new(EncoderConfig::default(), vocab, 128) }
}
