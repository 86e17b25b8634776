//! Weights of mixture sources.

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

/// Share of a source relative to the other sources.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a weight is a number, or a list like `[{ rows = 0, weight = 0.7 }, { rows = 1_000_000, weight = 0.3 }]`"
)]
pub enum Weight {
    /// One weight for all rows.
    Constant(f64),
    /// Weights that change at given rows.
    Table(Vec<WeightFrom>),
}

/// Weight that applies from a row on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightFrom {
    /// First row of the stream at which the weight applies.
    pub rows: u64,
    /// Weight.
    pub weight: f64,
}

impl Default for Weight {
    fn default() -> Self {
        Self::Constant(1.0)
    }
}

impl Weight {
    fn table(&self) -> Vec<WeightFrom> {
        match self {
            Self::Constant(weight) => vec![WeightFrom { rows: 0, weight: *weight }],
            Self::Table(table) => table.clone(),
        }
    }

    /// Whether it is 0 for all rows.
    #[must_use]
    pub fn is_never(&self) -> bool {
        let table = self.table();
        !table.is_empty() && table.iter().all(|it| it.weight == 0.0)
    }

    /// Returns the periods at which each weight starts to apply. A period has `rows_per_period` rows.
    pub(super) fn steps(&self, rows_per_period: u64) -> Vec<(u64, f64)> {
        self.table().iter().map(|it| (it.rows.div_ceil(rows_per_period), it.weight)).collect()
    }

    /// Returns the problems of this weight that do not depend on the other weights.
    pub(super) fn problems(&self, name: &str, rows_per_period: u64) -> Vec<Problem> {
        let key = format!("sources.{name}.weight");
        let table = self.table();
        let steps = self.steps(rows_per_period);
        let mut problems = Vec::new();
        let improper = table.iter().filter(|it| !(it.weight >= 0.0 && it.weight.is_finite()));
        problems.extend(improper.map(|it| {
            Problem::new(&key, format!("{} is not a weight", it.weight)).hint("give 0 or a positive number")
        }));
        if table.first().is_none_or(|first| first.rows != 0) {
            let hint = "begin with `{ rows = 0, weight = … }`";
            problems.push(Problem::new(&key, "it has no weight for the start of the stream").hint(hint));
        }
        let unordered = table.windows(2).find(|pair| pair[0].rows >= pair[1].rows);
        if let Some([before, next]) = unordered {
            let message = format!("a weight from row {} on is listed after one from row {}", next.rows, before.rows);
            problems.push(Problem::new(&key, message).hint("list them in the order of their rows, none twice"));
        } else if let Some(at) = steps.windows(2).position(|pair| pair[0].0 == pair[1].0) {
            let first = table[at].rows;
            let next = table[at + 1].rows;
            let message = format!(
                "weights change between periods of {rows_per_period} rows; rows {first} and {next} round to the same"
            );
            let hint = format!("leave {rows_per_period} rows between them, or more");
            problems.push(Problem::new(&key, message).hint(hint));
        }
        problems
    }
}
