//! Conversion of cells to text.

use std::io::Write as _;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, PrimitiveArray};
use arrow_schema::DataType;

/// Returns true for text types: strings and bytes, plain or dictionary-encoded.
pub(super) fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// Appends the bytes of a cell, either text or a number in digits; `None` for null.
pub(super) fn append(column: &dyn Array, index: usize, bytes: &mut Vec<u8>) -> Option<()> {
    if column.is_null(index) {
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
