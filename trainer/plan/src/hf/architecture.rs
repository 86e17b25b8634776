//! Which weight of ours is which of `transformers`': one description for each of its architectures.
//!
//! The three encoders call everything alike below their prefix; they differ in their heads, in where their positions
//! begin, and in how many segments they know.

use std::collections::BTreeSet;

use self::Axis::{Embedding, FeedForward, Hidden, One, Position, Segment, Two, Vocabulary, Word};
use crate::config::ModelFamily;

/// What a head does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRole {
    /// Scores all ids.
    Predict,
    /// Says which tokens were replaced.
    Detect,
    /// Makes one vector of a row.
    Pool,
    /// Says of a pooled row whether its second segment is random.
    Classify,
}

/// The length of an axis, where it depends on the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Axis {
    /// Rows of the word table.
    Word,
    /// Rows of the position table.
    Position,
    /// Rows of the table of segments.
    Segment,
    /// Ids.
    Vocabulary,
    /// Width of the embedding tables.
    Embedding,
    /// Width of hidden states.
    Hidden,
    /// Width inside the feed-forward layer.
    FeedForward,
    /// One.
    One,
    /// Two.
    Two,
}

/// A line of a table: ours, the parts of theirs that are stacked to make it, and the shape of one part.
pub struct Line {
    pub ours: &'static str,
    pub theirs: &'static [&'static str],
    pub shape: &'static [Axis],
    /// Whether the names are those of a pair, `weight` of that shape and `bias` of its rows.
    pub is_affine: bool,
}

const fn affine(ours: &'static str, theirs: &'static [&'static str], shape: &'static [Axis]) -> Line {
    Line { ours, theirs, shape, is_affine: true }
}

const fn single(ours: &'static str, theirs: &'static [&'static str], shape: &'static [Axis]) -> Line {
    Line { ours, theirs, shape, is_affine: false }
}

/// Below `encoder.` and below their prefix.
pub(super) const EMBEDDINGS: &[Line] = &[
    single("embeddings.word.weight", &["embeddings.word_embeddings.weight"], &[Word, Embedding]),
    single("embeddings.position.weight", &["embeddings.position_embeddings.weight"], &[Position, Embedding]),
    single("embeddings.token_type.weight", &["embeddings.token_type_embeddings.weight"], &[Segment, Embedding]),
    affine("embeddings.norm", &["embeddings.LayerNorm"], &[Embedding]),
];

/// Likewise, where tables are narrower or wider than hidden states.
pub(super) const PROJECTION: &[Line] = &[affine("embeddings.project", &["embeddings_project"], &[Hidden, Embedding])];

/// Below `encoder.layers.N.` and below their prefix and `encoder.layer.N.`.
pub(super) const LAYER: &[Line] = &[
    affine("attention.qkv", &["attention.self.query", "attention.self.key", "attention.self.value"], &[Hidden, Hidden]),
    affine("attention.output", &["attention.output.dense"], &[Hidden, Hidden]),
    affine("attention.norm", &["attention.output.LayerNorm"], &[Hidden]),
    affine("feed_forward.input", &["intermediate.dense"], &[FeedForward, Hidden]),
    affine("feed_forward.output", &["output.dense"], &[Hidden, FeedForward]),
    affine("feed_forward.norm", &["output.LayerNorm"], &[Hidden]),
];

/// The weights of a head, below the head's name; theirs are whole names.
pub struct HeadTable {
    /// The task of the head.
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

    /// The architecture of `model_type` in a `config.json`.
    pub fn of(model_type: &str) -> Result<Self, String> {
        let is_it = |architecture: &Self| architecture.model_types().contains(&model_type);
        Self::ALL.into_iter().find(is_it).ok_or_else(|| {
            let known: Vec<String> =
                Self::ALL.iter().flat_map(|it| it.model_types()).map(|name| format!("`{name}`")).collect();
            format!("it is a `{model_type}` model; those of types {} can be read", known.join(", "))
        })
    }

    /// The first is the one that is written; the others are the same models of other languages.
    pub(crate) fn model_types(self) -> &'static [&'static str] {
        match self {
            Self::Bert => &["bert"],
            Self::Roberta => &["roberta", "xlm-roberta", "camembert"],
            Self::Electra => &["electra"],
        }
    }

    /// What stands before the names of the encoder's weights, unless it was saved alone.
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Bert => "bert.",
            Self::Roberta => "roberta.",
            Self::Electra => "electra.",
        }
    }

    /// The tables of the heads that its classes have.
    pub fn heads(self) -> &'static [HeadTable] {
        match self {
            Self::Bert => BERT_HEADS,
            Self::Roberta => ROBERTA_HEADS,
            Self::Electra => ELECTRA_HEADS,
        }
    }

    /// The class that is written for a head, the preferred one first.
    pub(crate) fn classes(self) -> &'static [(HeadRole, &'static str)] {
        match self {
            Self::Bert => &[(HeadRole::Predict, "BertForMaskedLM")],
            Self::Roberta => &[(HeadRole::Predict, "RobertaForMaskedLM")],
            Self::Electra => &[(HeadRole::Detect, "ElectraForPreTraining"), (HeadRole::Predict, "ElectraForMaskedLM")],
        }
    }

    /// Segments of a model that is written.
    pub fn token_types(self) -> u32 {
        if self == Self::Roberta { 1 } else { 2 }
    }

    /// The row of the position table that the first token of a row gets.
    pub fn first_position(self, pad: u32) -> u32 {
        if self == Self::Roberta { pad.saturating_add(1) } else { 0 }
    }

    /// Whether a class's head has the error function's gelu whatever `hidden_act` says.
    pub fn has_fixed_gelu(self, form: HeadRole) -> bool {
        self != Self::Bert && form == HeadRole::Predict
    }
}

/// A head of ours: what it does, and the path of its weights, `heads.NAME`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadPlace {
    /// The task of the head.
    pub form: HeadRole,
    /// The path of its weights.
    pub path: String,
}

/// The heads below `heads.` among weights of ours, by name: all weights of the form are there.
pub(super) fn heads<'a>(weights: impl Iterator<Item = &'a str>) -> Vec<HeadPlace> {
    let weights: BTreeSet<&str> = weights.filter(|name| name.starts_with("heads.")).collect();
    let path = |name: &&str| name.match_indices('.').nth(1).map(|(end, _)| name[..end].to_owned());
    let paths: BTreeSet<String> = weights.iter().filter_map(path).collect();
    let tables: Vec<&HeadTable> = BERT_HEADS.iter().chain(&ELECTRA_HEADS[..1]).collect();
    let is_whole = |path: &str, table: &HeadTable| {
        table.lines.iter().flat_map(Line::ours).all(|name| weights.contains(join(path, &name).as_str()))
    };
    let of = |path: String| {
        let tables = tables.iter().filter(|table| is_whole(&path, table));
        tables.map(|table| HeadPlace { form: table.form, path: path.clone() }).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(of).collect()
}

impl Line {
    /// The names of ours: one, or a weight and a bias.
    pub fn ours(&self) -> Vec<String> {
        if self.is_affine {
            ["weight", "bias"].map(|kind| join(self.ours, kind)).into()
        } else {
            vec![self.ours.into()]
        }
    }
}

/// `above.below`, or whichever is not empty.
pub(super) fn join(above: &str, below: &str) -> String {
    if above.is_empty() { below.to_owned() } else { format!("{above}.{below}") }
}
