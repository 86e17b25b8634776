//! One row of one view, written directly into the batch's buffers.

use std::any::Any;
use std::ops::Range;

use schemas::columns::{DOCUMENT, ORIGIN};
use schemas::manifest::Frame;
use schemas::{BatchBuilder, Column, ColumnSpec, Element, ElementType, Sample, Vocab};

/// Column of a batch under construction: `rows × width` values.
#[derive(Clone, Debug)]
pub(crate) struct Values {
    spec: ColumnSpec,
    buffer: Buffer,
}

#[derive(Clone, Debug)]
enum Buffer {
    I32(Vec<i32>),
    I16(Vec<i16>),
    U8(Vec<u8>),
}

impl Values {
    /// Creates an empty column with capacity for `count` values.
    #[must_use]
    pub(crate) fn with_room(spec: ColumnSpec, count: usize) -> Self {
        let buffer = match spec.element {
            ElementType::I32 => Buffer::I32(Vec::with_capacity(count)),
            ElementType::I16 => Buffer::I16(Vec::with_capacity(count)),
            ElementType::U8 => Buffer::U8(Vec::with_capacity(count)),
        };
        Self { spec, buffer }
    }

    /// Extends the column to `count` values with zeros, if it is shorter.
    pub(crate) fn grow(&mut self, count: usize) {
        match &mut self.buffer {
            Buffer::I32(values) => values.resize(count.max(values.len()), 0),
            Buffer::I16(values) => values.resize(count.max(values.len()), 0),
            Buffer::U8(values) => values.resize(count.max(values.len()), 0),
        }
    }

    /// Specification of the column.
    #[must_use]
    pub(crate) fn spec(&self) -> ColumnSpec {
        self.spec
    }

    /// Sets these cells to zero if they can contain values.
    pub(crate) fn clear(&mut self, cells: Range<usize>) {
        match &mut self.buffer {
            Buffer::I32(values) => values[cells].fill(0),
            Buffer::I16(values) => values[cells].fill(0),
            Buffer::U8(values) => values[cells].fill(0),
        }
    }

    /// Returns the values, if they are those of `column`.
    pub(crate) fn get<T: Element>(&mut self, column: Column<T>) -> Option<&mut [T]> {
        if self.spec != column.spec() {
            return None;
        }
        let buffer: &mut dyn Any = match &mut self.buffer {
            Buffer::I32(values) => values,
            Buffer::I16(values) => values,
            Buffer::U8(values) => values,
        };
        buffer.downcast_mut::<Vec<T>>().map(Vec::as_mut_slice)
    }

    /// Moves the values into `batch`.
    pub(crate) fn push(self, batch: &mut BatchBuilder, view: &str, width: usize) {
        let name = self.spec.name;
        match self.buffer {
            Buffer::I32(values) => batch.push(view, Column::new(name), width, values),
            Buffer::I16(values) => batch.push(view, Column::new(name), width, values),
            Buffer::U8(values) => batch.push(view, Column::new(name), width, values),
        }
    }
}

/// Finished row that an edit starts from.
#[derive(Clone, Copy, Debug)]
pub struct Row<'a> {
    /// Ids, including padding.
    pub input_ids: &'a [i32],
    /// Number of real tokens, including special ones. The rest is padding.
    pub tokens: usize,
}

/// Columns of a row in addition to its ids. Columns that are not read do not exist.
#[derive(Debug)]
pub struct Cells<'a> {
    pub(crate) columns: &'a mut [Values],
    pub(crate) row: usize,
    pub(crate) width: usize,
}

impl Cells<'_> {
    /// Returns this row of `column`, or `None` if the column is not read.
    pub fn get<T: Element>(&mut self, column: Column<T>) -> Option<&mut [T]> {
        let cells = self.row * self.width..(self.row + 1) * self.width;
        self.columns.iter_mut().find_map(|values| values.get(column)).map(|values| &mut values[cells])
    }
}

/// Row that is being rendered.
#[derive(Debug)]
pub struct RowMut<'a> {
    /// Destination of the ids. For an edit that declares `INPUT_IDS`, it contains the ids of the edited view. For other
    /// edits it is empty.
    pub input_ids: &'a mut [i32],
    /// Number of real tokens. For an edit, initialized with that of the edited view.
    pub tokens: usize,
    /// Other columns.
    pub cells: Cells<'a>,
}

impl RowMut<'_> {
    /// Writes the plain frame: `[CLS]`, the content, `[SEP]`, padding; with origin and document if they are read. A
    /// sample that already contains these tokens is only padded. Returns the range of the content, which can be empty.
    ///
    /// # Panics
    /// If the content does not fit.
    pub fn frame(&mut self, sample: &Sample<'_>, vocab: &Vocab) -> Range<usize> {
        let special = vocab.special();
        match sample.frame {
            Frame::ClsSep => self.enclose(&[special.cls], sample, &[special.sep], vocab),
            Frame::None => self.enclose(&[], sample, &[], vocab),
        }
    }

    /// Writes `before`, the content, `after` and padding; with origin and document if they are read. Returns the range
    /// of the content.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn enclose(&mut self, before: &[u32], sample: &Sample<'_>, after: &[u32], vocab: &Vocab) -> Range<usize> {
        let content = before.len()..before.len() + sample.input_ids.len();
        self.tokens = content.end + after.len();
        let (ids, padding) = self.input_ids.split_at_mut(self.tokens);
        padding.fill(vocab.special().pad.cast_signed());
        let (ids, last) = ids.split_at_mut(content.end);
        let (first, ids) = ids.split_at_mut(content.start);
        for (slot, &id) in first.iter_mut().zip(before).chain(last.iter_mut().zip(after)) {
            *slot = id.cast_signed();
        }
        sample.input_ids.copy_into(ids);
        if let Some(origin) = self.cells.get(ORIGIN) {
            origin.fill(-1);
            let first = i16::try_from(sample.offset).unwrap_or(i16::MAX);
            for (slot, index) in origin[content.clone()].iter_mut().zip(first..) {
                *slot = index;
            }
        }
        if let Some(document) = self.cells.get(DOCUMENT) {
            document.fill(-1);
            write_documents(sample, &mut document[content.clone()]);
        }
        content
    }
}

/// Writes the low 31 bits of each token's document, run by run.
pub(crate) fn write_documents(sample: &Sample<'_>, target: &mut [i32]) {
    let mut begin = 0;
    while begin < target.len() {
        let stored = usize::from(sample.offset) + begin;
        let next = sample.document_starts.partition_point(|&start| usize::from(start) <= stored);
        let end = sample
            .document_starts
            .get(next)
            .map_or(target.len(), |&start| (usize::from(start) - usize::from(sample.offset)).min(target.len()));
        let name = u32::try_from(sample.document(begin) & 0x7FFF_FFFF).expect("31 bits");
        target[begin..end].fill(name.cast_signed());
        begin = end;
    }
}
