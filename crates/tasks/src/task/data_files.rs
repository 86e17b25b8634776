//! Keys for the files of a task that is configured by keys alone.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::set::{ExampleSet, SetPurpose};
use crate::example::TaskOutput;
use crate::layout::{ColumnRef, ExampleColumns, FileLayout, GoldColumns, TableFormat, TableLayout, WidthPolicy};
use crate::metric::TaskMetric;

/// Files of a task, with their format.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DataFiles {
    /// Training file below the folder of the task.
    pub train: String,
    /// Dev file. Empty: none.
    pub dev: String,
    /// Test file. Empty: none.
    pub test: String,
    /// Whether the test file has labels.
    pub test_has_labels: bool,
    /// File format. Without it, the names decide: `.tsv` (without quoting), `.csv`, `.jsonl` or `.parquet`, also with
    /// `.gz` except for Parquet.
    pub format: Option<TableFormat>,
    /// Whether the first line of TSV and CSV files names the columns. Otherwise columns are numbers from 0.
    pub header: bool,
    /// Column of the ids. Without it, examples are numbered.
    pub id: Option<ColumnRef>,
    /// Drop and count lines of TSV and CSV files whose number of fields is wrong, instead of failing.
    pub drop_wrong_width: bool,
}

impl Default for DataFiles {
    fn default() -> Self {
        Self {
            train: "train.tsv".to_owned(),
            dev: "dev.tsv".to_owned(),
            test: String::new(),
            test_has_labels: true,
            format: None,
            header: true,
            id: None,
            drop_wrong_width: false,
        }
    }
}

impl DataFiles {
    /// Format of a file; `None` if neither the keys nor its name tell it.
    fn format_of(&self, file: &str) -> Option<TableFormat> {
        self.format.or_else(|| TableFormat::from_name(file))
    }

    /// Returns one message per invalid value.
    pub(super) fn problems(&self) -> Vec<String> {
        let mut problems = Vec::new();
        if self.train.is_empty() {
            problems.push("`files.train` is empty".to_owned());
        }
        for (purpose, file) in self.named() {
            if self.format_of(file).is_none() {
                let key = purpose.name();
                problems.push(format!("`files.{key}` = `{file}` does not tell the format; set `files.format`"));
            }
        }
        problems
    }

    /// Returns the sets, given the columns of texts and gold values.
    pub(super) fn sets(&self, first: &ColumnRef, second: Option<&ColumnRef>, gold: &GoldColumns) -> Vec<ExampleSet> {
        let set = |(purpose, file): (SetPurpose, &str)| {
            let has_labels = purpose != SetPurpose::Test || self.test_has_labels;
            let columns = ExampleColumns {
                id: self.id.clone(),
                first: first.clone(),
                second: second.cloned(),
                gold: if has_labels { gold.clone() } else { GoldColumns::Absent },
            };
            let layout = FileLayout::Table(TableLayout {
                format: self.format_of(file).unwrap_or_default(),
                has_header: self.header,
                columns,
                width: if self.drop_wrong_width { WidthPolicy::Drop } else { WidthPolicy::Refuse },
            });
            ExampleSet::new(purpose, file, layout)
        };
        self.named().map(set).collect()
    }

    /// Returns the files that are set.
    pub(super) fn named(&self) -> impl Iterator<Item = (SetPurpose, &str)> {
        let files = [(SetPurpose::Train, &*self.train), (SetPurpose::Dev, &*self.dev), (SetPurpose::Test, &*self.test)];
        files.into_iter().filter(|(_, file)| !file.is_empty())
    }
}

/// Returns the metrics of a task with this output, the primary one first.
pub(super) fn metrics(primary: TaskMetric, output: &TaskOutput) -> Vec<TaskMetric> {
    let others = TaskMetric::ALL.iter().copied().filter(|it| *it != primary && it.applies_to(output));
    std::iter::once(primary).chain(others).collect()
}

/// Returns the problem of a primary metric that a task with this output does not have.
pub(super) fn metric_problem(metric: TaskMetric, output: &TaskOutput) -> Option<String> {
    (!metric.applies_to(output)).then(|| format!("`metric` = `{metric}` is not a metric of this kind of task"))
}

/// Returns one message per problem of a list of labels.
pub(super) fn label_problems(labels: &[String]) -> Vec<String> {
    let mut sorted = labels.to_vec();
    sorted.sort();
    sorted.dedup();
    let mut problems = Vec::new();
    if labels.len() < 2 {
        problems.push(format!("`labels` has {} names; a task needs at least two", labels.len()));
    }
    if sorted.len() < labels.len() {
        problems.push("`labels` names one label twice".to_owned());
    }
    if labels.iter().any(String::is_empty) {
        problems.push("`labels` has an empty name".to_owned());
    }
    if let Some(label) = labels.iter().find(|label| label.contains(char::is_control)) {
        problems.push(format!("`labels` has a name with a control character: {label:?}"));
    }
    problems
}
