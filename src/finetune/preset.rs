//! Hyperparameters of the papers, by name.
//!
//! # What
//! A [`Preset`] has the values that a paper states for fine-tuning. Batch size, epochs, learning rate and warm-up depend
//! on the size of the task. If the paper searches over several values, they are all here: `cloze sweep` tries them, and
//! `cloze finetune` uses the first.
//!
//! # Why
//! Results of different papers are comparable only if each model is fine-tuned as its paper says.
//!
//! # Definition
//! A task belongs to the first group that names it, else to the first group whose minimum it reaches with the examples
//! that are trained on. A value that the paper does not state is BERT's.
//!
//! # Reference
//! The table below names the source of each preset.

#[cfg(test)]
mod tests;

use crate::cli::{PresetName, Statistic, Warmup};

/// Hyperparameters of a paper. `None`: the paper does not state the value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preset {
    pub(crate) name: PresetName,
    /// Paper or code with the values.
    pub(super) source: &'static str,
    pub(super) optimizer: OptimizerValues,
    pub(super) max_seq_len: Option<u32>,
    /// Dropout of the encoder. Otherwise that of the model.
    pub(super) dropout: Option<f64>,
    /// Dropout of the head.
    pub(super) head: Option<HeadDropout>,
    /// Factor of the learning rate from each layer to the one below it.
    pub(super) layer_decay: Option<f64>,
    /// Choice of the checkpoint. Otherwise the last one.
    pub(super) choice: Option<CheckpointChoice>,
    groups: &'static [TaskGroup],
    /// Steps of each run, instead of epochs.
    pub(crate) steps: Option<u64>,
    /// Seeds of each combination.
    pub(crate) seeds: Option<u64>,
    /// Random draws from the combinations.
    pub(crate) draws: Option<u64>,
    /// Statistic that the paper reports.
    pub(crate) statistic: Option<Statistic>,
}

/// Values of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct OptimizerValues {
    pub(super) betas: Option<[f64; 2]>,
    pub(super) eps: Option<f64>,
    pub(super) weight_decay: Option<f64>,
    pub(super) bias_correction: Option<bool>,
    /// 0: no clipping.
    pub(super) max_grad_norm: Option<f64>,
}

impl OptimizerValues {
    const UNSTATED: Self =
        Self { betas: None, eps: None, weight_decay: None, bias_correction: None, max_grad_norm: None };
}

/// Choice of the checkpoint that is best on the dev set, by the first metric of the task.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CheckpointChoice {
    pub(super) validations_per_epoch: u64,
    /// Validations without a better value after which the run ends.
    pub(super) patience: Option<u64>,
}

/// Dropout around the dense layer of a head.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct HeadDropout {
    pub(super) input: f64,
    pub(super) output: f64,
}

/// Tasks of one size. The first value of each list is the one of `cloze finetune`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TaskGroup {
    /// Description for comments.
    pub(super) label: &'static str,
    /// Tasks of the group regardless of their size.
    tasks: &'static [&'static str],
    /// Smallest number of training examples; `u64::MAX` for a group of named tasks only.
    min_examples: u64,
    pub(crate) lr: &'static [f64],
    pub(crate) batch_size: &'static [u64],
    pub(crate) epochs: &'static [u64],
    pub(crate) warmup: &'static [Warmup],
}

/// Examples from which a task of GLUE counts as large: SST-2, QNLI, QQP and MNLI have more, the others fewer than 9,000.
const LARGE: u64 = 20_000;

/// Examples from which TACO trains as long as on QQP and MNLI. QNLI has 105,000, QQP 364,000.
const VERY_LARGE: u64 = 200_000;

/// 10 % of the steps.
const TENTH: &[Warmup] = &[Warmup::Share(0.1)];

/// Devlin et al. 2019, appendix A.3, and the Adam of their code: ε 1e-6, clipping at 1. Supplies what other papers do not state.
pub(super) const BERT: Preset = Preset {
    name: PresetName::Bert,
    source: "Devlin et al. 2019, appendix A.3",
    optimizer: OptimizerValues {
        betas: Some([0.9, 0.999]),
        eps: Some(1e-6),
        weight_decay: Some(0.01),
        bias_correction: None,
        max_grad_norm: Some(1.0),
    },
    max_seq_len: Some(128),
    dropout: None,
    head: None,
    layer_decay: None,
    choice: None,
    groups: &[TaskGroup {
        label: "all tasks",
        tasks: &[],
        min_examples: 0,
        lr: &[5e-5, 3e-5, 2e-5],
        batch_size: &[32, 16],
        epochs: &[3, 2, 4],
        warmup: TENTH,
    }],
    steps: None,
    seeds: None,
    draws: None,
    statistic: None,
};

/// Optimizer of the `Trainer` of `transformers`. TACO states the same values.
const TRAINER_OPTIMIZER: OptimizerValues = OptimizerValues {
    betas: Some([0.9, 0.999]),
    eps: Some(1e-8),
    weight_decay: Some(0.0),
    bias_correction: None,
    max_grad_norm: Some(1.0),
};

/// TACO, fine-tuning of small models: 4 seeds, of which the mean is reported.
const TACO_SMALL: Preset = Preset {
    name: PresetName::TacoSmall,
    source: "TACO, small models",
    optimizer: TRAINER_OPTIMIZER,
    max_seq_len: Some(128),
    groups: &[
        TaskGroup {
            label: "MNLI, QQP",
            tasks: &[],
            min_examples: VERY_LARGE,
            lr: &[5e-5],
            batch_size: &[64],
            epochs: &[6],
            warmup: &[Warmup::Steps(2000)],
        },
        TaskGroup {
            label: "QNLI, SST-2",
            tasks: &[],
            min_examples: LARGE,
            lr: &[5e-5],
            batch_size: &[64],
            epochs: &[4],
            warmup: &[Warmup::Steps(200)],
        },
        TaskGroup {
            label: "CoLA, STS-B, MRPC, RTE",
            tasks: &[],
            min_examples: 0,
            lr: &[5e-5],
            batch_size: &[32],
            epochs: &[4],
            warmup: &[Warmup::Steps(100)],
        },
    ],
    seeds: Some(4),
    statistic: Some(Statistic::Mean),
    ..BERT
};

/// Learning rates from which TACO's base models are drawn.
const TACO_BASE_LR: &[f64] = &[5e-5, 3e-5, 2e-5, 1e-5];
const TACO_BASE_EPOCHS: &[u64] = &[4, 5, 6, 7, 8];

/// TACO, fine-tuning of base models: 6 random draws, of which the mean is reported. The paper states ranges of batch
/// size, epochs and warm-up; the values within them are ours.
const TACO_BASE: Preset = Preset {
    name: PresetName::TacoBase,
    source: "TACO, base models",
    optimizer: TRAINER_OPTIMIZER,
    max_seq_len: Some(128),
    groups: &[
        TaskGroup {
            label: "large tasks",
            tasks: &[],
            min_examples: LARGE,
            lr: TACO_BASE_LR,
            batch_size: &[64, 32, 128],
            epochs: TACO_BASE_EPOCHS,
            warmup: &[Warmup::Steps(1000), Warmup::Steps(1500), Warmup::Steps(2000)],
        },
        TaskGroup {
            label: "small tasks",
            tasks: &[],
            min_examples: 0,
            lr: TACO_BASE_LR,
            batch_size: &[32, 16, 64],
            epochs: TACO_BASE_EPOCHS,
            warmup: &[Warmup::Steps(100), Warmup::Steps(150), Warmup::Steps(200)],
        },
    ],
    seeds: Some(1),
    draws: Some(6),
    statistic: Some(Statistic::OverallMean),
    ..BERT
};

/// Learning rates of COCO-LM's models: the paper states the ranges 1e-5 to 5e-5 and 0.5e-5 to 3e-5; the steps are ours.
const COCO_LM_BASE_LR: &[f64] = &[3e-5, 1e-5, 2e-5, 4e-5, 5e-5];
const COCO_LM_LARGE_LR: &[f64] = &[1e-5, 5e-6, 1.5e-5, 2e-5, 2.5e-5, 3e-5];

/// Returns COCO-LM's groups of tasks.
const fn coco_lm_groups(lr: &'static [f64]) -> [TaskGroup; 2] {
    [
        TaskGroup {
            label: "large tasks",
            tasks: &[],
            min_examples: LARGE,
            lr,
            batch_size: &[32],
            epochs: &[3, 2, 5],
            warmup: &[Warmup::Share(0.06)],
        },
        TaskGroup {
            label: "small tasks",
            tasks: &[],
            min_examples: 0,
            lr,
            batch_size: &[32, 16],
            epochs: &[10, 2, 3, 5],
            warmup: &[Warmup::Share(0.06), Warmup::Share(0.1)],
        },
    ]
}

/// COCO-LM, base and base++: the median of 5 seeds is reported. Its code has no clipping.
const COCO_LM_BASE: Preset = Preset {
    name: PresetName::CocoLmBase,
    source: "COCO-LM, base and base++",
    optimizer: OptimizerValues {
        betas: Some([0.9, 0.98]),
        eps: Some(1e-6),
        weight_decay: Some(0.01),
        bias_correction: None,
        max_grad_norm: Some(0.0),
    },
    max_seq_len: Some(512),
    dropout: Some(0.1),
    head: Some(HeadDropout { input: 0.1, output: 0.1 }),
    layer_decay: None,
    choice: Some(CheckpointChoice { validations_per_epoch: 2, patience: None }),
    groups: &coco_lm_groups(COCO_LM_BASE_LR),
    steps: None,
    seeds: Some(5),
    draws: None,
    statistic: Some(Statistic::Median),
};

/// COCO-LM, large++.
const COCO_LM_LARGE: Preset = Preset {
    name: PresetName::CocoLmLarge,
    source: "COCO-LM, large++",
    groups: &coco_lm_groups(COCO_LM_LARGE_LR),
    ..COCO_LM_BASE
};

/// TaCL on SQuAD: the question answering example of `transformers`, with the defaults of its `Trainer`.
const TACL_SQUAD: Preset = Preset {
    name: PresetName::TaclSquad,
    source: "TaCL, question answering example of `transformers`",
    optimizer: TRAINER_OPTIMIZER,
    max_seq_len: Some(384),
    groups: &[TaskGroup {
        label: "SQuAD 1.1 and 2.0",
        tasks: &[],
        min_examples: 0,
        lr: &[3e-5],
        batch_size: &[12],
        epochs: &[2],
        warmup: &[Warmup::Share(0.0)],
    }],
    ..BERT
};

/// Tasks with answers to questions about passages.
const ANSWERS: &[&str] = &["squad", "squad_v2", "custom_span_extraction"];

/// Returns ELECTRA's groups of tasks, with the epochs of its code.
const fn electra_groups(lr: &'static [f64]) -> [TaskGroup; 3] {
    let others = TaskGroup {
        label: "other tasks",
        tasks: &[],
        min_examples: 0,
        lr,
        batch_size: &[32],
        epochs: &[3],
        warmup: TENTH,
    };
    let named = TaskGroup { min_examples: u64::MAX, ..others };
    let long = TaskGroup { label: "RTE, STS-B", tasks: &["rte", "stsb"], epochs: &[10], ..named };
    let answers = TaskGroup { label: "answers", tasks: ANSWERS, epochs: &[2], ..named };
    [long, answers, others]
}

/// ELECTRA, small and base, and its code: Adam without bias correction.
const ELECTRA: Preset = Preset {
    name: PresetName::Electra,
    source: "ELECTRA, small and base models",
    optimizer: OptimizerValues { bias_correction: Some(false), ..OptimizerValues::UNSTATED },
    max_seq_len: None,
    layer_decay: Some(0.8),
    groups: &electra_groups(&[1e-4]),
    ..BERT
};

/// ELECTRA, large.
const ELECTRA_LARGE: Preset = Preset {
    name: PresetName::ElectraLarge,
    source: "ELECTRA, large model",
    layer_decay: Some(0.9),
    groups: &electra_groups(&[5e-5]),
    ..ELECTRA
};

/// Don't Stop Pretraining, and its code: the mean of 5 seeds with its standard deviation. Also for FE-MLM, which states
/// no values.
const DAPT: Preset = Preset {
    name: PresetName::Dapt,
    source: "Don't Stop Pretraining",
    optimizer: OptimizerValues {
        betas: Some([0.9, 0.98]),
        eps: Some(1e-6),
        weight_decay: Some(0.1),
        bias_correction: None,
        max_grad_norm: Some(1.0),
    },
    max_seq_len: Some(512),
    dropout: Some(0.1),
    head: Some(HeadDropout { input: 0.1, output: 0.0 }),
    layer_decay: None,
    choice: Some(CheckpointChoice { validations_per_epoch: 1, patience: Some(3) }),
    groups: &[
        TaskGroup {
            label: "AGNews",
            tasks: &["ag_news"],
            min_examples: LARGE,
            lr: &[2e-5],
            batch_size: &[16],
            epochs: &[3],
            warmup: &[Warmup::Share(0.06)],
        },
        TaskGroup {
            label: "ACL-ARC, SciERC",
            tasks: &[],
            min_examples: 1000,
            lr: &[2e-5],
            batch_size: &[16],
            epochs: &[10],
            warmup: &[Warmup::Share(0.06)],
        },
        TaskGroup {
            label: "HyperPartisan",
            tasks: &[],
            min_examples: 0,
            lr: &[2e-5],
            batch_size: &[8],
            epochs: &[10],
            warmup: &[Warmup::Share(0.06)],
        },
    ],
    steps: None,
    seeds: Some(5),
    draws: None,
    statistic: Some(Statistic::Mean),
};

/// Returns LM-BFF's groups of tasks: one, for any number of examples.
const fn lm_bff_groups(lr: &'static [f64]) -> [TaskGroup; 1] {
    [TaskGroup {
        label: "few examples",
        tasks: &[],
        min_examples: 0,
        lr,
        batch_size: &[2, 4, 8],
        epochs: &[1],
        warmup: &[Warmup::Share(0.0)],
    }]
}

/// LM-BFF: 1,000 steps for 16 examples of each class, and the mean of 5 splits, which are seeds here. The optimizer is that of
/// `transformers`, whose defaults its code uses. With demonstrations, its rows are longer: set `--max-seq-len`.
const LM_BFF: Preset = Preset {
    name: PresetName::LmBff,
    source: "LM-BFF",
    optimizer: TRAINER_OPTIMIZER,
    max_seq_len: Some(128),
    groups: &lm_bff_groups(&[1e-5, 2e-5, 5e-5]),
    steps: Some(1000),
    seeds: Some(5),
    statistic: Some(Statistic::Mean),
    ..BERT
};

/// COCO-LM with the prompts of LM-BFF: other learning rates, everything else as there.
const LM_BFF_COCO_LM: Preset = Preset {
    name: PresetName::LmBffCocoLm,
    source: "COCO-LM, few-shot prompts",
    groups: &lm_bff_groups(&[3e-6, 4e-6, 5e-6]),
    ..LM_BFF
};

/// All presets.
const PRESETS: &[Preset] = &[
    BERT,
    TACO_SMALL,
    TACO_BASE,
    COCO_LM_BASE,
    COCO_LM_LARGE,
    TACL_SQUAD,
    ELECTRA,
    ELECTRA_LARGE,
    DAPT,
    LM_BFF,
    LM_BFF_COCO_LM,
];

impl Preset {
    /// Returns the preset of that name.
    pub(crate) fn named(name: PresetName) -> &'static Self {
        PRESETS.iter().find(|preset| preset.name == name).expect("every name has a preset")
    }

    /// Returns the group of a task with that many training examples.
    pub(crate) fn group(&self, task: &str, examples: u64) -> &'static TaskGroup {
        let named = self.groups.iter().find(|group| group.tasks.contains(&task));
        let by_size = || self.groups.iter().find(|group| group.min_examples <= examples);
        named.or_else(by_size).expect("the last group has no minimum")
    }
}
