//! Hyperparameters of `cloze finetune`.

use std::fmt;
use std::str::FromStr;

use clap::Args;

use super::choice::PresetName;
use super::number;

/// Hyperparameters of a fine-tuning. A flag takes precedence over the value of the preset.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Hyperparameters {
    /// Hyperparameters of a paper, by the size of the task. Flags override its values.
    #[arg(long, value_enum, default_value_t)]
    pub preset: PresetName,
    /// Passes over the training set.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub epochs: Option<u64>,
    /// Examples per step.
    #[arg(long, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub batch_size: Option<u64>,
    /// Peak learning rate.
    #[arg(long, value_parser = number::positive)]
    pub lr: Option<f64>,
    /// Warm-up: a share of the steps up to 1, or a number of steps from 2.
    #[arg(long, value_name = "SHARE|STEPS")]
    pub warmup: Option<Warmup>,
    /// Weight decay.
    #[arg(long, value_parser = number::share)]
    pub weight_decay: Option<f64>,
    /// Longest row in tokens; longer texts are truncated.
    #[arg(long, value_parser = clap::value_parser!(u32).range(8..=65_535))]
    pub max_seq_len: Option<u32>,
    /// Tokens between the starts of two windows over a long passage, for answers.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub stride: u32,
    /// Share of the training examples. The seed draws them, and a smaller share is a subset of a larger one.
    #[arg(long, default_value_t = 1.0, value_parser = number::positive_share)]
    pub train_fraction: f64,
    /// Predict the label word in the blank of a prompt with the head of the pretraining, instead of a class with a new head.
    #[arg(long)]
    pub prompt: bool,
    /// Examples of each class to train on, and as many to validate on. The seed draws both from the training set.
    #[arg(
        long,
        value_name = "K",
        conflicts_with = "train_fraction",
        value_parser = clap::value_parser!(u64).range(1..=100_000)
    )]
    pub shots: Option<u64>,
    /// Sets of demonstrations for each prompt, averaged in an evaluation. A set has a solved example of each class; 0: none.
    #[arg(
        long,
        value_name = "N",
        default_value_t = 0,
        requires_all = ["prompt", "shots"],
        value_parser = clap::value_parser!(u32).range(0..=256)
    )]
    pub demonstrations: u32,
    /// Seed of the new head, of the order of the examples, of their choice and of dropout.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: u64,
}

/// Length of the warm-up.
#[derive(Clone, Copy, PartialEq)]
pub enum Warmup {
    /// Share of the steps.
    Share(f64),
    /// Number of steps.
    Steps(u64),
}

impl Warmup {
    /// Returns the number of warm-up steps of a run with that many steps.
    #[must_use]
    pub fn steps_of(self, steps: u64) -> u64 {
        match self {
            #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of the steps")]
            Self::Share(share) => (steps as f64 * share).round() as u64,
            Self::Steps(steps) => steps,
        }
    }
}

impl FromStr for Warmup {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(steps) = text.parse::<u64>().ok().filter(|steps| *steps >= 2) {
            return Ok(Self::Steps(steps));
        }
        let share = number::share(text);
        share.map(Self::Share).map_err(|_| "expected a share from 0 to 1, or a number of steps from 2".to_owned())
    }
}

impl fmt::Display for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Share(share) => share.fmt(f),
            Self::Steps(steps) => steps.fmt(f),
        }
    }
}

impl fmt::Debug for Warmup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_warm_up_is_a_share_or_a_number_of_steps() {
        let parsed = |text: &str| text.parse::<Warmup>().ok();
        assert_eq!(parsed("0.06"), Some(Warmup::Share(0.06)));
        assert_eq!((parsed("0"), parsed("1")), (Some(Warmup::Share(0.0)), Some(Warmup::Share(1.0))));
        assert_eq!(parsed("2000"), Some(Warmup::Steps(2000)));
        assert_eq!(["1.5", "-1", "nan", "", "2.0"].map(parsed), [None; 5]);
        assert_eq!((Warmup::Share(0.1).steps_of(96), Warmup::Steps(7).steps_of(96)), (10, 7));
    }
}
