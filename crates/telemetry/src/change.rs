//! Payloads of the events of user changes to a run: changed keys, branches, extensions, rollbacks and notes.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};

/// Change of a run by its user, from this step on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeReport {
    /// Kind of the change.
    pub how: How,
    /// Description of the change and of its effect on the following steps.
    pub message: String,
    /// Changed keys of the run identity.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyChange>,
    /// Steps that the run had done before a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Step>,
}

/// Note about a run by one of its viewers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoteReport {
    /// Text of the note.
    pub text: String,
}

/// Kind of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Changed key of the configuration of a running or interrupted run: `train --allow-change`.
    Allow,
    /// Branch: the run continues from a checkpoint of another run.
    Branch,
    /// Extension: the run has more steps to do.
    Extend,
    /// Rollback: the run went back to an older checkpoint.
    Rollback,
    /// Change that only a later version of the program defines.
    #[serde(other)]
    Other,
}

/// Key of a configuration with its old and new value. A missing value means that the key is absent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyChange {
    /// Path of the key.
    pub key: String,
    /// Old value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// New value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
}

impl KeyChange {
    /// Returns the differences of two configurations, given as keys with their values as text. Empty if they are equal.
    #[must_use]
    pub fn compare(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<Self> {
        let keys: BTreeSet<&String> = then.keys().chain(now.keys()).collect();
        let differ = keys.into_iter().filter(|key| then.get(*key) != now.get(*key));
        differ.map(|key| Self { key: key.clone(), then: then.get(key).cloned(), now: now.get(key).cloned() }).collect()
    }
}

impl std::fmt::Display for KeyChange {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let value = |value: &Option<String>| value.clone().unwrap_or_else(|| "absent".to_owned());
        write!(f, "`{}`: {} → {}", self.key, value(&self.then), value(&self.now))
    }
}
