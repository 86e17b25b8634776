//! Files of a task and their purposes.

use crate::average::Convention;
use crate::layout::{ColumnRef, ExampleColumns, FileLayout, GoldColumns, TableFormat, TableLayout, WidthPolicy};
use crate::metric::TaskMetric;

/// Purpose of a file of examples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SetPurpose {
    /// Training.
    Train,
    /// Selection of hyperparameters and checkpoints.
    Dev,
    /// Final result.
    Test,
}

impl SetPurpose {
    /// Returns the name in keys and of sets without another name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Train => "train",
            Self::Dev => "dev",
            Self::Test => "test",
        }
    }
}

/// File of examples of a task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleSet {
    /// Name in reports and keys, such as `dev` or `dev_matched`.
    pub name: String,
    /// Purpose.
    pub purpose: SetPurpose,
    /// Path below the folder of the task.
    pub file: String,
    /// Layout.
    pub layout: FileLayout,
    /// File of GLUE's submission with the predictions of this set, such as `CoLA.tsv`.
    pub submission: Option<String>,
}

impl ExampleSet {
    /// Creates a set that is named after its purpose.
    pub(super) fn new(purpose: SetPurpose, file: &str, layout: FileLayout) -> Self {
        Self { name: purpose.name().to_owned(), purpose, file: file.to_owned(), layout, submission: None }
    }

    /// Returns whether its examples have gold values.
    #[must_use]
    pub fn has_labels(&self) -> bool {
        match &self.layout {
            FileLayout::Table(table) => table.columns.gold != GoldColumns::Absent,
            FileLayout::WordFile(words) => words.has_labels,
            FileLayout::SquadJson => true,
        }
    }

    /// Changes the name.
    pub(super) fn named(self, name: &str) -> Self {
        Self { name: name.to_owned(), ..self }
    }

    /// Adds the file of a submission.
    pub(super) fn submitted_as(self, file: &str) -> Self {
        Self { submission: Some(file.to_owned()), ..self }
    }
}

/// Columns of GLUE's files with a header.
pub(super) struct GlueColumns {
    pub(super) first: &'static str,
    pub(super) second: Option<&'static str>,
    pub(super) label: &'static str,
}

impl GlueColumns {
    /// Returns the layout of a labelled file. Examples are numbered.
    pub(super) fn labelled(&self) -> FileLayout {
        tsv(true, self.columns(None, GoldColumns::Label(self.label.into())))
    }

    /// Returns the layout of a test file. The column `index` is the id.
    pub(super) fn unlabelled(&self, id: &str) -> FileLayout {
        tsv(true, self.columns(Some(id.into()), GoldColumns::Absent))
    }

    /// Returns the files `train.tsv`, `dev.tsv` and `test.tsv`.
    pub(super) fn sets(&self, submission: &str) -> Vec<ExampleSet> {
        vec![
            ExampleSet::new(SetPurpose::Train, "train.tsv", self.labelled()),
            ExampleSet::new(SetPurpose::Dev, "dev.tsv", self.labelled()),
            ExampleSet::new(SetPurpose::Test, "test.tsv", self.unlabelled("index")).submitted_as(submission),
        ]
    }

    fn columns(&self, id: Option<ColumnRef>, gold: GoldColumns) -> ExampleColumns {
        ExampleColumns { id, first: self.first.into(), second: self.second.map(ColumnRef::from), gold }
    }
}

/// Returns the metrics that a paper prints for QQP and MRPC.
pub(super) fn paraphrase_metrics(convention: Convention) -> Vec<TaskMetric> {
    match convention {
        Convention::TacoSmall | Convention::TacoBase => vec![TaskMetric::F1],
        Convention::CocoLm => vec![TaskMetric::Accuracy],
        Convention::FeMlm => vec![TaskMetric::Accuracy, TaskMetric::F1],
    }
}

/// Columns of most pairs of GLUE.
pub(super) const SENTENCE_PAIR: GlueColumns =
    GlueColumns { first: "sentence1", second: Some("sentence2"), label: "label" };

/// Returns the layout of a file without quoting.
pub(super) fn tsv(has_header: bool, columns: ExampleColumns) -> FileLayout {
    FileLayout::Table(TableLayout { format: TableFormat::Tsv, has_header, columns, width: WidthPolicy::Refuse })
}

/// Returns the files `train.jsonl`, `dev.jsonl` and `test.jsonl` with the keys `text` and `label`.
pub(super) fn jsonl_sets(id: Option<&str>) -> Vec<ExampleSet> {
    let columns = ExampleColumns {
        id: id.map(ColumnRef::from),
        first: "text".into(),
        second: None,
        gold: GoldColumns::Label("label".into()),
    };
    let layout = FileLayout::Table(TableLayout {
        format: TableFormat::Jsonl,
        has_header: false,
        columns,
        width: WidthPolicy::Refuse,
    });
    let files = [(SetPurpose::Train, "train.jsonl"), (SetPurpose::Dev, "dev.jsonl"), (SetPurpose::Test, "test.jsonl")];
    files.map(|(purpose, file)| ExampleSet::new(purpose, file, layout.clone())).to_vec()
}

/// Returns the files of a version of SQuAD. Its test set is not public.
pub(super) fn squad_sets(version: &str) -> Vec<ExampleSet> {
    [(SetPurpose::Train, "train"), (SetPurpose::Dev, "dev")]
        .map(|(purpose, name)| ExampleSet::new(purpose, &format!("{name}-{version}.json"), FileLayout::SquadJson))
        .to_vec()
}

/// Returns names as owned texts.
pub(super) fn names(labels: &[&str]) -> Vec<String> {
    labels.iter().map(|&label| label.to_owned()).collect()
}
