//! Mapping between the weight names of this project and those of `transformers`, per architecture.
//!
//! Below their prefix, the three encoders use the same names. They differ in their heads, in the first row of the
//! position table that they use, and in the number of segments.
//!
//! In this module, "ours" is a weight of this project and "theirs" is a weight of `transformers`.

use std::collections::BTreeSet;

use self::Axis::{Embedding, FeedForward, Hidden, One, Position, Segment, Two, Vocabulary, Word};
use crate::config::ModelFamily;

/// Task of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRole {
    /// Scores all ids.
    Predict,
    /// Detects replaced tokens.
    Detect,
    /// Pools a row into one vector.
    Pool,
    /// Classifies a pooled row: whether its second segment is random.
    Classify,
}

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
    /// Length 1.
    One,
    /// Length 2.
    Two,
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

/// Layer `N`: ours below `encoder.layers.N.`, theirs below the prefix and `encoder.layer.N.`.
pub(super) const LAYER: &[Line] = &[
    affine("attention.qkv", &["attention.self.query", "attention.self.key", "attention.self.value"], &[Hidden, Hidden]),
    affine("attention.output", &["attention.output.dense"], &[Hidden, Hidden]),
    affine("attention.norm", &["attention.output.LayerNorm"], &[Hidden]),
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
    HeadTable { form: HeadRole::Pool, lines: &[affine("pooler", &["bert.pooler.dense"], &[Hidden, Hidden])] },
    HeadTable { form: HeadRole::Classify, lines: &[affine("classifier", &["cls.seq_relationship"], &[Two, Hidden])] },
];

const ROBERTA_HEADS: &[HeadTable] = &[HeadTable {
    form: HeadRole::Predict,
    lines: &[
        affine("dense", &["lm_head.dense"], &[Hidden, Hidden]),
        affine("norm", &["lm_head.layer_norm"], &[Hidden]),
        single("bias", &["lm_head.bias"], &[Vocabulary]),
    ],
}];

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
];

impl ModelFamily {
    const ALL: [Self; 3] = [Self::Bert, Self::Roberta, Self::Electra];

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
        }
    }

    /// Prefix of the names of the encoder's weights. An encoder that was saved without heads has no prefix.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Bert => "bert.",
            Self::Roberta => "roberta.",
            Self::Electra => "electra.",
        }
    }

    /// Tables of the heads that its classes have.
    pub fn heads(self) -> &'static [HeadTable] {
        match self {
            Self::Bert => BERT_HEADS,
            Self::Roberta => ROBERTA_HEADS,
            Self::Electra => ELECTRA_HEADS,
        }
    }

    /// Exported class for each head, the preferred one first.
    pub(crate) fn classes(self) -> &'static [(HeadRole, &'static str)] {
        match self {
            Self::Bert => &[(HeadRole::Predict, "BertForMaskedLM")],
            Self::Roberta => &[(HeadRole::Predict, "RobertaForMaskedLM")],
            Self::Electra => &[(HeadRole::Detect, "ElectraForPreTraining"), (HeadRole::Predict, "ElectraForMaskedLM")],
        }
    }

    /// Number of segments of an exported model.
    pub fn token_types(self) -> u32 {
        if self == Self::Roberta { 1 } else { 2 }
    }

    /// Row of the position table for the first token of a row.
    pub fn first_position(self, pad: u32) -> u32 {
        if self == Self::Roberta { pad.saturating_add(1) } else { 0 }
    }

    /// Whether a head uses the gelu with the error function even if `hidden_act` names another activation.
    pub fn has_fixed_gelu(self, form: HeadRole) -> bool {
        self != Self::Bert && form == HeadRole::Predict
    }
}

/// Head of a run: its task and the path of its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadPlace {
    /// Task of the head.
    pub form: HeadRole,
    /// Path of its weights, such as `heads.NAME`.
    pub path: String,
}

/// Returns the heads below `heads.` among the names of a run's weights. A head counts if all weights of its task exist.
pub(super) fn heads<'a>(weights: impl Iterator<Item = &'a str>) -> Vec<HeadPlace> {
    let weights: BTreeSet<&str> = weights.filter(|name| name.starts_with("heads.")).collect();
    let path = |name: &&str| name.match_indices('.').nth(1).map(|(end, _)| name[..end].to_owned());
    let paths: BTreeSet<String> = weights.iter().filter_map(path).collect();
    let tables: Vec<&HeadTable> = BERT_HEADS.iter().chain(&ELECTRA_HEADS[..1]).collect();
    let is_whole = |path: &str, table: &HeadTable| {
        table.lines.iter().flat_map(Line::ours).all(|name| weights.contains(join(path, &name).as_str()))
    };
    let places = |path: String| {
        let tables = tables.iter().filter(|table| is_whole(&path, table));
        tables.map(|table| HeadPlace { form: table.form, path: path.clone() }).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(places).collect()
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

/// Returns `above.below`, or `below` if `above` is empty.
pub(super) fn join(above: &str, below: &str) -> String {
    if above.is_empty() { below.to_owned() } else { format!("{above}.{below}") }
}
