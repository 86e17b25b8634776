//! What is chosen among a few by name.

use clap::ValueEnum;

/// A part of the pipeline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Half {
    /// Index to batch, against a null or a simulated trainer.
    Online,
    /// Part to shards, against a null writer.
    Prepare,
    /// Index to weights: training as it is configured, of which nothing is kept.
    #[cfg(feature = "train")]
    Train,
    /// Each of these three by itself, and which of them the others wait for.
    #[cfg(feature = "train")]
    All,
    /// Batch to weights, on made batches: what the device can do, before there is a corpus.
    #[cfg(feature = "train")]
    Step,
}

impl Half {
    /// As it is asked for.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Online => "online",
            Self::Prepare => "prepare",
            #[cfg(feature = "train")]
            Self::Train => "train",
            #[cfg(feature = "train")]
            Self::All => "all",
            #[cfg(feature = "train")]
            Self::Step => "step",
        }
    }
}

/// What `cloze export` writes.
#[cfg(feature = "train")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModelFamily {
    /// `BertForMaskedLM`.
    Bert,
    /// `RobertaForMaskedLM`: its positions begin after the id of padding, and it has one token type.
    Roberta,
    /// `ElectraForPreTraining`, or `ElectraForMaskedLM` of a run without `replaced_token`.
    Electra,
}

/// The precision of `cloze parity`.
#[cfg(feature = "train")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Dtype {
    /// 32-bit.
    F32,
    /// 64-bit.
    F64,
}
