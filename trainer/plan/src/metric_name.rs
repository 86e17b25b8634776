//! What a term or a metric is called.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A term or a metric of an objective. Written as `objective.part`, or `objective` where there is one part only.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricName {
    /// The objective's key in the configuration.
    pub objective: String,
    /// The name within the objective; empty if there is only one.
    pub part: String,
}

impl MetricName {
    /// `part` of `objective`.
    #[must_use]
    pub fn new(objective: &str, part: &str) -> Self {
        Self { objective: objective.to_owned(), part: part.to_owned() }
    }
}

impl fmt::Display for MetricName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { objective, part } = self;
        if part.is_empty() { f.write_str(objective) } else { write!(f, "{objective}.{part}") }
    }
}
