//! Table of documents: `documents/part-00000-00.parquet`, one row per document of a segment. Contains its writer and
//! search functions.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::Arc;

use arrow_array::builder::StringBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array, ArrayAccessor as _, ArrayRef, BooleanArray, DictionaryArray, Int32Array, RecordBatch, StringArray,
    TypedDictionaryArray, UInt32Array, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use runtime::catch_decoder;
use schemas::manifest::FileEntry;
use schemas::{Document, PartId};
use store::{ObjectWriter, Store};

use crate::shard::writer::{Hashing, write_error};
use crate::{Error, Result};

/// Maximum number of documents in memory.
const ROWS_PER_GROUP: usize = 1 << 16;

/// Maximum bytes of their ids, one BLAKE3 in hexadecimal each. Longer ids lead to smaller groups.
const ID_BYTES_PER_GROUP: usize = 64 * ROWS_PER_GROUP;

/// Maximum bytes of a group in memory.
pub(super) const GROUP_BYTES: u64 = 48 * ROWS_PER_GROUP as u64 + ID_BYTES_PER_GROUP as u64;

/// Place and size of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Entry<'a> {
    pub(super) id: &'a str,
    pub(super) document: u64,
    /// Name of its file.
    pub(super) source: &'a str,
    /// Bytes of the decompressed file, or rows of a Parquet file.
    pub(super) range: std::ops::Range<u64>,
    pub(super) valid: bool,
    /// First row of the document, among the part's rows of that split.
    pub(super) row: u64,
    pub(super) tokens: u32,
}

/// Writer of a table. The object is created with the first document.
pub(super) struct TableWriter {
    store: Store,
    name: String,
    schema: SchemaRef,
    open: Option<ArrowWriter<Hashing>>,
    columns: Columns,
}

/// File names, each once, and a key per document. Consecutive documents mostly have the same file, which costs one
/// comparison.
#[derive(Default)]
struct Sources {
    known: BTreeMap<String, i32>,
    /// File name of the last document.
    last: String,
    keys: Vec<i32>,
}

impl Sources {
    fn push(&mut self, name: &str) {
        let of_last = self.keys.last().copied().filter(|_| self.last == name);
        let key = of_last.unwrap_or_else(|| self.key(name));
        self.keys.push(key);
    }

    /// Returns the key of a file name other than that of the last document.
    fn key(&mut self, name: &str) -> i32 {
        name.clone_into(&mut self.last);
        if let Some(&key) = self.known.get(name) {
            return key;
        }
        let key = i32::try_from(self.known.len()).expect("a group has fewer documents");
        self.known.insert(name.to_owned(), key);
        key
    }

    /// Returns the column, with names in order of appearance.
    fn finish(self) -> DictionaryArray<Int32Type> {
        let mut names: Vec<_> = self.known.into_iter().map(|(name, key)| (key, name)).collect();
        names.sort_unstable();
        let names: StringArray = names.into_iter().map(|(_, name)| Some(name)).collect();
        DictionaryArray::new(Int32Array::from(self.keys), Arc::new(names))
    }
}

#[derive(Default)]
struct Columns {
    id: StringBuilder,
    document: Vec<u64>,
    source: Sources,
    start: Vec<u64>,
    end: Vec<u64>,
    valid: Vec<bool>,
    row: Vec<u64>,
    tokens: Vec<u32>,
}

fn schema() -> SchemaRef {
    let field = |name, data_type| Field::new(name, data_type, false);
    let names = DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    Arc::new(Schema::new(vec![
        field("id", DataType::Utf8),
        field("document", DataType::UInt64),
        field("source", names),
        field("start", DataType::UInt64),
        field("end", DataType::UInt64),
        field("valid", DataType::Boolean),
        field("row", DataType::UInt64),
        field("tokens", DataType::UInt32),
    ]))
}

impl TableWriter {
    pub(super) fn new(store: &Store, name: String) -> Self {
        Self { store: store.clone(), name, schema: schema(), open: None, columns: Columns::default() }
    }

    /// Adds a document. If the group is [full](Self::is_full) afterwards, the caller must flush it.
    pub(super) fn add(&mut self, entry: &Entry<'_>) {
        let columns = &mut self.columns;
        columns.id.append_value(entry.id);
        columns.document.push(entry.document);
        columns.source.push(entry.source);
        columns.start.push(entry.range.start);
        columns.end.push(entry.range.end);
        columns.valid.push(entry.valid);
        columns.row.push(entry.row);
        columns.tokens.push(entry.tokens);
    }

    /// Whether a complete row group of documents is in memory.
    pub(super) fn is_full(&self) -> bool {
        self.columns.document.len() >= ROWS_PER_GROUP || self.columns.id.values_slice().len() >= ID_BYTES_PER_GROUP
    }

    /// Writes the documents in memory.
    pub(super) fn flush(&mut self) -> Result<()> {
        let Self { store, name, schema, open, columns } = self;
        let writer = match open {
            Some(writer) => writer,
            closed => {
                let object = Hashing { put: store.writer(name)?, hasher: blake3::Hasher::new() };
                let writer = ArrowWriter::try_new(object, schema.clone(), Some(properties()));
                closed.insert(writer.map_err(|error| write_error(store, name, error))?)
            }
        };
        let batch = std::mem::take(columns).into_batch(schema);
        writer.write(&batch).and_then(|()| writer.flush()).map_err(|error| write_error(store, name, error))
    }

    /// Completes the table. Returns it with its object, which is not committed, or `None` if there is no document.
    pub(super) fn finish(mut self) -> Result<Option<(FileEntry, ObjectWriter)>> {
        if !self.columns.document.is_empty() {
            self.flush()?;
        }
        let Some(writer) = self.open else { return Ok(None) };
        let object = writer.into_inner().map_err(|error| write_error(&self.store, &self.name, error))?;
        let blake3 = object.hasher.finalize().to_hex().to_string();
        Ok(Some((FileEntry { path: self.name, blake3 }, object.put)))
    }
}

impl Columns {
    fn into_batch(mut self, schema: &SchemaRef) -> RecordBatch {
        let columns: Vec<ArrayRef> = vec![
            Arc::new(self.id.finish()),
            Arc::new(UInt64Array::from(self.document)),
            Arc::new(self.source.finish()),
            Arc::new(UInt64Array::from(self.start)),
            Arc::new(UInt64Array::from(self.end)),
            Arc::new(BooleanArray::from(self.valid)),
            Arc::new(UInt64Array::from(self.row)),
            Arc::new(UInt32Array::from(self.tokens)),
        ];
        RecordBatch::try_new(schema.clone(), columns).expect("the columns are those of the schema")
    }
}

fn properties() -> WriterProperties {
    let level = ZstdLevel::try_new(1).expect("a zstd level");
    WriterProperties::builder()
        .set_created_by("cloze".into())
        .set_compression(Compression::ZSTD(level))
        .set_max_row_group_row_count(Some(ROWS_PER_GROUP))
        // File names are few and long. Numbers do not get shorter with a dictionary.
        .set_dictionary_enabled(false)
        .set_column_dictionary_enabled("source".into(), true)
        .build()
}

/// Counts the documents with that id in a table. Equal texts count separately.
pub(super) fn count(store: &Store, table: &FileEntry, id: &str) -> Result<u64> {
    let document = Document::hash(id);
    let mut count = 0;
    each_batch(store, &table.path, read_intact(store, table)?, &["id", "document"], |batch| {
        let ids = batch.column_by_name("id")?.as_string_opt::<i32>()?;
        let documents = batch.column_by_name("document")?.as_primitive_opt::<UInt64Type>()?;
        let rows = documents.values().iter().enumerate().filter(|(_, found)| **found == document);
        count += rows.filter(|(row, _)| ids.is_valid(*row) && ids.value(*row) == id).count() as u64;
        Some(())
    })?;
    Ok(count)
}

/// Maximum number of returned ids, enough to show that an id is not unique.
const LIKE_MAX: usize = 4;

/// Identity and place of a document in the corpus.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Id for `cloze prepare forget --document`.
    pub id: String,
    /// Name of its file.
    pub source: String,
    /// Bytes of the decompressed file, or rows of a Parquet file.
    pub range: Range<u64>,
}

/// Returns the documents of a part that have these names in shards. Names without a document are missing from the
/// result. For equal texts, returns the first.
///
/// # Errors
/// If a table cannot be read.
pub fn origins(store: &Store, part: PartId, names: &BTreeSet<u64>) -> Result<BTreeMap<u64, Origin>> {
    let mut found = BTreeMap::new();
    each_origin(store, &[part].into(), names, |document, origin| {
        found.entry(document).or_insert(origin);
    })?;
    Ok(found)
}

/// Visits the documents of these parts that have one of the names in shards.
pub(super) fn each_origin(
    store: &Store,
    parts: &BTreeSet<PartId>,
    names: &BTreeSet<u64>,
    mut hear: impl FnMut(u64, Origin),
) -> Result<()> {
    let columns = ["id", "document", "source", "start", "end"];
    each_table(store, is_of("documents", parts), &columns, |batch| find_origins(batch, names, &mut hear))
}

/// Calls `hear` for every document of a folder with its name in shards and the name of its file.
///
/// # Errors
/// If a table cannot be read.
pub fn each_document(store: &Store, mut hear: impl FnMut(u64, &str)) -> Result<()> {
    each_table(
        store,
        |_| true,
        &["document", "source"],
        |batch| {
            let documents = batch.column_by_name("document")?.as_primitive_opt::<UInt64Type>()?.values();
            let sources = sources(batch)?;
            documents.iter().enumerate().for_each(|(row, &document)| hear(document, sources.value(row)));
            Some(())
        },
    )
}

/// Document with its number of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct DocumentLength<'a> {
    /// Id of the document.
    pub id: &'a str,
    /// Name of its file.
    pub source: &'a str,
    /// Whether it is in the validation split.
    pub valid: bool,
    /// Number of tokens.
    pub tokens: u32,
}

/// Visits every document of these parts.
///
/// # Errors
/// If a table cannot be read.
pub(crate) fn each_length(
    store: &Store,
    parts: &BTreeSet<PartId>,
    mut hear: impl FnMut(DocumentLength<'_>),
) -> Result<()> {
    each_table(store, is_of("documents", parts), &["id", "source", "valid", "tokens"], |batch| {
        let ids = batch.column_by_name("id")?.as_string_opt::<i32>()?;
        let valid = batch.column_by_name("valid")?.as_boolean_opt()?;
        let tokens = batch.column_by_name("tokens")?.as_primitive_opt::<UInt32Type>()?.values();
        let sources = sources(batch)?;
        for (row, &tokens) in tokens.iter().enumerate() {
            hear(DocumentLength { id: ids.value(row), source: sources.value(row), valid: valid.value(row), tokens });
        }
        Some(())
    })
}

/// Returns the first ids in a folder that begin with `asked`, and the id of the document named `called` in shards, in
/// order.
///
/// # Errors
/// If a table cannot be read.
pub fn ids_like(store: &Store, asked: &str, called: Option<u64>) -> Result<BTreeSet<String>> {
    let mut found = BTreeSet::new();
    each_table(
        store,
        |_| true,
        &["id", "document"],
        |batch| {
            let documents = batch.column_by_name("document")?.as_primitive_opt::<UInt64Type>()?.values();
            let ids = batch.column_by_name("id")?.as_string_opt::<i32>()?;
            let is_like = |row: &usize| ids.value(*row).starts_with(asked) || called == Some(documents[*row]);
            for row in (0..batch.num_rows()).filter(is_like) {
                found.insert(ids.value(row).to_owned());
                if found.len() > LIKE_MAX {
                    found.pop_last();
                }
            }
            Some(())
        },
    )?;
    Ok(found)
}

/// Whether an object of a folder, one per segment, belongs to one of these parts, by its name.
pub(super) fn is_of(folder: &str, parts: &BTreeSet<PartId>) -> impl Fn(&str) -> bool {
    let stems: BTreeSet<String> = parts.iter().map(|part| format!("{folder}/part-{:05}", part.0)).collect();
    // In `documents/part-00000-00.parquet`, the last number is that of the segment.
    move |name| name.rsplit_once('-').is_some_and(|(stem, _)| stems.contains(stem))
}

/// Visits the requested columns of the tables, batch by batch. `take` returns `None` if the columns have other types.
pub(super) fn each_table(
    store: &Store,
    is_wanted: impl Fn(&str) -> bool,
    columns: &[&str],
    mut take: impl FnMut(&RecordBatch) -> Option<()>,
) -> Result<()> {
    for entry in store.list("documents")?.into_iter().filter(|entry| is_wanted(&entry.name)) {
        each_batch(store, &entry.name, store.get(&entry.name)?, columns, &mut take)?;
    }
    Ok(())
}

/// Visits the batches of a table.
fn each_batch(
    store: &Store,
    name: &str,
    bytes: Vec<u8>,
    columns: &[&str],
    mut take: impl FnMut(&RecordBatch) -> Option<()>,
) -> Result<()> {
    let damaged = |message: String| Error::Shard { place: store.place(name), group: None, message };
    let batches = catch_decoder(|| {
        let builder = ParquetRecordBatchReaderBuilder::try_new(bytes::Bytes::from(bytes))?;
        let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
        let batches: Result<Vec<RecordBatch>, _> = builder.with_projection(mask).build()?.collect();
        batches.map_err(ParquetError::from)
    });
    for batch in batches.map_err(damaged)? {
        take(&batch).ok_or_else(|| damaged("its columns are not those of a table".into()))?;
    }
    Ok(())
}

/// Sums over a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct TableTotals {
    pub(super) bytes: u64,
    pub(super) documents: u64,
    pub(super) tokens: u64,
}

/// Reads a table whole, and compares its BLAKE3 with that of its record.
pub(super) fn totals(store: &Store, table: &FileEntry) -> Result<TableTotals> {
    let bytes = read_intact(store, table)?;
    let mut totals = TableTotals { bytes: bytes.len() as u64, ..TableTotals::default() };
    each_batch(store, &table.path, bytes, &["id", "source", "tokens"], |batch| {
        let tokens = batch.column_by_name("tokens")?.as_primitive_opt::<UInt32Type>()?.values();
        totals.documents += batch.num_rows() as u64;
        totals.tokens += tokens.iter().map(|&tokens| u64::from(tokens)).sum::<u64>();
        sources(batch).map(drop)
    })?;
    Ok(totals)
}

/// Reads the bytes of a table. Returns an error if they differ from those of its record.
fn read_intact(store: &Store, table: &FileEntry) -> Result<Vec<u8>> {
    let bytes = store.get(&table.path)?;
    if blake3::hash(&bytes).to_hex().as_str() == table.blake3 {
        return Ok(bytes);
    }
    let message = "damaged: its BLAKE3 differs from its record; run `cloze verify --repair` to remake the part";
    Err(Error::Shard { place: store.place(&table.path), group: None, message: message.to_owned() })
}

fn sources(batch: &RecordBatch) -> Option<TypedDictionaryArray<'_, Int32Type, StringArray>> {
    batch.column_by_name("source")?.as_dictionary_opt::<Int32Type>()?.downcast_dict::<StringArray>()
}

fn find_origins(batch: &RecordBatch, names: &BTreeSet<u64>, hear: &mut impl FnMut(u64, Origin)) -> Option<()> {
    let column = |name| batch.column_by_name(name);
    let number = |name| Some(column(name)?.as_primitive_opt::<UInt64Type>()?.values());
    let documents = number("document")?;
    let starts = number("start")?;
    let ends = number("end")?;
    let ids = column("id")?.as_string_opt::<i32>()?;
    let sources = sources(batch)?;
    for row in (0..batch.num_rows()).filter(|&row| names.contains(&documents[row])) {
        let source = sources.value(row).to_owned();
        hear(documents[row], Origin { id: ids.value(row).to_owned(), source, range: starts[row]..ends[row] });
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn a_document_is_found_by_its_id_and_a_table_of_none_is_no_object() {
        let store = Store::in_memory(FaultConfig::none());
        assert!(TableWriter::new(&store, "documents/none.parquet".into()).finish().expect("written").is_none());
        assert!(store.list("").expect("listed").is_empty());
        let mut writer = TableWriter::new(&store, "documents/some.parquet".into());
        for index in 0..ROWS_PER_GROUP + 2 {
            let id = format!("id {index}");
            let document = Document::hash(&id);
            let range = 0..7;
            let entry = Entry { id: &id, document, source: "a.txt", range, valid: false, row: 3, tokens: 5 };
            writer.add(&entry);
            if writer.is_full() {
                writer.flush().expect("written");
            }
        }
        let (table, object) = writer.finish().expect("written").expect("an object");
        object.commit().expect("written");
        for (id, there) in [("id 0", 1), ("id 65537", 1), ("id 65538", 0), ("", 0)] {
            assert_eq!(count(&store, &table, id).expect("readable"), there, "{id}");
        }
        store.put(&table.path, b"PAR1").expect("put");
        assert!(count(&store, &table, "id 0").expect_err("damaged").to_string().contains("BLAKE3"));
    }
}
