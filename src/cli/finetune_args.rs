//! Hyperparameters of `cloze finetune`.

use clap::Args;

use super::number;

/// Hyperparameters of a fine-tuning. The defaults are those of Devlin et al. 2019, appendix A.3.
#[derive(Clone, Debug, PartialEq, Args)]
pub struct Hyperparameters {
    /// Passes over the training set.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub epochs: u64,
    /// Examples per step.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub batch_size: u64,
    /// Peak learning rate.
    #[arg(long, default_value_t = 5e-5, value_parser = number::positive)]
    pub lr: f64,
    /// Share of the steps for the warm-up.
    #[arg(long, default_value_t = 0.1, value_parser = number::share)]
    pub warmup: f64,
    /// Weight decay.
    #[arg(long, default_value_t = 0.01, value_parser = number::share)]
    pub weight_decay: f64,
    /// Longest row in tokens; longer texts are truncated.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=65_535))]
    pub max_seq_len: u32,
    /// Tokens between the starts of two windows over a long passage, for answers.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub stride: u32,
    /// Seed of the new head, of the order of the examples and of dropout.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(0..=i64::MAX as u64))]
    pub seed: u64,
}
