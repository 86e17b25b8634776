//! Cells as text.

use arrow_array::types::{Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{Array, ArrayRef, LargeStringArray, PrimitiveArray, StringArray, StringViewArray};
use arrow_schema::DataType;

pub(super) fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

/// A cell as text; `None` for null.
pub(super) fn integer_or_text(column: &ArrayRef, index: usize) -> Option<String> {
    if column.is_null(index) {
        return None;
    }
    let any = column.as_any();
    any.downcast_ref::<StringArray>()
        .map(|texts| texts.value(index))
        .or_else(|| any.downcast_ref::<LargeStringArray>().map(|texts| texts.value(index)))
        .or_else(|| any.downcast_ref::<StringViewArray>().map(|texts| texts.value(index)))
        .map(str::to_owned)
        .or_else(|| integer(column, index))
}

fn integer(column: &ArrayRef, index: usize) -> Option<String> {
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
