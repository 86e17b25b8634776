//! Parquet files: one example per row.

use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use ::parquet::file::reader::FileReader;
use ::parquet::file::serialized_reader::SerializedFileReader;
use ::parquet::record::reader::RowIter;
use ::parquet::record::{Field, Row as FileRow};
use serde_json::{Map, Value};

use super::json_lines::cells;
use super::table::{RowReader, RowStep, TableRow};
use crate::RowError;
use crate::layout::ColumnRef;
use crate::row_error::shown_names;

/// Rows that are decoded at a time.
const BATCH_ROWS: usize = 64;

/// Reader of the rows of a Parquet file. Only the requested columns are decoded.
pub(super) struct ParquetRowReader {
    rows: RowIter<'static>,
    requested: Vec<ColumnRef>,
    row: u64,
}

impl ParquetRowReader {
    pub(super) fn open(path: &Path, requested: Vec<ColumnRef>) -> Result<Self, RowError> {
        let file = File::open(path).map_err(|error| RowError::io(0, &error))?;
        let opened = catch_unwind(AssertUnwindSafe(|| {
            let reader = SerializedFileReader::new(file).map_err(|error| damaged(0, &error.to_string()))?;
            let schema = reader.metadata().file_metadata().schema().clone();
            let names: Vec<String> = schema.get_fields().iter().map(|field| field.name().to_owned()).collect();
            let requested: Vec<ColumnRef> =
                requested.into_iter().map(|column| named(column, &names)).collect::<Result<_, _>>()?;
            let is_read = |name: &str| requested.iter().any(|column| is_in(column, name));
            let fields = schema.get_fields().iter().filter(|field| is_read(field.name())).cloned().collect();
            let projection = ::parquet::schema::types::Type::group_type_builder(schema.name()).with_fields(fields);
            let rows = projection.build().and_then(|projection| {
                Ok(RowIter::from_file_into(Box::new(reader)).project(Some(projection))?.with_batch_size(BATCH_ROWS))
            });
            Ok(Self { rows: rows.map_err(|error| damaged(0, &error.to_string()))?, requested, row: 0 })
        }));
        opened.unwrap_or_else(|_| Err(damaged(0, "panic in the decoder")))
    }
}

impl RowReader for ParquetRowReader {
    fn step(&mut self) -> RowStep {
        self.row += 1;
        let line = self.row;
        // The decoder panics on some damaged files. After an error the reader ends.
        let row = catch_unwind(AssertUnwindSafe(|| {
            let row = self.rows.next()?.map_err(|error| damaged(line, &error.to_string()));
            Some(row.and_then(|row| cells(&object(&row), &self.requested, line)))
        }));
        match row {
            Ok(None) => RowStep::End,
            Ok(Some(Ok(cells))) => RowStep::Row(TableRow { line, cells }),
            Ok(Some(Err(error))) => RowStep::Invalid(error),
            Err(_) => RowStep::Invalid(damaged(line, "panic in the decoder")),
        }
    }
}

/// Returns the name of a column. Its first part must exist.
fn named(column: ColumnRef, names: &[String]) -> Result<ColumnRef, RowError> {
    let known = || shown_names(names.iter().map(String::as_str));
    let missing = |column: &ColumnRef| {
        let hint = format!("the file has {}; name one of them", known());
        RowError::new(0, "missing", hint).column(column.to_string())
    };
    match &column {
        ColumnRef::Number(number) => names.get(*number).cloned().map(ColumnRef::Name).ok_or_else(|| missing(&column)),
        ColumnRef::Name(_) if names.iter().any(|name| is_in(&column, name)) => Ok(column),
        ColumnRef::Name(_) => Err(missing(&column)),
    }
}

/// Returns whether the column `root` of the file contains a value: a name with dots leads into structs.
fn is_in(column: &ColumnRef, root: &str) -> bool {
    match column {
        ColumnRef::Number(_) => false,
        ColumnRef::Name(name) => name == root || name.split_once('.').is_some_and(|(outer, _)| outer == root),
    }
}

fn damaged(line: u64, error: &str) -> RowError {
    RowError::new(line, format!("not a readable Parquet file ({error})"), "replace the file").last()
}

fn object(row: &FileRow) -> Value {
    Value::Object(row.get_column_iter().map(|(name, field)| (name.clone(), value(field))).collect::<Map<_, _>>())
}

/// Converts a value. Types that no example has, such as dates, become `null`.
fn value(field: &Field) -> Value {
    match field {
        Field::Bool(it) => Value::from(*it),
        Field::Byte(it) => Value::from(*it),
        Field::Short(it) => Value::from(*it),
        Field::Int(it) => Value::from(*it),
        Field::Long(it) => Value::from(*it),
        Field::UByte(it) => Value::from(*it),
        Field::UShort(it) => Value::from(*it),
        Field::UInt(it) => Value::from(*it),
        Field::ULong(it) => Value::from(*it),
        Field::Float16(it) => Value::from(f32::from(*it)),
        Field::Float(it) => number(f64::from(*it)),
        Field::Double(it) => number(*it),
        Field::Str(it) => Value::from(it.as_str()),
        Field::Bytes(it) => it.as_utf8().map_or(Value::Null, Value::from),
        Field::Group(row) => object(row),
        Field::ListInternal(list) => Value::from(list.elements().iter().map(value).collect::<Vec<_>>()),
        _ => Value::Null,
    }
}

/// Converts a float. JSON has no infinities, so they become text, which is refused as a score by name.
fn number(it: f64) -> Value {
    if it.is_finite() { Value::from(it) } else { Value::from(it.to_string()) }
}
