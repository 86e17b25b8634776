//! JSONL files: one object per line.

use serde_json::Value;

use super::lines::LineReader;
use super::table::{RowReader, RowStep, TableRow};
use crate::RowError;
use crate::layout::ColumnRef;
use crate::row_error::shown_names;

/// Reader of JSON objects, one per line.
pub(super) struct JsonLineReader {
    lines: LineReader,
    requested: Vec<ColumnRef>,
}

impl JsonLineReader {
    pub(super) fn new(lines: LineReader, requested: Vec<ColumnRef>) -> Self {
        Self { lines, requested }
    }
}

impl RowReader for JsonLineReader {
    fn step(&mut self) -> RowStep {
        let line = match self.lines.next_line() {
            None => return RowStep::End,
            Some(Err(error)) => return RowStep::Invalid(error),
            Some(Ok(line)) if line.trim().is_empty() => return RowStep::Blank,
            Some(Ok(line)) => serde_json::from_str(line),
        };
        let number = self.lines.line();
        match line {
            Ok(object) => cells(&object, &self.requested, number)
                .map_or_else(RowStep::Invalid, |cells| RowStep::Row(TableRow { line: number, cells })),
            Err(error) => {
                let error = RowError::new(number, format!("invalid JSON: {error}"), "write one JSON object per line");
                RowStep::Invalid(error)
            }
        }
    }
}

/// Returns the requested values of an object. A missing key is an error, `null` is a value.
pub(super) fn cells(object: &Value, requested: &[ColumnRef], line: u64) -> Result<Vec<Value>, RowError> {
    requested
        .iter()
        .map(|column| {
            let value = match column {
                ColumnRef::Number(_) => {
                    return Err(RowError::new(line, "a number", "name a key of the objects")
                        .column(column.to_string())
                        .last());
                }
                ColumnRef::Name(name) => lookup(object, name),
            };
            value.cloned().ok_or_else(|| {
                let keys = object.as_object().map(|object| shown_names(object.keys().map(String::as_str)));
                let keys = keys.map_or_else(|| "is no object".to_owned(), |keys| format!("has {keys}"));
                let is_squad = ["data", "version"].iter().all(|key| object.get(key).is_some());
                let way = if is_squad { "set `squad_json = true`" } else { "name one of its keys, or correct the row" };
                let hint = format!("the row {keys}; {way}");
                RowError::new(line, "missing", hint).column(column.to_string())
            })
        })
        .collect()
}

/// Returns the value of a key, or of a dotted path if no key has this name.
fn lookup<'a>(object: &'a Value, name: &str) -> Option<&'a Value> {
    object.get(name).or_else(|| {
        let (outer, inner) = name.split_once('.')?;
        lookup(object.get(outer)?, inner)
    })
}
