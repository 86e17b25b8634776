//! Objects of JSON lines, compressed with zstd: written and read one line at a time.

use std::io::{self, BufRead as _, BufReader, Read, Write as _};
use std::marker::PhantomData;

use schemas::manifest::FileEntry;
use serde::Serialize;
use serde::de::DeserializeOwned;
use store::{ObjectWriter, Store};

use super::listing::replaceable;
use super::part_objects;
use crate::shard::writer::Hashing;
use crate::{Error, Result};

/// Suffix of the names.
pub(super) const SUFFIX: &str = part_objects::LINES;

/// Compression level. The lines are similar, so a higher one gains little.
const LEVEL: i32 = 1;

/// Bytes that are read at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Writer of an object.
pub(super) struct LinesWriter {
    name: String,
    encoder: zstd::Encoder<'static, Hashing>,
    line: Vec<u8>,
}

impl LinesWriter {
    /// Begins an object.
    pub(super) fn begin(store: &Store, name: String) -> Result<Self> {
        let object = Hashing { put: store.writer(&name)?, hasher: blake3::Hasher::new() };
        Ok(Self { name, encoder: zstd::Encoder::new(object, LEVEL)?, line: Vec::new() })
    }

    /// Adds a line.
    pub(super) fn push(&mut self, line: &impl Serialize) -> Result<()> {
        self.line.clear();
        serde_json::to_writer(&mut self.line, line).expect("plain values, in memory");
        self.line.push(b'\n');
        Ok(self.encoder.write_all(&self.line)?)
    }

    /// Completes the object. The caller commits it.
    pub(super) fn finish(self) -> Result<(FileEntry, ObjectWriter)> {
        let object = self.encoder.finish()?;
        let blake3 = object.hasher.finalize().to_hex().to_string();
        Ok((FileEntry { path: self.name, blake3 }, object.put))
    }
}

/// Whether an object is there as it was written.
pub(super) fn is_intact(store: &Store, name: &str, blake3: &str) -> Result<bool> {
    let Some(found) = replaceable(store.head(name))? else { return Ok(false) };
    Ok(store.hash(name, found.bytes)?.to_hex().as_str() == blake3)
}

/// Maximum length of a line that is decoded.
const MAX_LINE_BYTES: u64 = 1 << 20;

/// Reader of an object.
pub(super) struct LinesReader<T> {
    place: String,
    lines: BufReader<zstd::Decoder<'static, BufReader<ObjectReader>>>,
    line: Vec<u8>,
    of: PhantomData<T>,
}

impl<T> LinesReader<T> {
    /// Opens an object.
    pub(super) fn open(store: &Store, name: &str) -> Result<Self> {
        let bytes = store.head(name)?.map_or(0, |found| found.bytes);
        let object = ObjectReader { store: store.clone(), name: name.to_owned(), next: 0, bytes };
        let decoder = zstd::Decoder::with_buffer(BufReader::with_capacity(PIECE_BYTES, object))?;
        Ok(Self { place: store.place(name), lines: BufReader::new(decoder), line: Vec::new(), of: PhantomData })
    }

    /// Skips the next line, of any length. Returns false at the end.
    pub(super) fn skip(&mut self) -> Result<bool> {
        Ok(self.lines.skip_until(b'\n').map_err(|error| self.failed(error))? > 0)
    }

    /// Returns the error of the store, or that of damaged bytes.
    fn failed(&self, error: io::Error) -> Error {
        match error.downcast::<StoreError>() {
            Ok(StoreError(error)) => error.into(),
            Err(error) => self.damaged(&error),
        }
    }

    fn damaged(&self, error: &dyn std::fmt::Display) -> Error {
        let message = format!("damaged: {error}; run `cloze verify --repair`");
        Error::Shard { place: self.place.clone(), group: None, message }
    }
}

impl<T: DeserializeOwned> LinesReader<T> {
    /// Reads the next line. Returns `None` at the end.
    pub(super) fn read(&mut self) -> Result<Option<T>> {
        self.line.clear();
        let read = self.lines.by_ref().take(MAX_LINE_BYTES).read_until(b'\n', &mut self.line);
        if read.map_err(|error| self.failed(error))? == 0 {
            return Ok(None);
        }
        if self.line.last() != Some(&b'\n') {
            return Err(self.damaged(&"a line is too long or cut short"));
        }
        serde_json::from_slice(&self.line).map(Some).map_err(|error| self.damaged(&error))
    }
}

/// Error of the store, as opposed to one of the decoder.
#[derive(Debug, thiserror::Error)]
#[error(transparent)]
struct StoreError(io::Error);

/// Reader of the bytes of an object.
struct ObjectReader {
    store: Store,
    name: String,
    next: u64,
    bytes: u64,
}

impl Read for ObjectReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = (self.bytes - self.next).min(buffer.len() as u64);
        let read = self.store.get_range(&self.name, self.next..self.next + count);
        let piece = read.map_err(|error| io::Error::other(StoreError(error)))?;
        buffer[..piece.len()].copy_from_slice(&piece);
        self.next += count;
        Ok(piece.len())
    }
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn lines_are_read_as_written_and_long_ones_only_skipped() {
        let store = Store::in_memory(FaultConfig::none());
        let mut writer = LinesWriter::begin(&store, "a.jsonl.zst".to_owned()).expect("opened");
        let long = "x".repeat(2 << 20);
        let lines = ["first", "", "third\nwith a line feed", &long, "last"];
        for line in &lines {
            writer.push(line).expect("written");
        }
        let (file, object) = writer.finish().expect("written");
        assert!(store.head(&file.path).expect("answered").is_none(), "not committed");
        object.commit().expect("written");
        assert!(is_intact(&store, &file.path, &file.blake3).expect("answered"));
        assert!(!is_intact(&store, &file.path, "other").expect("answered"));
        assert!(!is_intact(&store, "b.jsonl.zst", &file.blake3).expect("answered"));
        let mut reader = LinesReader::<String>::open(&store, &file.path).expect("opened");
        for line in &lines[..3] {
            assert_eq!(reader.read().expect("intact").as_deref(), Some(*line));
        }
        assert!(reader.skip().expect("intact"));
        assert_eq!(reader.read().expect("intact").as_deref(), Some("last"));
        assert!(!reader.skip().expect("intact"));
        assert_eq!(reader.read().expect("intact"), None);
        let mut reader = LinesReader::<String>::open(&store, &file.path).expect("opened");
        assert!((0..3).all(|_| reader.skip().expect("intact")));
        let error = reader.read().expect_err("longer than a mebibyte").to_string();
        assert!(error.contains("a.jsonl.zst") && error.contains("a line is too long"), "{error}");
        store.put("c.jsonl.zst", &store.get(&file.path).expect("there")[..50]).expect("written");
        let mut reader = LinesReader::<String>::open(&store, "c.jsonl.zst").expect("opened");
        while reader.skip().is_ok_and(|is_there| is_there) {}
        reader.read().expect_err("cut short");
    }
}
