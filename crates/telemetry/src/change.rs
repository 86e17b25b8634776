//! What somebody did to a run itself: not what it learned, but what it is.

use std::collections::{BTreeMap, BTreeSet};

use schemars::JsonSchema;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};

/// A run is another from here on, since somebody wanted it so.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ChangeReport {
    /// What was done.
    pub how: How,
    /// The same in words, with what it means for the steps that follow.
    pub message: String,
    /// The keys of the run's identity that are others now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub keys: Vec<KeyChange>,
    /// Steps that the run had done before a rollback.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<Step>,
}

/// A word about a run, by somebody who looks at it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct NoteReport {
    /// What was said.
    pub text: String,
}

/// What can be done to a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// A key of its configuration was changed in the middle of it: `train --allow-change`.
    Allow,
    /// It continues where another run stood.
    Branch,
    /// It has more steps to do.
    Extend,
    /// It went back to an older checkpoint.
    Rollback,
    /// What only a later program can do.
    #[serde(other)]
    Other,
}

/// A key of a configuration, as it was and as it is; none where there is no such key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct KeyChange {
    /// Its path.
    pub key: String,
    /// As it was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub then: Option<String>,
    /// As it is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub now: Option<String>,
}

impl KeyChange {
    /// What became of a configuration, each of its keys with its value as text; empty for equal ones.
    #[must_use]
    pub fn between(then: &BTreeMap<String, String>, now: &BTreeMap<String, String>) -> Vec<Self> {
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
