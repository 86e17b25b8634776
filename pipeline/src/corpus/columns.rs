//! Columns of tables in memory: their check, and the record of a row.

use std::fmt::Display;
use std::io::Write as _;
use std::mem::take;
use std::ops::Range;
use std::string::FromUtf8Error;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, PrimitiveArray, RecordBatch};
use arrow_schema::{DataType, Schema};

use super::bytes::{require_skippable, reserve};
use super::input_split::ReadOptions;
use super::inputs::InputFile;
use super::record::{Record, RecordBuffers, RejectReason};
use super::sniff::{FileCheck, Head};
use crate::Result;

/// Returns the columns that are read, each with its configuration key.
pub(super) fn names(reading: &ReadOptions) -> impl Iterator<Item = (&'static str, &str)> {
    let id = reading.id_field.as_deref().map(|name| ("prepare.id_field", name));
    [("prepare.text_field", reading.text_field.as_str())].into_iter().chain(id)
}

/// Returns the message for a file that is damaged, or not of the format of its name.
pub(super) fn damage(format: &str, reason: &dyn Display) -> String {
    format!("not a readable {format} file ({reason}); replace it")
}

/// Checks the columns of a table with `records` rows.
pub(super) fn check(schema: &Schema, records: u64, reading: &ReadOptions) -> FileCheck {
    let fields = schema.fields().iter().map(|field| field.name().clone()).collect();
    let mut head = Head { records, with_fields: records, fields, ..Head::default() };
    let mut unfit = None;
    for (key, name) in names(reading) {
        let is_id = key == "prepare.id_field";
        let reason = match schema.field_with_name(name) {
            Err(_) => {
                let columns: Vec<_> = head.fields.iter().map(|name| format!("`{name}`")).collect();
                format!("no column `{name}`; it has {}; set `{key}`", columns.join(", "))
            }
            Ok(field) if is_text(field.data_type()) || (is_id && field.data_type().is_integer()) => continue,
            // Some writers declare a column without a value so. Each row lacks the text or the id.
            Ok(field) if field.data_type().is_null() => {
                head.with_fields = 0;
                continue;
            }
            Ok(field) => {
                let wanted = if is_id { "text or whole numbers" } else { "text" };
                let reason = format!("holds {}, not {wanted}", field.data_type());
                head.unusable.insert(name.to_owned(), reason.clone());
                format!("column `{name}` {reason}; set `{key}`")
            }
        };
        head.with_fields = 0;
        unfit.get_or_insert(reason);
    }
    FileCheck { unfit, head }
}

/// Position of a row: its range, and its number within the piece.
pub(super) type RowPlace = (Range<u64>, u64);

/// Returns the record of a row of a batch with the columns of [`names`].
pub(super) fn record(
    file: &InputFile,
    batch: &RecordBatch,
    index: usize,
    (range, line): RowPlace,
    reading: &ReadOptions,
    spare: &mut RecordBuffers,
) -> Result<Record> {
    let column = |name| batch.column_by_name(name).expect("checked before the first part");
    let cell = |name, mut bytes| append(column(name), index, &mut bytes).map(|()| bytes);
    let id = reading.id_field.as_ref().map(|id| cell(id, take(&mut spare.id).into_bytes()));
    let text = cell(&reading.text_field, take(&mut spare.text));
    let (Some(text), None | Some(Some(_))) = (text, &id) else {
        return Ok(Record::rejected(RejectReason::MissingField, range, line));
    };
    let bytes = text.len() as u64;
    if !reserve(bytes, reading) {
        require_skippable(&file.path, line, bytes, reading)?;
        return Ok(Record::rejected(RejectReason::TooLong, range, line));
    }
    let mut record = Record::of_bytes(text, range, line);
    if let Some(document) = &mut record.document {
        let repaired = |id: FromUtf8Error| String::from_utf8_lossy(id.as_bytes()).into_owned();
        document.id = id.flatten().map(|id| String::from_utf8(id).unwrap_or_else(repaired));
    }
    // Complaints refer to rows: line breaks within a cell are not lines of the file.
    record.complaints.iter_mut().for_each(|(_, at)| *at = line);
    Ok(record)
}

/// Returns true for text types: strings and bytes, plain or dictionary-encoded.
fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Appends the bytes of a cell, either text or a number in digits; `None` for null.
fn append(column: &dyn Array, index: usize, bytes: &mut Vec<u8>) -> Option<()> {
    if column.is_null(index) || column.data_type().is_null() {
        return None;
    }
    match column.data_type() {
        DataType::Utf8 => bytes.extend_from_slice(column.as_string::<i32>().value(index).as_bytes()),
        DataType::LargeUtf8 => bytes.extend_from_slice(column.as_string::<i64>().value(index).as_bytes()),
        DataType::Utf8View => bytes.extend_from_slice(column.as_string_view().value(index).as_bytes()),
        DataType::Binary => bytes.extend_from_slice(column.as_binary::<i32>().value(index)),
        DataType::LargeBinary => bytes.extend_from_slice(column.as_binary::<i64>().value(index)),
        DataType::BinaryView => bytes.extend_from_slice(column.as_binary_view().value(index)),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            let key = usize::try_from(integer(dictionary.keys(), index)?).ok()?;
            append(dictionary.values(), key, bytes)?;
        }
        _ => write!(bytes, "{}", integer(column, index)?).expect("in memory"),
    }
    Some(())
}

fn integer(column: &dyn Array, index: usize) -> Option<i128> {
    macro_rules! first_of {
        ($($kind:ty),*) => {
            None$(.or_else(|| {
                let numbers = column.as_any().downcast_ref::<PrimitiveArray<$kind>>()?;
                Some(i128::from(numbers.value(index)))
            }))*
        };
    }
    first_of!(Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type)
}
