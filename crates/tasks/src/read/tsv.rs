//! Tab-separated files without quoting: the dialect of GLUE.

use serde_json::Value;

use super::lines::LineReader;
use super::table::{RowReader, RowStep, TableRow, positions, wrong_width};
use crate::RowError;
use crate::layout::{ColumnRef, WidthPolicy};

/// Reader of a tab-separated file. Quotes are characters like any other; every line is a row.
pub(super) struct TsvReader {
    lines: LineReader,
    requested: Vec<ColumnRef>,
    has_header: bool,
    policy: WidthPolicy,
    /// Columns of the first line: their number, and the positions of the requested ones.
    shape: Option<Shape>,
}

struct Shape {
    width: usize,
    positions: Vec<usize>,
}

impl TsvReader {
    pub(super) fn new(lines: LineReader, requested: Vec<ColumnRef>, has_header: bool, policy: WidthPolicy) -> Self {
        Self { lines, requested, has_header, policy, shape: None }
    }

    /// Reads the header, if the file has one. Without one, the first row defines the number of fields.
    fn read_header(&mut self) -> Result<(), RowError> {
        if self.shape.is_some() || !self.has_header {
            return Ok(());
        }
        let Some(line) = self.lines.next_line() else {
            return Err(RowError::new(0, "no header: the file is empty", "replace the file"));
        };
        let header: Vec<String> = line.map_err(RowError::last)?.split('\t').map(str::to_owned).collect();
        let positions = positions(&self.requested, &header, true)?;
        self.shape = Some(Shape { width: header.len(), positions });
        Ok(())
    }
}

impl RowReader for TsvReader {
    fn step(&mut self) -> RowStep {
        if let Err(error) = self.read_header() {
            return RowStep::Invalid(error);
        }
        let number = self.lines.line() + 1;
        let line = match self.lines.next_line() {
            None => return RowStep::End,
            Some(Err(error)) => return RowStep::Invalid(error),
            Some(Ok("")) => return RowStep::Blank,
            Some(Ok(line)) => line,
        };
        let fields: Vec<&str> = line.split('\t').collect();
        if self.shape.is_none() {
            let unnamed = vec![String::new(); fields.len()];
            match positions(&self.requested, &unnamed, false) {
                Ok(positions) => self.shape = Some(Shape { width: fields.len(), positions }),
                Err(error) => return RowStep::Invalid(error),
            }
        }
        let shape = self.shape.as_ref().expect("set above");
        if fields.len() == shape.width {
            let cells = shape.positions.iter().map(|&position| Value::from(fields[position])).collect();
            return RowStep::Row(TableRow { line: number, cells });
        }
        match self.policy {
            WidthPolicy::Drop => RowStep::Dropped,
            WidthPolicy::Refuse => RowStep::Invalid(wrong_width(number, fields.len(), shape.width)),
        }
    }
}
