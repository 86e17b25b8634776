//! What is chosen among a few by name.

use clap::ValueEnum;
use trainer_plan::config;

/// A part of the pipeline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ProfileTarget {
    /// Index to batch, against a null or a simulated trainer.
    #[default]
    Loader,
    /// Part to shards, against a null writer.
    Prepare,
    /// Index to weights: training as it is configured, of which nothing is kept.
    Train,
    /// Each of these three by itself, and which of them the others wait for.
    All,
    /// Batch to weights, on made batches: what the device can do, before there is a corpus.
    Step,
}

impl ProfileTarget {
    /// As it is asked for.
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

/// What `cloze export` writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ExportFamily {
    /// `BertForMaskedLM`.
    Bert,
    /// `RobertaForMaskedLM`: its positions begin after the id of padding, and it has one token type.
    Roberta,
    /// `ElectraForPreTraining`, or `ElectraForMaskedLM` of a run without `replaced_token`.
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

/// The precision of `cloze parity`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ParityDtype {
    /// 32-bit.
    F32,
    /// 64-bit.
    F64,
}
