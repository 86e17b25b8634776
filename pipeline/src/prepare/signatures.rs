//! Signatures of the documents of a part: `signatures/part-00000.bin`, and its record `signatures/part-00000.json`.
//!
//! The record is sealed, and written after the signatures. It is bound to the settings, the part and the text that was
//! read. Signatures are stored by column, so that a fold can read one column at a time: in blocks of 65,536 documents,
//! each with the starts (uint64), the hashes of the exact texts (uint128), and the hashes of each band (uint64). The
//! last block has the remaining documents. Numbers are little-endian.
//!
//! If removed documents are listed, `signatures/part-00000.jsonl.zst` has the id of each document, or `null` if it is
//! longer than [`MAX_ID_BYTES`].

use std::io::Write;

use duplicates::Signature;
use schemas::{SealError, Sealed};
use serde::{Deserialize, Serialize};
use store::{ObjectWriter, Store};

use super::json_lines::{LinesReader, LinesWriter, SUFFIX, is_intact};
use super::listing::{is_no_file, replaceable};
use crate::Result;
use crate::corpus::{Part, PieceEnd};

/// Folder of the signatures.
pub(super) const FOLDER: &str = "signatures";

/// Maximum length of an id that is kept for the list of removed documents.
pub(super) const MAX_ID_BYTES: usize = 256;

/// Documents of a block.
const BLOCK: u64 = 65_536;

/// Bytes of a start or of a band.
const WORD: u64 = 8;

/// Bytes of the hash of an exact text.
const EXACT: u64 = 16;

/// Bytes of a document with that number of bands.
pub(super) fn document_bytes(bands: usize) -> u64 {
    WORD + EXACT + WORD * bands as u64
}

/// Memory of a worker that writes signatures: one block.
pub(super) fn writer_bytes(bands: usize) -> u64 {
    BLOCK * document_bytes(bands)
}

/// Record of the signatures of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct SignatureRecord {
    /// BLAKE3 of the settings.
    pub(super) settings: String,
    /// Part, as in its list.
    pub(super) part: Part,
    /// Ends of all pieces: the text that was read.
    pub(super) read: Vec<PieceEnd>,
    /// Number of compared documents of each piece.
    pub(super) documents: Vec<u64>,
    /// Number of bands.
    bands: usize,
    /// BLAKE3 of the signatures.
    blake3: String,
    /// BLAKE3 of the ids. Absent if removed documents are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    ids: Option<String>,
}

impl Sealed for SignatureRecord {
    const FORMAT: &'static str = "cloze signature record";
    /// Version 2: the words have full case folding.
    const VERSION: u32 = 2;
    const PRETTY: bool = false;
}

/// Column of the signatures.
#[derive(Clone, Copy, Debug)]
enum Column {
    Start,
    Exact,
    Band(u64),
}

impl SignatureRecord {
    /// Reads the record of a part. Returns `None` if it is missing, damaged, or of other settings or another part.
    pub(super) fn read(store: &Store, settings: &str, part: &Part) -> Result<Option<Self>> {
        let Some((bytes, _)) = replaceable(store.get_with_stat(&record_name(part)))? else { return Ok(None) };
        let record = Self::unseal(&bytes).ok();
        let is_bound = |record: &Self| {
            let pieces = part.pieces.len();
            (record.settings.as_str(), &record.part) == (settings, part)
                && (record.read.len(), record.documents.len()) == (pieces, pieces)
        };
        Ok(record.filter(is_bound))
    }

    /// Reads the record of a part. Returns `None` also if the signatures are not there as they were written.
    pub(super) fn read_intact(store: &Store, settings: &str, part: &Part) -> Result<Option<Self>> {
        let Some(record) = Self::read(store, settings, part)? else { return Ok(None) };
        Ok(record.is_intact(store)?.then_some(record))
    }

    /// Whether the signatures are there as they were written.
    fn is_intact(&self, store: &Store) -> Result<bool> {
        let name = blob_name(&self.part);
        let bytes = self.count().checked_mul(document_bytes(self.bands));
        let has_length = replaceable(store.head(&name))?.is_some_and(|found| Some(found.bytes) == bytes);
        let are_ids_intact =
            || self.ids.as_ref().map_or(Ok(true), |blake3| is_intact(store, &ids_name(&self.part), blake3));
        Ok(has_length && is_intact(store, &name, &self.blake3)? && are_ids_intact()?)
    }

    /// Number of documents.
    pub(super) fn count(&self) -> u64 {
        self.documents.iter().fold(0, |sum, documents| sum.saturating_add(*documents))
    }

    /// Calls `visit` with the start of each document within its file, in order.
    pub(super) fn starts(&self, store: &Store, mut visit: impl FnMut(u64)) -> Result<()> {
        self.column(store, Column::Start, |bytes| visit(u64::from_le_bytes(word(bytes))))
    }

    /// Calls `visit` with the hash of each exact text, in order.
    pub(super) fn exact(&self, store: &Store, mut visit: impl FnMut(u128)) -> Result<()> {
        self.column(store, Column::Exact, |bytes| visit(u128::from_le_bytes(word(bytes))))
    }

    /// Calls `visit` with the hash of each document in a band, in order.
    pub(super) fn band(&self, store: &Store, band: usize, mut visit: impl FnMut(u64)) -> Result<()> {
        self.column(store, Column::Band(band as u64), |bytes| visit(u64::from_le_bytes(word(bytes))))
    }

    /// Opens the ids of the documents, in order. They exist only if removed documents are listed.
    pub(super) fn ids(&self, store: &Store) -> Result<LinesReader<Option<String>>> {
        LinesReader::open(store, &ids_name(&self.part))
    }

    fn column(&self, store: &Store, column: Column, mut visit: impl FnMut(&[u8])) -> Result<()> {
        let (before, width) = match column {
            Column::Start => (0, WORD),
            Column::Exact => (WORD, EXACT),
            Column::Band(band) => (WORD + EXACT + WORD * band, WORD),
        };
        let name = blob_name(&self.part);
        let count = self.count();
        let mut first = 0;
        while first < count {
            let documents = BLOCK.min(count - first);
            let start = first * document_bytes(self.bands) + documents * before;
            let bytes = store.get_range(&name, start..start + documents * width)?;
            bytes.chunks_exact(usize::try_from(width).expect("8 or 16")).for_each(&mut visit);
            first += documents;
        }
        Ok(())
    }
}

/// Returns the bytes of a number.
fn word<const BYTES: usize>(bytes: &[u8]) -> [u8; BYTES] {
    bytes.try_into().expect("a cell of its column")
}

/// Writer of the signatures of a part.
pub(super) struct SignatureWriter<'a> {
    store: &'a Store,
    part: &'a Part,
    object: ObjectWriter,
    hasher: blake3::Hasher,
    documents: Vec<u64>,
    starts: Vec<u8>,
    exact: Vec<u8>,
    bands: Vec<Vec<u8>>,
    ids: Option<LinesWriter>,
}

impl<'a> SignatureWriter<'a> {
    /// Begins the signatures of a part, with the ids of the documents if they are wanted.
    pub(super) fn new(store: &'a Store, part: &'a Part, bands: usize, with_ids: bool) -> Result<Self> {
        let ids = with_ids.then(|| LinesWriter::begin(store, ids_name(part))).transpose()?;
        Ok(Self {
            ids,
            store,
            part,
            object: store.writer(&blob_name(part))?,
            hasher: blake3::Hasher::new(),
            documents: vec![0; part.pieces.len()],
            starts: Vec::new(),
            exact: Vec::new(),
            bands: vec![Vec::new(); bands],
        })
    }

    /// Adds the next document, which begins at that place of its file.
    pub(super) fn add(&mut self, piece: usize, start: u64, id: &str, signature: Signature<'_>) -> Result<()> {
        if let Some(ids) = &mut self.ids {
            ids.push(&Some(id).filter(|id| id.len() <= MAX_ID_BYTES))?;
        }
        self.documents[piece] += 1;
        self.starts.extend_from_slice(&start.to_le_bytes());
        self.exact.extend_from_slice(&signature.exact.to_le_bytes());
        for (column, hash) in self.bands.iter_mut().zip(signature.bands) {
            column.extend_from_slice(&hash.to_le_bytes());
        }
        if self.starts.len() as u64 == BLOCK * WORD { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<()> {
        let Self { object, hasher, .. } = self;
        for column in [&mut self.starts, &mut self.exact].into_iter().chain(&mut self.bands) {
            object.write_all(column)?;
            hasher.update(column);
            column.clear();
        }
        Ok(())
    }

    /// Completes the signatures, then writes their record.
    pub(super) fn finish(mut self, settings: &str, read: Vec<PieceEnd>) -> Result<()> {
        self.flush()?;
        self.object.commit()?;
        let mut ids = None;
        if let Some((file, object)) = self.ids.map(LinesWriter::finish).transpose()? {
            object.commit()?;
            ids = Some(file.blake3);
        }
        let record = SignatureRecord {
            settings: settings.to_owned(),
            part: self.part.clone(),
            read,
            documents: self.documents,
            bands: self.bands.len(),
            blake3: self.hasher.finalize().to_hex().to_string(),
            ids,
        };
        self.store.put(&record_name(self.part), &record.seal())?;
        Ok(())
    }
}

/// Whether signatures of a part are there, but not as they were written.
pub(super) fn is_damaged(store: &Store, settings: &str, part: &Part) -> Result<bool> {
    if let Some((bytes, _)) = replaceable(store.get_with_stat(&record_name(part)))?
        && let Err(SealError::Version { .. }) = SignatureRecord::unseal(&bytes)
    {
        // The next preparation makes signatures of another version again.
        return Ok(false);
    }
    if SignatureRecord::read_intact(store, settings, part)?.is_some() {
        return Ok(false);
    }
    for name in object_names(part) {
        match store.head(&name) {
            Ok(None) => {}
            Err(error) if !is_no_file(&error) => return Err(error.into()),
            Ok(Some(_)) | Err(_) => return Ok(true),
        }
    }
    Ok(false)
}

/// Deletes the signatures of a part if they are damaged. Returns whether they were.
pub(super) fn delete_damaged(store: &Store, settings: &str, part: &Part) -> Result<bool> {
    let is_damaged = is_damaged(store, settings, part)?;
    if is_damaged {
        object_names(part).iter().try_for_each(|name| store.delete(name))?;
    }
    Ok(is_damaged)
}

pub(super) fn record_name(part: &Part) -> String {
    format!("{FOLDER}/part-{:05}.json", part.id.0)
}

fn blob_name(part: &Part) -> String {
    format!("{FOLDER}/part-{:05}.bin", part.id.0)
}

fn ids_name(part: &Part) -> String {
    format!("{FOLDER}/part-{:05}{SUFFIX}", part.id.0)
}

/// Returns the names of the objects of a part. The ids may be absent.
pub(super) fn object_names(part: &Part) -> [String; 3] {
    [record_name(part), blob_name(part), ids_name(part)]
}

#[cfg(test)]
mod tests {
    use schemas::PartId;
    use store::FaultConfig;

    use super::*;
    use crate::corpus::Piece;

    #[test]
    fn columns_are_as_written_over_several_blocks() {
        let store = Store::in_memory(FaultConfig::none());
        let piece = |name: &str| Piece { name: name.into(), bytes: 9, range: 0..9 };
        let part = Part { id: PartId(7), bytes: 9, pieces: vec![piece("a"), piece("b")] };
        let count = BLOCK + 5;
        let mut writer = SignatureWriter::new(&store, &part, 2, true).expect("opened");
        for document in 0..count {
            let bands = [document * 3, document * 5];
            let signature = Signature { exact: u128::from(document) << 70, bands: &bands };
            let id = "x".repeat(usize::try_from(document % 300).expect("small"));
            writer.add(usize::from(document >= 4), document * 2, &id, signature).expect("written");
        }
        let end = PieceEnd { to: 1, lines: 1, blake3: "b".into() };
        writer.finish("s", vec![end.clone(), end]).expect("written");
        let record = SignatureRecord::read(&store, "s", &part).expect("answered").expect("bound");
        assert!(record.is_intact(&store).expect("answered"));
        assert_eq!(record.documents, [4, count - 4]);
        let mut next = 0;
        record
            .starts(&store, |start| {
                assert_eq!(start, next * 2);
                next += 1;
            })
            .expect("read");
        record
            .exact(&store, |hash| {
                next -= 1;
                assert_eq!(hash, u128::from(count - 1 - next) << 70);
            })
            .expect("read");
        record
            .band(&store, 1, |hash| {
                assert_eq!(hash, next * 5);
                next += 1;
            })
            .expect("read");
        assert_eq!(next, count);
        let mut ids = record.ids(&store).expect("there");
        for document in 0..count {
            let length = usize::try_from(document % 300).expect("small");
            let expected = (length <= MAX_ID_BYTES).then(|| "x".repeat(length));
            assert_eq!(ids.read().expect("intact"), Some(expected));
        }
        assert_eq!(ids.read().expect("intact"), None);
        assert!(SignatureRecord::read(&store, "other", &part).expect("answered").is_none(), "of other settings");
        let other = Part { bytes: 8, ..part.clone() };
        assert!(SignatureRecord::read(&store, "s", &other).expect("answered").is_none(), "of another part");
        let name = blob_name(&part);
        let mut bytes = store.get(&name).expect("there");
        bytes[70_000] ^= 1;
        store.put(&name, &bytes).expect("written");
        assert!(!record.is_intact(&store).expect("answered"), "a changed bit");
        store.delete(&name).expect("deleted");
        assert!(!record.is_intact(&store).expect("answered"), "missing");
        bytes[70_000] ^= 1;
        store.put(&name, &bytes).expect("written");
        assert!(record.is_intact(&store).expect("answered"));
        store.put(&ids_name(&part), b"other ids").expect("written");
        assert!(!record.is_intact(&store).expect("answered"), "changed ids");
    }
}
