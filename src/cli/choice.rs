//! Values of flags that select one of a few names.

use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use tasks::average::Convention;
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
    /// `BertForMaskedLM`, or `BertForPreTraining` for a run with `next_sentence`.
    Bert,
    /// `RobertaForMaskedLM`. Its positions begin after the padding id, and it has one token type.
    Roberta,
    /// `ElectraForPreTraining`, or `ElectraForMaskedLM` for a run without `replaced_token`.
    Electra,
    /// `MPNetForMaskedLM`, or `MPNetModel` for a run without `masked_lm`. For relative positions of kind `t5`.
    Mpnet,
    /// Classes of `modeling_cloze.py`, which is written next to the weights.
    Cloze,
}

impl From<ExportFamily> for config::ModelFamily {
    fn from(family: ExportFamily) -> Self {
        match family {
            ExportFamily::Bert => Self::Bert,
            ExportFamily::Roberta => Self::Roberta,
            ExportFamily::Electra => Self::Electra,
            ExportFamily::Mpnet => Self::Mpnet,
            ExportFamily::Cloze => Self::Cloze,
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

/// GPU for which `cloze plan` computes the time of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Gpu {
    /// NVIDIA H100 SXM.
    H100,
    /// NVIDIA H200 SXM.
    H200,
    /// NVIDIA A100 SXM.
    A100,
}

impl Gpu {
    /// Returns its usual name, which the name of its driver contains.
    pub fn name(self) -> &'static str {
        match self {
            Self::H100 => "H100",
            Self::H200 => "H200",
            Self::A100 => "A100",
        }
    }
}

/// Method of pretraining, for `cloze init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Method {
    /// Masked language modelling (BERT).
    Mlm,
    /// Fully-explored masked language modelling: several masks of a sample that do not overlap.
    FeMlm,
    /// TACO: masked language modelling and a contrast of nearby tokens.
    Taco,
    /// TaCL: continues a trained model with a contrast against its frozen copy. Needs `--from`.
    Tacl,
    /// ELECTRA: detection of replaced tokens.
    Electra,
    /// COCO-LM: correction of replaced tokens and a contrast of sequences.
    CocoLm,
}

impl Method {
    /// Whether its views are segments of whole sentences.
    pub(crate) fn needs_sentences(self) -> bool {
        matches!(self, Self::Tacl | Self::Electra)
    }
}

/// Size of a model, for `cloze init`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModelSize {
    /// 2 layers of 128.
    Tiny,
    /// 12 layers of 256.
    Small,
    /// 12 layers of 768.
    Base,
    /// 24 layers of 1024.
    Large,
}

impl ModelSize {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Tiny => "tiny",
            Self::Small => "small",
            Self::Base => "base",
            Self::Large => "large",
        }
    }
}

/// Named hyperparameters for `cloze finetune`: those of a paper.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum PresetName {
    /// BERT.
    #[default]
    Bert,
    /// TACO's small models.
    TacoSmall,
    /// TACO's base models.
    TacoBase,
    /// COCO-LM's base and base++ models.
    CocoLmBase,
    /// COCO-LM's large++ model.
    CocoLmLarge,
    /// TaCL on SQuAD.
    TaclSquad,
    /// ELECTRA's small and base models.
    Electra,
    /// ELECTRA's large model.
    ElectraLarge,
    /// Don't Stop Pretraining, also for FE-MLM, which states no values.
    Dapt,
    /// LM-BFF: prompts and few examples.
    LmBff,
    /// COCO-LM with the prompts of LM-BFF.
    LmBffCocoLm,
}

impl PresetName {
    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bert => "bert",
            Self::TacoSmall => "taco-small",
            Self::TacoBase => "taco-base",
            Self::CocoLmBase => "coco-lm-base",
            Self::CocoLmLarge => "coco-lm-large",
            Self::TaclSquad => "tacl-squad",
            Self::Electra => "electra",
            Self::ElectraLarge => "electra-large",
            Self::Dapt => "dapt",
            Self::LmBff => "lm-bff",
            Self::LmBffCocoLm => "lm-bff-coco-lm",
        }
    }
}

/// Statistic that `cloze sweep` reports for a model, and by which it chooses hyperparameters on the dev set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
pub enum Statistic {
    /// Mean over the seeds, of the hyperparameters with the best mean.
    #[default]
    Mean,
    /// Median over the seeds, of the hyperparameters with the best median.
    Median,
    /// The one run that is best on the dev set.
    Best,
    /// Mean over all runs of a model, whatever their hyperparameters.
    OverallMean,
}

impl Statistic {
    /// Returns the name on the command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Mean => "mean",
            Self::Median => "median",
            Self::Best => "best",
            Self::OverallMean => "overall-mean",
        }
    }
}

/// Convention of a paper for the average over GLUE.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum AverageConvention {
    /// 9 numbers; F1 for QQP and MRPC.
    TacoSmall,
    /// 8 numbers, without MNLI mismatched; F1 for QQP and MRPC.
    TacoBase,
    /// 8 numbers, without MNLI mismatched; accuracy for QQP and MRPC.
    CocoLm,
    /// 9 numbers; accuracy for QQP and MRPC, Pearson for STS-B.
    FeMlm,
}

impl From<AverageConvention> for Convention {
    fn from(convention: AverageConvention) -> Self {
        match convention {
            AverageConvention::TacoSmall => Self::TacoSmall,
            AverageConvention::TacoBase => Self::TacoBase,
            AverageConvention::CocoLm => Self::CocoLm,
            AverageConvention::FeMlm => Self::FeMlm,
        }
    }
}
