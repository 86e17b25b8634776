//! Names of terms and metrics.

use std::fmt;

use serde::{Deserialize, Serialize};

/// Name of a term or a metric of an objective. It is written as `objective.part`, or as `objective` if the part is
/// empty.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetricName {
    /// Key of the objective in the configuration.
    pub objective: String,
    /// Name within the objective; empty if the objective has only one.
    pub part: String,
}

impl MetricName {
    /// Creates the name of `part` of `objective`.
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
