//! Content of case files and result files.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

#[derive(Deserialize)]
pub(super) struct Request {
    pub(super) cases: Vec<Case>,
}

/// One case. Inputs are parsed on first use, so those of unknown objectives may have any form.
#[derive(Deserialize)]
pub(super) struct Case {
    pub(super) id: String,
    pub(super) objective: String,
    #[serde(default)]
    pub(super) variant: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    pub(super) inputs: BTreeMap<String, serde_json::Value>,
}

/// Array in a file, flat and row-major.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Array {
    pub(super) shape: Vec<i64>,
    pub(super) data: Vec<f64>,
}

#[derive(Debug, Serialize)]
pub(super) struct Response {
    pub(super) results: BTreeMap<String, CaseOutcome>,
}

/// Additional result of a case: one number or several.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum PartValue {
    Number(f64),
    List(Vec<i64>),
}

/// Result of one case.
#[derive(Debug, Serialize)]
pub(super) struct CaseOutcome {
    pub(super) loss: f64,
    pub(super) parts: BTreeMap<String, PartValue>,
    pub(super) grads: BTreeMap<String, Array>,
}
