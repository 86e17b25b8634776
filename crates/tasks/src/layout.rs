//! Layout of a file of examples: format, header and columns.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// File format with named or numbered columns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum TableFormat {
    /// Tab-separated without quoting, as in GLUE: quotes are characters like any other.
    #[default]
    Tsv,
    /// Tab-separated with quoting as in CSV.
    QuotedTsv,
    /// Comma-separated, RFC 4180: fields in quotes may contain commas, line breaks and doubled quotes.
    Csv,
    /// One JSON object per line.
    Jsonl,
    /// Parquet.
    Parquet,
}

impl TableFormat {
    /// Returns the format that a file name suggests, also with `.gz` at its end. `.tsv` is GLUE's, without quoting.
    pub fn from_name(name: &str) -> Option<Self> {
        let name = name.strip_suffix(".gz").unwrap_or(name);
        match name.rsplit_once('.')?.1.to_ascii_lowercase().as_str() {
            "tsv" | "txt" => Some(Self::Tsv),
            "csv" => Some(Self::Csv),
            "jsonl" | "ndjson" | "json" => Some(Self::Jsonl),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// Column of a table: a name of the header, a key of a JSON object, or a number from 0. A dot in a key leads into a
/// nested object, as in `answers.text`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ColumnRef {
    /// Number from 0.
    Number(usize),
    /// Name.
    Name(String),
}

impl From<&str> for ColumnRef {
    fn from(name: &str) -> Self {
        Self::Name(name.to_owned())
    }
}

impl From<usize> for ColumnRef {
    fn from(number: usize) -> Self {
        Self::Number(number)
    }
}

impl std::fmt::Display for ColumnRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Number(number) => write!(f, "column {number}"),
            Self::Name(name) => write!(f, "column `{name}`"),
        }
    }
}

/// Columns of the gold value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GoldColumns {
    /// The file has no labels.
    Absent,
    /// Class, score, or labels of words: a list, or labels between blanks.
    Label(ColumnRef),
    /// Texts and character offsets of answers: one of each or two lists of equal length.
    Answers {
        /// Texts.
        texts: ColumnRef,
        /// First characters within the passage, counted in code points from 0, as in SQuAD.
        starts: ColumnRef,
    },
}

/// Columns of an example.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExampleColumns {
    /// Id. Without it, examples are numbered from 0.
    pub id: Option<ColumnRef>,
    /// First text, or the words of a task that labels words: a list, or words between blanks.
    pub first: ColumnRef,
    /// Second text.
    pub second: Option<ColumnRef>,
    /// Gold value.
    pub gold: GoldColumns,
}

/// Treatment of lines whose number of fields differs from the first line's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WidthPolicy {
    /// Each such line is an error.
    #[default]
    Refuse,
    /// Such lines are dropped and counted. QQP has a few.
    Drop,
}

/// Layout of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableLayout {
    /// File format.
    pub format: TableFormat,
    /// Whether the first line names the columns. Ignored for JSONL and Parquet.
    pub has_header: bool,
    /// Columns of an example.
    pub columns: ExampleColumns,
    /// Treatment of lines of another number of fields.
    pub width: WidthPolicy,
}

/// Layout of a file with one word per line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WordFileLayout {
    /// Number of the column with the word, from 0.
    pub word_column: usize,
    /// Number of the column with the label, from 0. `None` counts as the last column of each line.
    pub label_column: Option<usize>,
    /// Whether the file has labels.
    pub has_labels: bool,
}

/// Layout of a file of examples.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileLayout {
    /// One example per row.
    Table(TableLayout),
    /// SQuAD JSON, version 1.1 or 2.0.
    SquadJson,
    /// One word per line and a blank line after each sentence, as in CoNLL.
    WordFile(WordFileLayout),
}
