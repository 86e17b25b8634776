//! Hash of all rows that a run has trained on: digests of rows, chained step by step.
//!
//! # What
//! [`Batch::row_digests`](crate::Batch::row_digests) has a digest for every row, and [`StreamHash`] chains them.
//!
//! # Why
//! Two runs with equal hashes trained on the same rows in the same order. The hash does not depend on the micro-batch
//! size, the number of workers or the number of ranks: these change no row.
//!
//! # Definition
//! Let `header = BLAKE3(for every column but attention masks: bytes of the name (u64), name, width (u64), bytes of an
//! element (u64))`, all integers little endian. The digest of a row is BLAKE3, keyed with the header. Its input is the
//! row's values column by column. Then follow, for every attention mask that is not all ones, the bytes of its name
//! (u64), the name and the row's values. A mask of ones counts as no mask: a batch omits the column if all of its rows
//! are full, and a row's digest must not depend on its neighbours.
//!
//! The hash begins as BLAKE3 of nothing; a step updates it to `h ← BLAKE3(h ‖ BLAKE3(d_1 ‖ … ‖ d_R))`, where `d_i` are
//! the digests of the step's rows in the stream's order.

use std::fmt;

use arrow_array::{Array, FixedSizeListArray, RecordBatch};
use arrow_buffer::Buffer;

use crate::columns::ATTENTION_MASK;

/// Running hash of a stream of rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamHash(blake3::Hash);

/// Error for text that is not a [`StreamHash`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a batch hash: expected 64 hexadecimal digits")]
pub struct InvalidHash(String);

impl Default for StreamHash {
    fn default() -> Self {
        Self::new()
    }
}

impl StreamHash {
    /// Returns the hash before the first step.
    #[must_use]
    pub fn new() -> Self {
        Self(blake3::hash(b""))
    }

    /// Adds a step: the digests of its rows in the stream's order.
    pub fn step(&mut self, rows: impl IntoIterator<Item = blake3::Hash>) {
        let mut step = blake3::Hasher::new();
        for digest in rows {
            step.update(digest.as_bytes());
        }
        let mut chained = blake3::Hasher::new();
        chained.update(self.0.as_bytes()).update(step.finalize().as_bytes());
        self.0 = chained.finalize();
    }

    /// Parses the output of [`to_hex`](Self::to_hex).
    ///
    /// # Errors
    /// If the text is not 64 hexadecimal digits.
    pub fn parse(text: &str) -> Result<Self, InvalidHash> {
        blake3::Hash::from_hex(text).map(Self).map_err(|_| InvalidHash(text.to_owned()))
    }

    /// Returns the hash in hexadecimal digits.
    #[must_use]
    pub fn to_hex(self) -> String {
        self.0.to_hex().to_string()
    }
}

impl fmt::Display for StreamHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Bytes of one column.
struct Bytes<'a> {
    name: &'a str,
    /// Bytes of one row.
    row: usize,
    start: usize,
    buffer: Buffer,
}

impl<'a> Bytes<'a> {
    fn new(name: &'a str, array: &dyn Array, header: &mut Vec<u8>) -> Self {
        let list = array.as_any().downcast_ref::<FixedSizeListArray>().expect("a batch holds fixed-size lists");
        let width = usize::try_from(list.value_length()).expect("widths are positive");
        let values = list.values().to_data();
        let size = values.data_type().primitive_width().expect("a batch holds primitives");
        if !is_mask(name) {
            push_name(header, name);
            header.extend_from_slice(&(width as u64).to_le_bytes());
            header.extend_from_slice(&(size as u64).to_le_bytes());
        }
        let start = (values.offset() + list.offset() * width) * size;
        Self { name, row: width * size, start, buffer: values.buffers()[0].clone() }
    }

    fn row(&self, row: usize) -> &[u8] {
        let start = self.start + row * self.row;
        &self.buffer.as_slice()[start..start + self.row]
    }
}

fn push_name(bytes: &mut Vec<u8>, name: &str) {
    bytes.extend_from_slice(&(name.len() as u64).to_le_bytes());
    bytes.extend_from_slice(name.as_bytes());
}

/// Returns true if a column, named `view.column`, is an attention mask.
fn is_mask(name: &str) -> bool {
    name.rsplit_once('.').is_some_and(|(_, column)| column == ATTENTION_MASK.name())
}

/// Returns the digests of the rows of a batch, in order.
pub(crate) fn row_digests(record: &RecordBatch) -> Vec<blake3::Hash> {
    let mut header = Vec::new();
    let columns = record.schema_ref().fields().iter().zip(record.columns());
    let columns = columns.map(|(field, array)| Bytes::new(field.name(), array.as_ref(), &mut header));
    let (masks, columns): (Vec<Bytes<'_>>, Vec<Bytes<'_>>) = columns.partition(|column| is_mask(column.name));
    let key = blake3::hash(&header);
    let mut bytes = Vec::new();
    // One call per row: BLAKE3 hashes the 1 KiB chunks of one input in parallel.
    let digest = |row| {
        bytes.clear();
        for column in &columns {
            bytes.extend_from_slice(column.row(row));
        }
        for mask in &masks {
            let values = mask.row(row);
            if values.iter().any(|&value| value != 1) {
                push_name(&mut bytes, mask.name);
                bytes.extend_from_slice(values);
            }
        }
        blake3::keyed_hash(key.as_bytes(), &bytes)
    };
    (0..record.num_rows()).map(digest).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::columns::{INPUT_IDS, LABELS, POSITIVES};
    use crate::{Batch, BatchBuilder, BatchIndex};

    const WIDTH: usize = 3;

    /// Stream of distinct rows; every third is not full.
    fn rows(rows: std::ops::Range<usize>) -> Batch {
        let mut batch = BatchBuilder::new(BatchIndex(rows.start as u64), rows.len());
        let cells = || rows.clone().flat_map(|row| (0..WIDTH).map(move |at| (row, at)));
        let number = |row: usize, at: usize| i32::try_from(row * 10 + at).expect("small");
        batch.push("masked", INPUT_IDS, WIDTH, cells().map(|(row, at)| number(row, at)).collect());
        let real = |row: usize, at: usize| u8::from(row % 3 != 2 || at < 2);
        let mask: Vec<u8> = cells().map(|(row, at)| real(row, at)).collect();
        // As the loader does.
        if mask.contains(&0) {
            batch.push("masked", ATTENTION_MASK, WIDTH, mask);
        }
        batch.push("masked", LABELS, WIDTH, cells().map(|(row, at)| -number(row, at)).collect());
        batch.finish()
    }

    /// Returns the hash of `steps` steps of `per_step` rows, each cut into micro-batches after `cuts`.
    fn hashed(steps: usize, per_step: usize, cuts: &[usize]) -> StreamHash {
        let mut hash = StreamHash::new();
        for step in 0..steps {
            let mut borders: Vec<usize> = cuts.iter().copied().filter(|&cut| cut < per_step).collect();
            borders.extend([0, per_step]);
            borders.sort_unstable();
            let micro_batches = borders.windows(2).map(|cut| rows(step * per_step + cut[0]..step * per_step + cut[1]));
            hash.step(micro_batches.flat_map(|batch| batch.row_digests().to_vec()));
        }
        hash
    }

    proptest! {
        #[test]
        fn the_hash_is_the_same_for_any_cut_into_micro_batches(
            steps in 1_usize..4, per_step in 1_usize..20, cuts in prop::collection::vec(1_usize..20, 0..6),
        ) {
            prop_assert_eq!(hashed(steps, per_step, &cuts), hashed(steps, per_step, &[]));
        }
    }

    #[test]
    fn hash_depends_on_order_and_steps() {
        let digests = rows(0..6).row_digests().to_vec();
        let of = |steps: &[&[usize]]| {
            let mut hash = StreamHash::new();
            for rows in steps {
                hash.step(rows.iter().map(|&row| digests[row]));
            }
            hash
        };
        let all = [of(&[]), of(&[&[]]), of(&[&[0, 1]]), of(&[&[1, 0]]), of(&[&[0], &[1]]), of(&[&[0, 1], &[2]])];
        for (at, hash) in all.iter().enumerate() {
            assert!(all[at + 1..].iter().all(|other| other != hash), "{at}");
        }
    }

    #[test]
    fn a_row_is_its_columns_names_widths_and_values() {
        let one = |view: &str, width: usize, ids: Vec<i32>, mask: Vec<u8>| {
            let mut batch = BatchBuilder::new(BatchIndex(0), 1);
            batch.push(view, INPUT_IDS, width, ids);
            if !mask.is_empty() {
                batch.push(view, ATTENTION_MASK, width, mask);
            }
            batch.finish().row_digests()[0]
        };
        let plain = one("a", 2, vec![1, 2], vec![]);
        assert_eq!(plain, one("a", 2, vec![1, 2], vec![1, 1]), "a mask of ones is as good as none");
        let others = [
            one("b", 2, vec![1, 2], vec![]),
            one("a", 1, vec![1], vec![]),
            one("a", 2, vec![2, 1], vec![]),
            one("a", 2, vec![1, 2], vec![1, 0]),
            one("a", 2, vec![1, 2], vec![0, 1]),
        ];
        for (at, other) in others.iter().enumerate() {
            assert!(*other != plain && !others[at + 1..].contains(other), "{at}");
        }
        let typed = |batch: BatchBuilder| batch.finish().row_digests()[0];
        let mut wide = BatchBuilder::new(BatchIndex(0), 1);
        let mut narrow = BatchBuilder::new(BatchIndex(0), 1);
        wide.push("a", INPUT_IDS, 1, vec![5]);
        narrow.push("a", POSITIVES, 2, vec![5, 0]);
        assert_ne!(typed(wide), typed(narrow), "the same bytes under another name");
    }

    #[test]
    fn digests_are_independent_of_slicing() {
        let batch = rows(0..7);
        let cold = batch.slice(2, 3);
        let all = batch.row_digests().to_vec();
        let warm = batch.slice(2, 3);
        assert_eq!(cold.row_digests(), &all[2..5]);
        assert_eq!(warm.row_digests(), &all[2..5]);
        assert_eq!(rows(2..5).row_digests(), &all[2..5]);
    }

    #[test]
    fn a_hash_reads_back_and_nothing_else_does() {
        let hash = hashed(2, 4, &[]);
        assert_eq!(StreamHash::parse(&hash.to_hex()), Ok(hash));
        let error = StreamHash::parse("abc").expect_err("too short").to_string();
        assert_eq!(error, "`abc` is not a batch hash: expected 64 hexadecimal digits");
        // Format: this hash may never change.
        assert_eq!(hash.to_hex(), "ad561b51e0effad91790f2288012dd11f06902db0e39e6e10b2612dff2956e74");
    }
}
