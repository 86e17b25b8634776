//! Hyperparameters of `cloze finetune`.

use clap::Args;

use crate::finetune::Hyperparameters;

/// Hyperparameters. The defaults are those of BERT.
#[derive(Clone, Debug, Args)]
pub struct FinetuneArgs {
    /// Passes over the training set.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub epochs: u64,
    /// Examples per step.
    #[arg(long, default_value_t = 32, value_parser = clap::value_parser!(u64).range(1..=65_536))]
    pub batch_size: u64,
    /// Peak learning rate.
    #[arg(long, default_value_t = 5e-5, value_parser = positive)]
    pub lr: f64,
    /// Share of the steps for the warm-up.
    #[arg(long, default_value_t = 0.1, value_parser = share)]
    pub warmup: f64,
    /// Weight decay.
    #[arg(long, default_value_t = 0.01, value_parser = share)]
    pub weight_decay: f64,
    /// Longest row in tokens; longer texts are truncated.
    #[arg(long, default_value_t = 128, value_parser = clap::value_parser!(u32).range(8..=65_535))]
    pub max_seq_len: u32,
    /// Seed of the new head, of the order of the examples and of dropout.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

impl FinetuneArgs {
    /// Returns the hyperparameters.
    #[must_use]
    pub fn hyperparameters(&self) -> Hyperparameters {
        let Self { epochs, batch_size, lr, warmup, weight_decay, max_seq_len, seed } = *self;
        Hyperparameters { epochs, batch_size, lr, warmup, weight_decay, max_seq_len, seed }
    }
}

fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

fn share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}
