//! Rows of a table: the cells of the requested columns.

use serde_json::Value;

use crate::RowError;
use crate::layout::ColumnRef;
use crate::row_error::shown_names;

/// Row of a table.
pub(super) struct TableRow {
    /// Line or row of the file, from 1.
    pub(super) line: u64,
    /// Cells of the requested columns, in the order of the request.
    pub(super) cells: Vec<Value>,
}

/// Step of a reader of rows.
pub(super) enum RowStep {
    /// Row.
    Row(TableRow),
    /// Blank line.
    Blank,
    /// Line of another number of fields, dropped as the layout says.
    Dropped,
    /// Invalid line.
    Invalid(RowError),
    /// End of the file.
    End,
}

/// Reader of the rows of one format.
pub(super) trait RowReader {
    /// Reads the next row.
    fn step(&mut self) -> RowStep;
}

/// Returns the positions of the requested columns in a header. Without a header, columns have numbers only.
pub(super) fn positions(requested: &[ColumnRef], header: &[String], has_header: bool) -> Result<Vec<usize>, RowError> {
    let known = || shown_names(header.iter().map(String::as_str));
    requested
        .iter()
        .map(|column| match column {
            ColumnRef::Number(number) if *number < header.len() => Ok(*number),
            ColumnRef::Number(_) => {
                let message = format!("missing: the first line has {} fields", header.len());
                Err(RowError::new(1, message, "choose a smaller number, or check the separator"))
            }
            ColumnRef::Name(_) if !has_header => {
                let hint = "give its number from 0, or say that the file has a header";
                Err(RowError::new(1, "named, but the file has no header", hint))
            }
            ColumnRef::Name(name) => unique_position(name, header)
                .map_err(|message| RowError::new(1, message, format!("the header has {}; name one of them", known()))),
        })
        .zip(requested)
        .map(|(found, column)| found.map_err(|error| error.column(column.to_string()).last()))
        .collect()
}

fn unique_position(name: &str, header: &[String]) -> Result<usize, &'static str> {
    let mut found = header.iter().enumerate().filter(|(_, known)| *known == name);
    match (found.next(), found.next()) {
        (Some((position, _)), None) => Ok(position),
        (Some(_), Some(_)) => Err("occurs twice in the header"),
        (None, _) => Err("missing in the header"),
    }
}

/// Returns the error of a line whose number of fields differs from the first line's.
pub(super) fn wrong_width(line: u64, found: usize, expected: usize) -> RowError {
    let hint = "correct the line; tabs and line breaks within a field must be removed or quoted";
    RowError::new(line, format!("{found} fields instead of {expected}"), hint)
}
