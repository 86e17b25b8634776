//! Typed names of batch columns.

use std::marker::PhantomData;

use arrow_array::types::{ArrowPrimitiveType, Int16Type, Int32Type, UInt8Type};
use arrow_buffer::ArrowNativeType;
use arrow_schema::DataType;

mod sealed {
    pub trait SealedColumn {}
    impl SealedColumn for i32 {}
    impl SealedColumn for i16 {}
    impl SealedColumn for u8 {}
}

/// Element type of a batch column.
pub trait Element: sealed::SealedColumn + ArrowNativeType + Default + Send + Sync + 'static {
    /// Arrow type of the element.
    type Arrow: ArrowPrimitiveType<Native = Self>;
    /// Runtime value of the type.
    const TYPE: ElementType;
}

/// Element types as values, for plans.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ElementType {
    /// 32-bit signed.
    I32,
    /// 16-bit signed.
    I16,
    /// 8-bit unsigned.
    U8,
}

impl ElementType {
    /// Returns the bytes of one element.
    #[must_use]
    pub fn bytes(self) -> usize {
        match self {
            Self::I32 => 4,
            Self::I16 => 2,
            Self::U8 => 1,
        }
    }

    /// Returns the Arrow type of one element.
    #[must_use]
    pub fn data_type(self) -> DataType {
        match self {
            Self::I32 => DataType::Int32,
            Self::I16 => DataType::Int16,
            Self::U8 => DataType::UInt8,
        }
    }
}

impl Element for i32 {
    type Arrow = Int32Type;
    const TYPE: ElementType = ElementType::I32;
}
impl Element for i16 {
    type Arrow = Int16Type;
    const TYPE: ElementType = ElementType::I16;
}
impl Element for u8 {
    type Arrow = UInt8Type;
    const TYPE: ElementType = ElementType::U8;
}

/// Column name with its element type, so that writer and reader use the same type.
#[derive(Debug)]
pub struct Column<T> {
    name: &'static str,
    element: PhantomData<fn() -> T>,
}

impl<T> Clone for Column<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Column<T> {}

impl<T: Element> Column<T> {
    /// Names a column. Shared columns are constants in [`columns`](crate::columns).
    #[must_use]
    pub const fn new(name: &'static str) -> Self {
        Self { name, element: PhantomData }
    }

    /// Returns the name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Returns the column without its static type, for plans.
    #[must_use]
    pub const fn spec(self) -> ColumnSpec {
        ColumnSpec { name: self.name, element: T::TYPE }
    }
}

/// Column without its static type: declared by views, required by objectives, matched by the plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ColumnSpec {
    /// The name within a view.
    pub name: &'static str,
    /// The element type.
    pub element: ElementType,
}
