//! In which proportions a mixture is made of its sources.

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

/// The share of a source next to those of the others.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(
    untagged,
    expecting = "a weight is a number, or a list like `[{ rows = 0, weight = 0.7 }, { rows = 1_000_000, weight = 0.3 }]`"
)]
pub enum Weight {
    /// For all rows.
    Constant(f64),
    /// Over the rows.
    Table(Vec<WeightFrom>),
}

/// A weight that holds from a row on.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct WeightFrom {
    /// Rows of the stream before it holds.
    pub rows: u64,
    /// The weight.
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

    /// The periods from which on the weights hold; periods have `rows_per_period` rows.
    pub(super) fn steps(&self, rows_per_period: u64) -> Vec<(u64, f64)> {
        self.table().iter().map(|it| (it.rows.div_ceil(rows_per_period), it.weight)).collect()
    }

    /// What is wrong with it whatever the others are.
    pub(super) fn problems(&self, name: &str, rows_per_period: u64) -> Vec<Problem> {
        let key = format!("sources.{name}.weight");
        let (table, steps) = (self.table(), self.steps(rows_per_period));
        let mut problems = Vec::new();
        let improper = table.iter().filter(|it| !(it.weight >= 0.0 && it.weight.is_finite()));
        problems
            .extend(improper.map(|it| {
                Problem::new(&key, format!("{} is no share", it.weight)).hint("give 0 or a number above it")
            }));
        if table.first().is_none_or(|first| first.rows != 0) {
            let hint = "begin with `{ rows = 0, weight = … }`";
            problems.push(Problem::new(&key, "it does not say what the stream begins with").hint(hint));
        }
        let unordered = table.windows(2).find(|pair| pair[0].rows >= pair[1].rows);
        if let Some([before, next]) = unordered {
            let message = format!("a weight from row {} on comes behind one from row {}", next.rows, before.rows);
            problems.push(Problem::new(&key, message).hint("list them in the order of their rows, none twice"));
        } else if let Some(at) = steps.windows(2).position(|pair| pair[0].0 == pair[1].0) {
            let (first, next) = (table[at].rows, table[at + 1].rows);
            let message = format!(
                "weights change where a period of {rows_per_period} rows begins, and rows {first} and {next} mean the same"
            );
            let hint = format!("leave {rows_per_period} rows between them, or more");
            problems.push(Problem::new(&key, message).hint(hint));
        }
        problems
    }
}
