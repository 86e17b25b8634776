//! Micro-batch: the data type that loader and trainer share.

use std::sync::{Arc, OnceLock};

use arrow_array::{Array, ArrayRef, FixedSizeListArray, PrimitiveArray, RecordBatch, RecordBatchOptions};
use arrow_buffer::ScalarBuffer;
use arrow_schema::extension::FixedShapeTensor;
use arrow_schema::{DataType, Field, Schema};

use crate::column::{Column, Element};
use crate::ordinal::{BatchIndex, RowIndex};
use crate::stream_hash;

/// Error of a reader of a batch. A checked plan excludes these errors in a run.
#[derive(Debug, thiserror::Error)]
pub enum BatchError {
    /// The column is missing.
    #[error("batch {index} has no column `{name}`; it has {known}")]
    Missing {
        /// Number of the batch.
        index: BatchIndex,
        /// `view.column`.
        name: String,
        /// Existing columns.
        known: String,
    },
    /// The element type differs from the reader's.
    #[error("column `{name}` of batch {index} does not hold {expected}")]
    Type {
        /// Number of the batch.
        index: BatchIndex,
        /// `view.column`.
        name: String,
        /// Element type of the reader.
        expected: String,
    },
}

/// One micro-batch: an Arrow record batch of fixed-shape-tensor columns named `view.column`, each `rows × width`.
///
/// A batch is a pure function of its rows (and of the plan): see `pipeline::load`.
#[derive(Clone, Debug)]
pub struct Batch {
    index: BatchIndex,
    first_row: RowIndex,
    record: RecordBatch,
    digests: OnceLock<Vec<blake3::Hash>>,
}

impl Batch {
    /// Returns the number in the stream: micro-batches of all ranks before it.
    #[must_use]
    pub fn index(&self) -> BatchIndex {
        self.index
    }

    /// Returns the stream's number of the first row; the others follow it.
    #[must_use]
    pub fn first_row(&self) -> RowIndex {
        self.first_row
    }

    /// Returns the batch with its rows numbered from `first_row` on.
    #[must_use]
    pub fn starting_at(self, first_row: RowIndex) -> Self {
        Self { first_row, ..self }
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.record.num_rows()
    }

    /// Returns the columns as an Arrow record batch, for writing to a file or another process.
    #[must_use]
    pub fn record(&self) -> &RecordBatch {
        &self.record
    }

    /// Returns rows `start .. start + rows` without copying.
    #[must_use]
    pub fn slice(&self, start: usize, rows: usize) -> Self {
        let digests = self.digests.get().map(|digests| OnceLock::from(digests[start..start + rows].to_vec()));
        Self {
            index: self.index,
            first_row: RowIndex(self.first_row.0 + start as u64),
            record: self.record.slice(start, rows),
            digests: digests.unwrap_or_default(),
        }
    }

    /// Returns the first `width` values of each row of every column.
    ///
    /// # Panics
    /// If a column is narrower.
    #[must_use]
    pub fn narrowed(&self, width: usize) -> Self {
        let mut narrow = BatchBuilder::new(self.index, self.rows());
        for (field, array) in self.record.schema_ref().fields().iter().zip(self.record.columns()) {
            let list = array.as_any().downcast_ref::<FixedSizeListArray>().expect("columns are lists of equal length");
            match list.value_type() {
                DataType::Int32 => narrow.push_start::<i32>(field.name(), list, width),
                DataType::Int16 => narrow.push_start::<i16>(field.name(), list, width),
                DataType::UInt8 => narrow.push_start::<u8>(field.name(), list, width),
                other => unreachable!("no column of a batch holds {other}"),
            }
        }
        narrow.finish().starting_at(self.first_row)
    }

    /// Returns the values of one column of one view.
    pub fn column<T: Element>(&self, view: &str, column: Column<T>) -> Result<Grid<'_, T>, BatchError> {
        self.find(view, column)?.ok_or_else(|| BatchError::Missing {
            index: self.index,
            name: format!("{view}.{}", column.name()),
            known: self.names().collect::<Vec<_>>().join(", "),
        })
    }

    /// Returns a column that a batch may omit, like the attention mask of full rows.
    pub fn find<T: Element>(&self, view: &str, column: Column<T>) -> Result<Option<Grid<'_, T>>, BatchError> {
        let name = format!("{view}.{}", column.name());
        let Some(array) = self.record.column_by_name(&name) else { return Ok(None) };
        let wrong =
            || BatchError::Type { index: self.index, name: name.clone(), expected: T::TYPE.data_type().to_string() };
        let list = array.as_any().downcast_ref::<FixedSizeListArray>().ok_or_else(wrong)?;
        Grid::new(list).ok_or_else(wrong).map(Some)
    }

    /// Returns the `view.column` names in the order of their insertion.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.record.schema_ref().fields().iter().map(|field| field.name().as_str())
    }

    /// Returns one digest per row: equal rows have equal digests, on any machine and in any batch. See [`stream_hash`].
    ///
    /// Computed on the first call and cached. A call in a worker therefore saves time in the thread that reads the
    /// batch.
    #[must_use]
    pub fn row_digests(&self) -> &[blake3::Hash] {
        self.digests.get_or_init(|| stream_hash::row_digests(&self.record))
    }

    /// Returns the bytes of all columns.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.record.get_array_memory_size()
    }
}

/// A borrowed column: `rows × width` values in row-major order.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a, T> {
    values: &'a [T],
    width: usize,
}

impl<'a, T: Element> Grid<'a, T> {
    /// Returns the values of a column; `None` if it holds another type.
    fn new(list: &'a FixedSizeListArray) -> Option<Self> {
        let width = usize::try_from(list.value_length()).ok()?;
        let values = list.values().as_any().downcast_ref::<PrimitiveArray<T::Arrow>>()?;
        let start = list.value_offset_at(0);
        Some(Self { values: &values.values()[start..start + list.len() * width], width })
    }
}

impl<'a, T> Grid<'a, T> {
    /// Returns all values.
    #[must_use]
    pub fn values(&self) -> &'a [T] {
        self.values
    }

    /// Returns the number of columns.
    #[must_use]
    pub fn width(&self) -> usize {
        self.width
    }

    /// Returns the number of rows.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.values.len() / self.width
    }

    /// Returns one row.
    #[must_use]
    pub fn row(&self, row: usize) -> &'a [T] {
        &self.values[row * self.width..(row + 1) * self.width]
    }
}

/// Collects columns into a [`Batch`]. A column's buffer moves into the batch; nothing is copied.
#[derive(Debug)]
pub struct BatchBuilder {
    index: BatchIndex,
    rows: usize,
    fields: Vec<Field>,
    arrays: Vec<ArrayRef>,
}

impl BatchBuilder {
    /// Creates a builder of a batch of `rows` rows.
    #[must_use]
    pub fn new(index: BatchIndex, rows: usize) -> Self {
        Self { index, rows, fields: Vec::new(), arrays: Vec::new() }
    }

    /// Adds `rows × width` values under `view.column`.
    ///
    /// # Panics
    /// If the shape does not fit.
    pub fn push<T: Element>(&mut self, view: &str, column: Column<T>, width: usize, values: Vec<T>) {
        self.push_named(format!("{view}.{}", column.name()), width, values);
    }

    /// Adds the first `width` values of each row of a column.
    fn push_start<T: Element>(&mut self, name: &str, list: &FixedSizeListArray, width: usize) {
        let grid = Grid::<T>::new(list).expect("the type was checked");
        let values = (0..grid.rows()).flat_map(|row| &grid.row(row)[..width]).copied().collect();
        self.push_named(name.to_owned(), width, values);
    }

    fn push_named<T: Element>(&mut self, name: String, width: usize, values: Vec<T>) {
        assert_eq!(values.len(), self.rows * width, "column `{name}` has another shape");
        let item = Arc::new(Field::new("item", T::TYPE.data_type(), false));
        let list_width = i32::try_from(width).expect("rows are narrower than 2^31");
        let values = PrimitiveArray::<T::Arrow>::new(ScalarBuffer::from(values), None);
        let array = FixedSizeListArray::new(Arc::clone(&item), list_width, Arc::new(values), None);
        let tensor =
            FixedShapeTensor::try_new(T::TYPE.data_type(), [width], None, None).expect("one axis, no permutation");
        self.fields.push(Field::new_fixed_size_list(name, item, list_width, false).with_extension_type(tensor));
        self.arrays.push(Arc::new(array));
    }

    /// Returns the finished batch.
    ///
    /// # Panics
    /// If two columns have one name.
    #[must_use]
    pub fn finish(self) -> Batch {
        let mut seen = std::collections::BTreeSet::new();
        for field in &self.fields {
            assert!(seen.insert(field.name().clone()), "column `{}` was made twice", field.name());
        }
        let schema = Arc::new(Schema::new(self.fields));
        let options = RecordBatchOptions::new().with_row_count(Some(self.rows));
        let record =
            RecordBatch::try_new_with_options(schema, self.arrays, &options).expect("shapes were checked by push");
        // First row in a stream of such batches; [`Batch::starting_at`] overrides it.
        let first_row = RowIndex(self.index.0 * self.rows as u64);
        Batch { index: self.index, first_row, record, digests: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::columns::{ATTENTION_MASK, INPUT_IDS, LABELS};

    fn batch() -> Batch {
        let mut builder = BatchBuilder::new(BatchIndex(7), 3);
        builder.push("masked", INPUT_IDS, 2, vec![1, 2, 3, 4, 5, 6]);
        builder.push("masked", ATTENTION_MASK, 2, vec![1, 1, 1, 1, 1, 0]);
        builder.finish()
    }

    #[test]
    fn columns_come_back_as_they_went_in() {
        let batch = batch();
        let ids = batch.column("masked", INPUT_IDS).expect("it was pushed");
        assert_eq!((ids.rows(), ids.width(), ids.row(1)), (3, 2, &[3, 4][..]));
        assert!(batch.find("masked", LABELS).expect("no type clash").is_none());
        let error = batch.column("masked", LABELS).expect_err("there is none").to_string();
        assert_eq!(error, "batch 7 has no column `masked.labels`; it has masked.input_ids, masked.attention_mask");
        assert!(batch.column("masked", Column::<i32>::new("attention_mask")).is_err());
    }

    #[test]
    fn a_narrowed_batch_has_the_starts_of_its_rows() {
        let narrow = batch().slice(1, 2).narrowed(1);
        assert_eq!(narrow.column("masked", INPUT_IDS).expect("still there").values(), [3, 5]);
        assert_eq!(narrow.column("masked", ATTENTION_MASK).expect("still there").values(), [1, 1]);
        assert_eq!((narrow.index(), narrow.first_row()), (BatchIndex(7), RowIndex(22)));
    }

    #[test]
    fn a_slice_is_rows() {
        let tail = batch().slice(1, 2);
        assert_eq!(tail.column("masked", INPUT_IDS).expect("still there").values(), [3, 4, 5, 6]);
        assert_eq!(tail.column("masked", ATTENTION_MASK).expect("still there").values(), [1, 1, 1, 0]);
        assert_eq!((batch().first_row(), tail.first_row()), (RowIndex(21), RowIndex(22)));
    }
}
