//! Mapping between the weight names of this project and those of `transformers`, per architecture.
//!
//! Below their prefix, the encoders use the same names, except for MPNet's attention. They differ in their heads, in the
//! first row of the position table that they use, and in the number of segments.
//!
//! In this module, "ours" is a weight of this project and "theirs" is a weight of `transformers`.

use self::Axis::{Bucket, Embedding, FeedForward, Head, Hidden, Label, One, Position, Segment, Two, Vocabulary, Word};
use super::heads::{HeadRole, join};
use crate::config::ModelFamily;
use crate::objectives::Activation;

/// Axis of a weight. Its length depends on the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Rows of the word table.
    Word,
    /// Rows of the position table.
    Position,
    /// Rows of the segment table.
    Segment,
    /// Ids of the vocabulary.
    Vocabulary,
    /// Width of the embedding tables.
    Embedding,
    /// Width of hidden states.
    Hidden,
    /// Width of the feed-forward layer.
    FeedForward,
    /// Buckets of relative positions.
    Bucket,
    /// Attention heads.
    Head,
    /// Length 1.
    One,
    /// Length 2.
    Two,
    /// Outputs of a head for labelled examples.
    Label,
}

/// One entry of a mapping: our weight, their weights that are stacked to form it, and the shape of one of theirs.
pub struct Line {
    pub ours: &'static str,
    pub theirs: &'static [&'static str],
    pub shape: &'static [Axis],
    /// Whether the names stand for a pair: `weight` with `shape`, and `bias` with the first axis of `shape`.
    pub is_affine: bool,
}

const fn affine(ours: &'static str, theirs: &'static [&'static str], shape: &'static [Axis]) -> Line {
    Line { ours, theirs, shape, is_affine: true }
}

const fn single(ours: &'static str, theirs: &'static [&'static str], shape: &'static [Axis]) -> Line {
    Line { ours, theirs, shape, is_affine: false }
}

/// Embedding block: ours below `encoder.`, theirs below the prefix of the architecture.
pub(super) const EMBEDDINGS: &[Line] = &[
    single("embeddings.word.weight", &["embeddings.word_embeddings.weight"], &[Word, Embedding]),
    single("embeddings.position.weight", &["embeddings.position_embeddings.weight"], &[Position, Embedding]),
    single("embeddings.token_type.weight", &["embeddings.token_type_embeddings.weight"], &[Segment, Embedding]),
    affine("embeddings.norm", &["embeddings.LayerNorm"], &[Embedding]),
];

/// Projection of the embeddings, if their width differs from that of the hidden states. Prefixes as [`EMBEDDINGS`].
pub(super) const PROJECTION: &[Line] = &[affine("embeddings.project", &["embeddings_project"], &[Hidden, Embedding])];

/// Bias of relative positions. Prefixes as [`EMBEDDINGS`].
const RELATIVE: &[Line] = &[single("relative.weight", &["relative_attention_bias.weight"], &[Bucket, Head])];

const MPNET_RELATIVE: &[Line] =
    &[single("relative.weight", &["encoder.relative_attention_bias.weight"], &[Bucket, Head])];

/// Layer `N`: ours below `encoder.layers.N.`, theirs below the prefix and `encoder.layer.N.`.
const LAYER: &[Line] = &[
    affine("attention.qkv", &["attention.self.query", "attention.self.key", "attention.self.value"], &[Hidden, Hidden]),
    affine("attention.output", &["attention.output.dense"], &[Hidden, Hidden]),
    affine("attention.norm", &["attention.output.LayerNorm"], &[Hidden]),
    affine("feed_forward.input", &["intermediate.dense"], &[FeedForward, Hidden]),
    affine("feed_forward.output", &["output.dense"], &[Hidden, FeedForward]),
    affine("feed_forward.norm", &["output.LayerNorm"], &[Hidden]),
];

const MPNET_LAYER: &[Line] = &[
    affine("attention.qkv", &["attention.attn.q", "attention.attn.k", "attention.attn.v"], &[Hidden, Hidden]),
    affine("attention.output", &["attention.attn.o"], &[Hidden, Hidden]),
    affine("attention.norm", &["attention.LayerNorm"], &[Hidden]),
    affine("feed_forward.input", &["intermediate.dense"], &[FeedForward, Hidden]),
    affine("feed_forward.output", &["output.dense"], &[Hidden, FeedForward]),
    affine("feed_forward.norm", &["output.LayerNorm"], &[Hidden]),
];

/// Weights of a head: ours below the name of the head, theirs with full names.
pub struct HeadTable {
    /// Task of the head.
    pub form: HeadRole,
    pub lines: &'static [Line],
}

const BERT_HEADS: &[HeadTable] = &[
    HeadTable {
        form: HeadRole::Predict,
        lines: &[
            affine("dense", &["cls.predictions.transform.dense"], &[Hidden, Hidden]),
            affine("norm", &["cls.predictions.transform.LayerNorm"], &[Hidden]),
            single("bias", &["cls.predictions.bias"], &[Vocabulary]),
        ],
    },
    HeadTable {
        form: HeadRole::PredictUntied,
        lines: &[
            affine("dense", &["cls.predictions.transform.dense"], &[Hidden, Hidden]),
            affine("norm", &["cls.predictions.transform.LayerNorm"], &[Hidden]),
            single("decoder.weight", &["cls.predictions.decoder.weight"], &[Word, Embedding]),
            // A decoder that is not tied has a bias that is not tied either, and the sum uses that of the decoder.
            single("bias", &["cls.predictions.bias"], &[Vocabulary]),
            single("bias", &["cls.predictions.decoder.bias"], &[Vocabulary]),
        ],
    },
    HeadTable { form: HeadRole::Pool, lines: &[affine("pooler", &["bert.pooler.dense"], &[Hidden, Hidden])] },
    HeadTable { form: HeadRole::Classify, lines: &[affine("classifier", &["cls.seq_relationship"], &[Two, Hidden])] },
    HeadTable {
        form: HeadRole::LabelRow,
        lines: &[
            affine("pooler", &["bert.pooler.dense"], &[Hidden, Hidden]),
            affine("classifier", &["classifier"], &[Label, Hidden]),
        ],
    },
    LABEL_TOKENS,
    LABEL_SPAN,
];

/// Heads for labelled examples that most architectures have.
const LABEL_ROW: HeadTable = HeadTable {
    form: HeadRole::LabelRow,
    lines: &[
        affine("pooler", &["classifier.dense"], &[Hidden, Hidden]),
        affine("classifier", &["classifier.out_proj"], &[Label, Hidden]),
    ],
};
const LABEL_TOKENS: HeadTable =
    HeadTable { form: HeadRole::LabelTokens, lines: &[affine("classifier", &["classifier"], &[Label, Hidden])] };
const LABEL_SPAN: HeadTable =
    HeadTable { form: HeadRole::LabelSpan, lines: &[affine("outputs", &["qa_outputs"], &[Label, Hidden])] };

const ROBERTA_HEADS: &[HeadTable] = &[
    HeadTable {
        form: HeadRole::Predict,
        lines: &[
            affine("dense", &["lm_head.dense"], &[Hidden, Hidden]),
            affine("norm", &["lm_head.layer_norm"], &[Hidden]),
            single("bias", &["lm_head.bias"], &[Vocabulary]),
        ],
    },
    LABEL_ROW,
    LABEL_TOKENS,
    LABEL_SPAN,
];

const ELECTRA_HEADS: &[HeadTable] = &[
    HeadTable {
        form: HeadRole::Detect,
        lines: &[
            affine("dense", &["discriminator_predictions.dense"], &[Hidden, Hidden]),
            affine("", &["discriminator_predictions.dense_prediction"], &[One, Hidden]),
        ],
    },
    HeadTable {
        form: HeadRole::Predict,
        lines: &[
            affine("dense", &["generator_predictions.dense"], &[Embedding, Hidden]),
            affine("norm", &["generator_predictions.LayerNorm"], &[Embedding]),
            single("bias", &["generator_lm_head.bias"], &[Vocabulary]),
        ],
    },
    LABEL_ROW,
    LABEL_TOKENS,
    LABEL_SPAN,
];

const CLOZE_HEADS: &[HeadTable] = &[
    HeadTable {
        form: HeadRole::Predict,
        lines: &[
            affine("dense", &["lm_head.dense"], &[Embedding, Hidden]),
            affine("norm", &["lm_head.layer_norm"], &[Embedding]),
            single("bias", &["lm_head.bias"], &[Vocabulary]),
        ],
    },
    HeadTable { form: HeadRole::Decode, lines: &[single("lm.bias", &["lm_head.bias"], &[Vocabulary])] },
    HeadTable { form: HeadRole::Copy, lines: &[affine("copy", &["detection.out_proj"], &[One, Hidden])] },
    HeadTable {
        form: HeadRole::Detect,
        lines: &[
            affine("dense", &["detection.dense"], &[Hidden, Hidden]),
            affine("", &["detection.out_proj"], &[One, Hidden]),
        ],
    },
    HeadTable { form: HeadRole::DetectLinear, lines: &[affine("", &["detection.out_proj"], &[One, Hidden])] },
    LABEL_ROW,
    LABEL_TOKENS,
    LABEL_SPAN,
];

impl ModelFamily {
    const ALL: [Self; 5] = [Self::Bert, Self::Roberta, Self::Electra, Self::Mpnet, Self::Cloze];

    /// Returns the architecture for a `model_type` of `config.json`.
    ///
    /// # Errors
    /// A message with the supported types, for any other type.
    pub fn from_model_type(model_type: &str) -> Result<Self, String> {
        let has_type = |architecture: &Self| architecture.model_types().contains(&model_type);
        Self::ALL.into_iter().find(has_type).ok_or_else(|| {
            let known: Vec<String> =
                Self::ALL.iter().flat_map(|it| it.model_types()).map(|name| format!("`{name}`")).collect();
            format!("unsupported model type `{model_type}`; supported types: {}", known.join(", "))
        })
    }

    /// Supported values of `model_type`. Exports use the first. The others name the same architecture for other
    /// languages.
    pub(crate) fn model_types(self) -> &'static [&'static str] {
        match self {
            Self::Bert => &["bert"],
            Self::Roberta => &["roberta", "xlm-roberta", "camembert"],
            Self::Electra => &["electra"],
            Self::Mpnet => &["mpnet"],
            Self::Cloze => &["cloze"],
        }
    }

    /// Prefix of the names of the encoder's weights. An encoder that was saved without heads has no prefix.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Bert => "bert.",
            Self::Roberta => "roberta.",
            Self::Electra => "electra.",
            Self::Mpnet => "mpnet.",
            Self::Cloze => "cloze.",
        }
    }

    /// Tables of the heads that its classes have. Those of MPNet are named like those of RoBERTa.
    pub fn heads(self) -> &'static [HeadTable] {
        match self {
            Self::Bert => BERT_HEADS,
            Self::Roberta | Self::Mpnet => ROBERTA_HEADS,
            Self::Electra => ELECTRA_HEADS,
            Self::Cloze => CLOZE_HEADS,
        }
    }

    /// Table of a layer.
    pub(super) fn layer(self) -> &'static [Line] {
        if self == Self::Mpnet { MPNET_LAYER } else { LAYER }
    }

    /// Table of the relative positions.
    pub(super) fn relative(self) -> &'static [Line] {
        if self == Self::Mpnet { MPNET_RELATIVE } else { RELATIVE }
    }

    /// Number of segments of an exported model. 0: it has no table of segments.
    pub fn token_types(self) -> u32 {
        match self {
            Self::Mpnet => 0,
            Self::Roberta => 1,
            Self::Bert | Self::Electra | Self::Cloze => 2,
        }
    }

    /// Padding id of an exported model for the padding id `pad` of a run. The code of MPNet requires 1.
    #[must_use]
    pub fn exported_pad(self, pad: u32) -> u32 {
        if self == Self::Mpnet { 1 } else { pad }
    }

    /// Row of the position table for the first token of a row.
    pub fn first_position(self, pad: u32) -> u32 {
        match self {
            Self::Roberta | Self::Mpnet => self.exported_pad(pad).saturating_add(1),
            Self::Bert | Self::Electra | Self::Cloze => 0,
        }
    }

    /// Whether a head uses the gelu with the error function even if `hidden_act` names another activation.
    pub fn has_fixed_gelu(self, form: HeadRole) -> bool {
        !matches!(self, Self::Bert | Self::Cloze) && form == HeadRole::Predict
    }

    /// Activation of its head over the first position of labelled rows; `None` if `config.json` names it.
    pub(super) fn row_activation(self) -> Option<Activation> {
        match self {
            Self::Bert | Self::Roberta | Self::Mpnet => Some(Activation::Tanh),
            Self::Electra => Some(Activation::Gelu),
            Self::Cloze => None,
        }
    }

    /// Whether its classes are in a file next to the weights, because `transformers` has none of them.
    #[must_use]
    pub fn has_own_code(self) -> bool {
        self == Self::Cloze
    }
}

impl Line {
    /// Our names: one name, or those of a weight and a bias.
    pub fn ours(&self) -> Vec<String> {
        if self.is_affine {
            ["weight", "bias"].map(|kind| join(self.ours, kind)).into()
        } else {
            vec![self.ours.into()]
        }
    }
}
