//! Heads of a run, found by the names of its weights.

use std::collections::BTreeSet;

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
}

/// Weights that identify a head.
struct Form {
    role: HeadRole,
    /// Weights below its path.
    has: &'static [&'static str],
    /// Weight that only another form has.
    lacks: Option<&'static str>,
}

const TRANSFORM: &[&str] = &["dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias"];

const FORMS: &[Form] = &[
    Form { role: HeadRole::Predict, has: TRANSFORM, lacks: Some("decoder.weight") },
    Form {
        role: HeadRole::PredictUntied,
        has: &["dense.weight", "dense.bias", "norm.weight", "norm.bias", "bias", "decoder.weight"],
        lacks: None,
    },
    Form { role: HeadRole::Decode, has: &["lm.bias"], lacks: None },
    Form { role: HeadRole::Copy, has: &["copy.weight", "copy.bias"], lacks: None },
    Form { role: HeadRole::Detect, has: &["dense.weight", "dense.bias", "weight", "bias"], lacks: None },
    Form { role: HeadRole::DetectLinear, has: &["weight", "bias"], lacks: Some("dense.weight") },
    Form { role: HeadRole::Pool, has: &["pooler.weight", "pooler.bias"], lacks: None },
    Form { role: HeadRole::Classify, has: &["classifier.weight", "classifier.bias"], lacks: None },
];

/// Returns the heads below `heads.` among the names of a run's weights. A head counts if all weights of its task exist.
///
/// `flags_replaced` returns whether positive scores of the detection head with a path mean "replaced".
pub(super) fn heads<'a>(
    weights: impl Iterator<Item = &'a str>,
    flags_replaced: impl Fn(&str) -> bool,
) -> Vec<HeadPlace> {
    let weights: BTreeSet<&str> = weights.filter(|name| name.starts_with("heads.")).collect();
    let path = |name: &&str| name.match_indices('.').nth(1).map(|(end, _)| name[..end].to_owned());
    let paths: BTreeSet<String> = weights.iter().filter_map(path).collect();
    let has = |path: &str, name: &str| weights.contains(join(path, name).as_str());
    let is_whole = |path: &str, form: &Form| {
        form.has.iter().all(|name| has(path, name)) && !form.lacks.is_some_and(|name| has(path, name))
    };
    let places = |path: String| {
        let forms = FORMS.iter().filter(|form| is_whole(&path, form));
        let place = |form: &Form| {
            let is_negated = form.role.detects() && !flags_replaced(&path);
            HeadPlace { form: form.role, path: path.clone(), is_negated }
        };
        forms.map(place).collect::<Vec<_>>()
    };
    paths.into_iter().flat_map(places).collect()
}

/// Returns `above.below`, or `below` if `above` is empty.
pub(super) fn join(above: &str, below: &str) -> String {
    if above.is_empty() { below.to_owned() } else { format!("{above}.{below}") }
}
