//! Cells as text.

use arrow_array::cast::AsArray;
use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, PrimitiveArray};
use arrow_schema::DataType;

/// Whether cells of that type are text: strings and bytes, by themselves or in a dictionary.
pub(super) fn is_text(data_type: &DataType) -> bool {
    use DataType::{Binary, BinaryView, Dictionary, LargeBinary, LargeUtf8, Utf8, Utf8View};
    match data_type {
        Utf8 | LargeUtf8 | Utf8View | Binary | LargeBinary | BinaryView => true,
        Dictionary(_, values) => is_text(values),
        _ => false,
    }
}

/// A cell as the bytes of a text, or of a number; `None` for null.
pub(super) fn bytes(column: &dyn Array, index: usize) -> Option<Vec<u8>> {
    if column.is_null(index) {
        return None;
    }
    match column.data_type() {
        DataType::Utf8 => Some(column.as_string::<i32>().value(index).as_bytes().to_vec()),
        DataType::LargeUtf8 => Some(column.as_string::<i64>().value(index).as_bytes().to_vec()),
        DataType::Utf8View => Some(column.as_string_view().value(index).as_bytes().to_vec()),
        DataType::Binary => Some(column.as_binary::<i32>().value(index).to_vec()),
        DataType::LargeBinary => Some(column.as_binary::<i64>().value(index).to_vec()),
        DataType::BinaryView => Some(column.as_binary_view().value(index).to_vec()),
        DataType::Dictionary(..) => {
            let dictionary = column.as_any_dictionary();
            bytes(dictionary.values(), key(dictionary.keys(), index)?)
        }
        _ => integer(column, index).map(String::into_bytes),
    }
}

fn key(keys: &dyn Array, index: usize) -> Option<usize> {
    integer(keys, index)?.parse().ok()
}

fn integer(column: &dyn Array, index: usize) -> Option<String> {
    macro_rules! first_of {
        ($($kind:ty),*) => {
            None$(.or_else(|| {
                let numbers = column.as_any().downcast_ref::<PrimitiveArray<$kind>>()?;
                Some(numbers.value(index).to_string())
            }))*
        };
    }
    first_of!(Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type)
}
