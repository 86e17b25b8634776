//! Values of flags that select one of a few names.

use clap::ValueEnum;
use trainer_plan::config;

/// Part of the pipeline to profile.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileTarget {
    /// Index to batch, against a null or a simulated trainer.
    #[default]
    Loader,
    /// Part to shards, against a null writer.
    Prepare,
    /// Index to weights: training as configured. Nothing is saved.
    Train,
    /// Loader, preparation and training one after the other, and the slowest of the three.
    All,
    /// Batch to weights on synthetic batches: the limit of the device. Needs no corpus.
    Step,
}

impl ProfileTarget {
    /// Returns the name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Loader => "loader",
            Self::Prepare => "prepare",
            Self::Train => "train",
            Self::All => "all",
            Self::Step => "step",
        }
    }
}

/// Architectures that `cloze export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFamily {
    /// `BertForMaskedLM`.
    Bert,
    /// `RobertaForMaskedLM`. Its positions begin after the padding id, and it has one token type.
    Roberta,
    /// `ElectraForPreTraining`, or `ElectraForMaskedLM` for a run without `replaced_token`.
    Electra,
}

impl From<ExportFamily> for config::ModelFamily {
    fn from(family: ExportFamily) -> Self {
        match family {
            ExportFamily::Bert => Self::Bert,
            ExportFamily::Roberta => Self::Roberta,
            ExportFamily::Electra => Self::Electra,
        }
    }
}

/// Precision of `cloze parity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ParityDtype {
    /// 32-bit.
    F32,
    /// 64-bit.
    F64,
}
