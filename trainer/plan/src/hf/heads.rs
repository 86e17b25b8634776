//! Heads of a run, found by the names of its weights.

use std::collections::BTreeSet;

use crate::objectives::Activation;

/// Task and form of a head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadRole {
    /// Scores all ids with the word table, after a transform.
    Predict,
    /// Scores all ids with a separate matrix, after a transform.
    PredictUntied,
    /// Scores all ids with the word table alone, as in COCO-LM.
    Decode,
    /// Detects replaced tokens, after a dense layer.
    Detect,
    /// Detects replaced tokens without a dense layer.
    DetectLinear,
    /// Detects replaced tokens for a head that also predicts, as in COCO-LM.
    Copy,
    /// Pools a row into one vector.
    Pool,
    /// Classifies a pooled row: whether its second segment is random.
    Classify,
    /// Predicts the class or the score of a labelled row.
    LabelRow,
    /// Predicts the class of each token.
    LabelTokens,
    /// Predicts the first and the last token of an answer.
    LabelSpan,
}

impl HeadRole {
    /// Whether a positive score is about the replacement of a token.
    pub(super) fn detects(self) -> bool {
        matches!(self, Self::Detect | Self::DetectLinear | Self::Copy)
    }
}

/// Head of a run: its task and the path of its weights.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeadPlace {
    /// Task and form of the head.
    pub form: HeadRole,
    /// Path of its weights, such as `heads.NAME`.
    pub path: String,
    /// Whether positive scores mean "original" in this project. They mean "replaced" in `transformers`.
    pub is_negated: bool,
    /// Number of outputs of a head for labelled examples, else 0.
    pub outputs: u32,
    /// Activation of a head over the first position of labelled rows.
    pub activation: Option<Activation>,
}

impl HeadPlace {
    /// Creates the place of a head that predicts no targets of labelled examples.
    #[must_use]
    pub fn unlabelled(form: HeadRole, path: String) -> Self {
        Self { form, path, is_negated: false, outputs: 0, activation: None }
    }
}

/// Facts about the objective of a head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct HeadFacts {
    /// Whether positive scores mean "replaced".
    pub flags_replaced: bool,
    /// Number of outputs, if it predicts the targets of labelled examples.
    pub outputs: Option<u32>,
    /// Activation over the first position of labelled rows.
    pub activation: Option<Activation>,
}

/// Weights that identify a head.
struct Form {
    role: HeadRole,
    /// Weights below its path.
    has: &'static [&'static str],
    /// Weight that only another form has.
    lacks: Option<&'static str>,
    /// Whether its objective predicts the targets of labelled examples.
    is_labelled: bool,
}

const fn form(role: HeadRole, has: &'static [&'static str], lacks: Option<&'static str>) -> Form {
    Form { role, has, lacks, is_labelled: false }
}

const fn labelled(role: HeadRole, has: &'static [&'static str], lacks: Option<&'static str>) -> Form {
    Form { role, has, lacks, is_labelled: true }
}

const TRANSFORM: &[&str] = &["dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias"];

const FORMS: &[Form] = &[
    form(HeadRole::Predict, TRANSFORM, Some("decoder.weight")),
    form(
        HeadRole::PredictUntied,
        &["dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias", "decoder.weight"],
        None,
    ),
    form(HeadRole::Decode, &["lm.bias"], None),
    form(HeadRole::Copy, &["copy.weight", "copy.bias"], None),
    form(HeadRole::Detect, &["dense.weight", "dense.bias", "weight", "bias"], None),
    form(HeadRole::DetectLinear, &["weight", "bias"], Some("dense.weight")),
    form(HeadRole::Pool, &["pooler.weight", "pooler.bias"], None),
    form(HeadRole::Classify, &["classifier.weight", "classifier.bias"], None),
    labelled(HeadRole::LabelRow, &["pooler.weight", "pooler.bias", "classifier.weight", "classifier.bias"], None),
    labelled(HeadRole::LabelTokens, &["classifier.weight", "classifier.bias"], Some("pooler.weight")),
    labelled(HeadRole::LabelSpan, &["outputs.weight", "outputs.bias"], None),
];

/// Returns the heads below `heads.` among the names of a run's weights. A head counts if all weights of its task exist.
///
/// `facts` returns what is known of the objective of the head with a path.
pub(super) fn heads<'a>(weights: impl Iterator<Item = &'a str>, facts: impl Fn(&str) -> HeadFacts) -> Vec<HeadPlace> {
    let weights: BTreeSet<&str> = weights.filter(|name| name.starts_with("heads.")).collect();
    let path = |name: &&str| name.match_indices('.').nth(1).map(|(end, _)| name[..end].to_owned());
    let paths: BTreeSet<String> = weights.iter().filter_map(path).collect();
    let has = |path: &str, name: &str| weights.contains(join(path, name).as_str());
    let is_whole = |path: &str, form: &Form| {
        form.has.iter().all(|name| has(path, name)) && !form.lacks.is_some_and(|name| has(path, name))
    };
    let places = |path: String| {
        let HeadFacts { flags_replaced, outputs, activation } = facts(&path);
        let forms = FORMS.iter().filter(|form| form.is_labelled == outputs.is_some() && is_whole(&path, form));
        let place = |form: &Form| {
            let is_negated = form.role.detects() && !flags_replaced;
            HeadPlace { form: form.role, path: path.clone(), is_negated, outputs: outputs.unwrap_or(0), activation }
        };
        forms.map(place).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(places).collect()
}

/// Returns `above.below`, or `below` if `above` is empty.
pub(super) fn join(above: &str, below: &str) -> String {
    if above.is_empty() { below.to_owned() } else { format!("{above}.{below}") }
}
