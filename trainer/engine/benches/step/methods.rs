//! Measured methods, their plans, and their common batches.

use std::collections::BTreeMap;

use schemas::columns::{ATTENTION_MASK, DRAWS, IGNORE, INPUT_IDS, LABELS, POSITIVES};
use schemas::{Batch, BatchBuilder, BatchIndex};
use trainer_plan::config::TrainConfig;
use trainer_plan::device::DeviceChoice;
use trainer_plan::encoder::{EncoderConfig, RelativeForm, RelativePositions};
use trainer_plan::precision::Precision;
use trainer_plan::{TrainPlan, TrainRequest};

use crate::common::{WORDS, request};

/// Rows of a step.
pub(crate) const ROWS: usize = 8;

/// Method: its baseline (`relative` selects it), networks, objectives and loss.
pub(crate) struct Method {
    pub(crate) name: &'static str,
    pub(crate) relative: bool,
    toml: &'static str,
}

/// All methods. The first two are the baselines of the others.
pub(crate) const METHODS: [Method; 8] = [
    Method {
        name: "mlm",
        relative: false,
        toml: "objectives = { mlm = { kind = 'masked_lm' } }\nloss = { mlm = 1.0 }",
    },
    Method {
        name: "mlm, relative",
        relative: true,
        toml: "objectives = { mlm = { kind = 'masked_lm' } }\nloss = { mlm = 1.0 }",
    },
    Method {
        name: "mlm + tp",
        relative: false,
        toml: "objectives = { mlm = { kind = 'masked_lm' }, tp = { kind = 'token_prediction' } }\n\
               loss = { mlm = 1.0, tp = 1.0 }",
    },
    Method {
        name: "taco",
        relative: false,
        toml: "objectives = { mlm = { kind = 'masked_lm' }, tc = { kind = 'token_contrastive' } }\n\
               loss = { mlm = 1.0, tc = 1.0 }",
    },
    Method {
        name: "tacl",
        relative: false,
        toml: "networks = { teacher = { kind = 'teacher' } }\n\
               objectives = { mlm = { kind = 'masked_lm' }, tacl = { kind = 'teacher_contrastive' } }\n\
               loss = { mlm = 1.0, tacl = 1.0 }",
    },
    Method {
        name: "electra",
        relative: false,
        toml: "networks = { generator = { kind = 'generator', layers = 4, hidden = 128, heads = 2, \
               feed_forward = 512, sampling = 'train' } }\n\
               objectives = { generator = { kind = 'masked_lm', network = 'generator' }, \
               rtd = { kind = 'replaced_token' } }\nloss = { generator = 1.0, rtd = 50.0 }",
    },
    Method {
        name: "coco-lm",
        relative: true,
        toml: "networks = { generator = { kind = 'generator', layers = 1 } }\n\
               objectives = { generator = { kind = 'masked_lm', network = 'generator' }, \
               clm = { kind = 'corrective_lm' }, scl = { kind = 'sequence_contrastive' } }\n\
               loss = { generator = 1.0, clm = 1.0, scl = 1.0 }",
    },
    Method {
        name: "coco-lm, no scl",
        relative: true,
        toml: "networks = { generator = { kind = 'generator', layers = 1 } }\n\
               objectives = { generator = { kind = 'masked_lm', network = 'generator' }, \
               clm = { kind = 'corrective_lm' } }\nloss = { generator = 1.0, clm = 1.0 }",
    },
];

/// Configuration tables of a method.
#[derive(serde::Deserialize)]
struct Tables {
    #[serde(default)]
    networks: BTreeMap<String, trainer_plan::networks::AnyNetwork>,
    objectives: BTreeMap<String, trainer_plan::objectives::AnyObjective>,
    loss: BTreeMap<String, f64>,
}

/// Shape, device, precision and threads of a step.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Setting {
    pub(crate) base: bool,
    pub(crate) width: usize,
    pub(crate) cuda: bool,
    pub(crate) precision: Precision,
    pub(crate) threads: usize,
}

impl Setting {
    pub(crate) fn encoder(&self, relative: bool) -> EncoderConfig {
        let form = if relative { RelativeForm::CocoLm } else { RelativeForm::None };
        let relative_positions = RelativePositions { kind: form, ..RelativePositions::default() };
        let positions = u32::try_from(self.width).expect("a row is short");
        let common = EncoderConfig { relative_positions, max_positions: positions, ..EncoderConfig::default() };
        if self.base {
            common
        } else {
            EncoderConfig { layers: 4, hidden: 512, heads: 8, feed_forward: 2048, ..common }
        }
    }
}

/// Number of columns of a crop of nine tenths.
fn cropped(width: usize) -> usize {
    ((width - 2) * 9 / 10 + 2).next_multiple_of(8)
}

pub(crate) fn plan(method: &Method, setting: Setting) -> TrainPlan {
    let tables: Tables = toml::from_str(method.toml).expect("tables of this program");
    let Setting { width, cuda, precision, threads, .. } = setting;
    let encoder = setting.encoder(method.relative);
    let columns = |width: usize| u32::try_from(width).expect("a row is short");
    let mut request = request(ROWS);
    request.vocab.unigram_log_probabilities = vec![-f64::from(WORDS).ln(); WORDS as usize];
    request.train = TrainConfig {
        device: if cuda { DeviceChoice::Cuda(0) } else { DeviceChoice::Cpu },
        precision,
        threads,
        ..request.train
    };
    let request = TrainRequest {
        width: columns(width),
        view_widths: [("cropped".to_owned(), columns(cropped(width)))].into(),
        encoder,
        networks: tables.networks,
        objectives: tables.objectives,
        loss: tables.loss,
        ..request
    };
    TrainPlan::new(request).expect("a good plan")
}

/// Batch of ids with language-like frequencies: few common ids, many rare ones. Three of twenty tokens are masked.
pub(crate) fn batch(index: u64, width: usize) -> Batch {
    let mut state = index + 1;
    let mut id = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let rank = 1000 + (29_000_u64 >> (state >> 60)) * ((state >> 32) & 0xffff) / 0xffff;
        i32::try_from(rank).expect("below the vocabulary's size")
    };
    let cells = ROWS * width;
    let words: Vec<i32> = (0..cells).map(|_| id()).collect();
    let masked = |at: usize| at * 3 % 20 < 3;
    let each = |of: &dyn Fn(usize) -> i32| (0..cells).map(of).collect::<Vec<i32>>();
    let neighbour = |at: usize| i16::try_from(if at == 0 { 1 } else { at - 1 }).expect("rows are narrow");
    let mut builder = BatchBuilder::new(BatchIndex(index), ROWS);
    builder.push("masked", INPUT_IDS, width, each(&|at| if masked(at) { 103 } else { words[at] }));
    builder.push("masked", LABELS, width, each(&|at| if masked(at) { words[at] } else { IGNORE }));
    builder.push("masked", DRAWS, width, each(&|at| words[at].wrapping_mul(1_664_525)));
    builder.push("neighbors", POSITIVES, width, (0..cells).map(|at| neighbour(at % width)).collect());
    let crop = cropped(width);
    let crop_ids = (0..ROWS * crop).map(|at| words[at / crop * width + at % crop]).collect();
    builder.push("cropped", INPUT_IDS, crop, crop_ids);
    // The last columns of a crop are padding.
    let real = (0..ROWS * crop).map(|at| u8::from(at % crop < (width - 2) * 9 / 10 + 2)).collect();
    builder.push("cropped", ATTENTION_MASK, crop, real);
    builder.push("original", INPUT_IDS, width, words);
    builder.finish()
}
