//! Hyperparameters of one fine-tuning, each with its reason.

use std::fmt::Debug;

use super::preset::{BERT, CheckpointChoice, HeadDropout, OptimizerValues, Preset};
use crate::cli::{Hyperparameters, Warmup};

/// Value with its reason, for a comment.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Choice<T> {
    pub(super) value: T,
    pub(super) reason: String,
}

/// Hyperparameters that the flags and the preset choose for a task.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recipe {
    pub(super) epochs: Choice<u64>,
    /// Steps, whatever the number of examples; `None`: as many as the epochs have.
    pub(super) steps: Option<Choice<u64>>,
    pub(super) batch_size: Choice<u64>,
    pub(super) lr: Choice<f64>,
    pub(super) warmup: Choice<Warmup>,
    pub(super) weight_decay: Choice<f64>,
    pub(super) betas: Choice<[f64; 2]>,
    pub(super) eps: Choice<f64>,
    pub(super) max_grad_norm: Choice<f64>,
    /// `None`: the default.
    pub(super) bias_correction: Option<Choice<bool>>,
    /// `None`: the default.
    pub(super) layer_decay: Option<Choice<f64>>,
    /// Dropout of the encoder; `None`: that of the model.
    pub(super) dropout: Option<Choice<f64>>,
    /// Dropout of the head; `None`: the default.
    pub(super) head: Option<Choice<HeadDropout>>,
    /// Choice of the checkpoint; `None`: the last one.
    pub(super) checkpoint: Option<Choice<CheckpointChoice>>,
}

impl Recipe {
    /// Chooses the hyperparameters of a task with that many training examples.
    pub(super) fn new(hyper: &Hyperparameters, task: &str, examples: u64) -> Self {
        let preset = Preset::named(hyper.preset);
        let group = preset.group(task, examples);
        let OptimizerValues { betas, eps, weight_decay, bias_correction, max_grad_norm } = preset.optimizer;
        let stated = || preset.source.to_owned();
        let in_group = |values: Vec<String>| {
            let others = if values.len() > 1 { format!("; of {}", values.join(", ")) } else { String::new() };
            format!("{}, {}{others}", preset.source, group.label)
        };
        Self {
            epochs: choose("--epochs", hyper.epochs, group.epochs, in_group),
            steps: preset.steps.filter(|_| hyper.epochs.is_none()).map(|value| Choice { value, reason: stated() }),
            batch_size: choose("--batch-size", hyper.batch_size, group.batch_size, in_group),
            lr: choose("--lr", hyper.lr, group.lr, in_group),
            warmup: choose("--warmup", hyper.warmup, group.warmup, in_group),
            weight_decay: match hyper.weight_decay {
                Some(value) => Choice { value, reason: "`--weight-decay`".to_owned() },
                None => or_bert(preset, weight_decay, BERT.optimizer.weight_decay),
            },
            betas: or_bert(preset, betas, BERT.optimizer.betas),
            eps: or_bert(preset, eps, BERT.optimizer.eps),
            max_grad_norm: or_bert(preset, max_grad_norm, BERT.optimizer.max_grad_norm),
            bias_correction: bias_correction.map(|value| Choice { value, reason: stated() }),
            layer_decay: preset.layer_decay.map(|value| Choice { value, reason: stated() }),
            dropout: preset.dropout.map(|value| Choice { value, reason: stated() }),
            head: preset.head.map(|value| Choice { value, reason: stated() }),
            checkpoint: preset.choice.map(|value| Choice { value, reason: stated() }),
        }
    }

    /// Returns the longest row, which does not depend on the task.
    pub(super) fn max_seq_len(hyper: &Hyperparameters) -> u32 {
        let preset = Preset::named(hyper.preset).max_seq_len;
        hyper.max_seq_len.or(preset).or(BERT.max_seq_len).expect("BERT's preset states it")
    }
}

/// Takes the value of a flag, else the first of the preset's values.
fn choose<T: Copy + Debug>(
    flag: &str,
    given: Option<T>,
    values: &[T],
    reason: impl Fn(Vec<String>) -> String,
) -> Choice<T> {
    match given {
        Some(value) => Choice { value, reason: format!("`{flag}`") },
        None => Choice { value: values[0], reason: reason(values.iter().map(|value| format!("{value:?}")).collect()) },
    }
}

/// Takes the value of the preset, else BERT's.
fn or_bert<T>(preset: &Preset, value: Option<T>, bert: Option<T>) -> Choice<T> {
    match value {
        Some(value) => Choice { value, reason: preset.source.to_owned() },
        None => Choice {
            value: bert.expect("BERT's preset states every value of the optimizer"),
            reason: format!("not stated by {}; as BERT", preset.source),
        },
    }
}
