//! Error of one line or row of a file of examples.

use std::fmt;
use std::path::{Path, PathBuf};

/// Error of one line or row: file, line, column, the problem, and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowError {
    /// File that was read.
    pub file: PathBuf,
    /// Line of a text file or row of a Parquet file, from 1. 0 if the error concerns the whole file.
    pub line: u64,
    /// Column: its name or number, a key of a JSON object, or a byte of the line.
    pub column: Option<String>,
    /// Problem, with the value.
    pub message: String,
    /// Suggested fix.
    pub hint: String,
    /// True if nothing can be read after this error.
    pub is_last: bool,
}

impl RowError {
    /// Creates an error of a line, or of the whole file if `line` is 0.
    pub(crate) fn new(line: u64, message: impl Into<String>, hint: impl Into<String>) -> Self {
        Self {
            file: PathBuf::new(),
            line,
            column: None,
            message: message.into(),
            hint: hint.into(),
            is_last: line == 0,
        }
    }

    /// Adds the column.
    pub(crate) fn column(self, column: impl Into<String>) -> Self {
        Self { column: Some(column.into()), ..self }
    }

    /// Marks the error as the end of the file.
    pub(crate) fn last(self) -> Self {
        Self { is_last: true, ..self }
    }

    /// Sets the file.
    pub(crate) fn in_file(self, file: &Path) -> Self {
        Self { file: file.to_owned(), ..self }
    }

    /// Creates the error of a failed read.
    pub(crate) fn io(line: u64, error: &std::io::Error) -> Self {
        Self::new(line, format!("cannot be read: {error}"), "check the path, the permissions and the compression")
            .last()
    }
}

impl fmt::Display for RowError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&schemas::printable(&self.file.display().to_string()))?;
        if self.line > 0 {
            write!(f, ":{}", self.line)?;
        }
        if let Some(column) = &self.column {
            write!(f, ": {column}")?;
        }
        write!(f, ": {}; {}", self.message, self.hint)
    }
}

impl std::error::Error for RowError {}

/// Returns at most 60 characters of a value for a message, without control characters.
pub(crate) fn shown(value: &str) -> String {
    let short: String = value.chars().take(60).collect();
    let dots = if short.len() < value.len() { "…" } else { "" };
    format!("`{}{dots}`", schemas::printable(&short))
}

/// Returns at most 20 names for a message.
pub(crate) fn shown_names<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names = names.into_iter();
    let mut list: Vec<String> = names.by_ref().take(20).map(shown).collect();
    let others = names.count();
    if others > 0 {
        list.push(format!("and {others} others"));
    }
    list.join(", ")
}
