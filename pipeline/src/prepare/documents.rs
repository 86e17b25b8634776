//! Which documents the rows of a part are of: `documents/`, looked at the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int32Type, UInt32Type, UInt64Type};
use arrow_array::{ArrayAccessor as _, RecordBatch, StringArray, TypedDictionaryArray};
use parquet::arrow::ProjectionMask;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::errors::ParquetError;
use runtime::catch_decoder;
use schemas::PartId;
use store::Store;

use crate::{Error, Result};

/// Ids that are told of: enough to say that an id is not the only one.
const LIKE_MAX: usize = 4;

/// What the corpus calls a document, and where it stands there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// Its id: what `cloze prepare forget --document` takes.
    pub id: String,
    /// The name of its file.
    pub source: String,
    /// Bytes of the decompressed file, or rows of a Parquet file.
    pub range: Range<u64>,
}

/// The documents of a part that shards call by these names; those that no table has are missing. Of equal texts, the first.
///
/// # Errors
/// If a table cannot be read.
pub fn origins(store: &Store, part: PartId, names: &BTreeSet<u64>) -> Result<BTreeMap<u64, Origin>> {
    let mut found = BTreeMap::new();
    let columns = ["id", "document", "source", "start", "end"];
    each_table(store, is_of(&[part].into()), &columns, |batch| take(batch, names, &mut found))?;
    Ok(found)
}

/// Every document of a folder, by the name that shards have for it, with the name of its file.
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

/// A document, and what it came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Measured<'a> {
    /// Its id.
    pub id: &'a str,
    /// The name of its file.
    pub source: &'a str,
    /// Whether it is in the validation split.
    pub valid: bool,
    /// Its tokens.
    pub tokens: u32,
}

/// Every document of these parts.
///
/// # Errors
/// If a table cannot be read.
pub fn each_length(store: &Store, parts: &BTreeSet<PartId>, mut hear: impl FnMut(Measured<'_>)) -> Result<()> {
    each_table(store, is_of(parts), &["id", "source", "valid", "tokens"], |batch| {
        let ids = batch.column_by_name("id")?.as_string_opt::<i32>()?;
        let valid = batch.column_by_name("valid")?.as_boolean_opt()?;
        let tokens = batch.column_by_name("tokens")?.as_primitive_opt::<UInt32Type>()?.values();
        let sources = sources(batch)?;
        for (row, &tokens) in tokens.iter().enumerate() {
            hear(Measured { id: ids.value(row), source: sources.value(row), valid: valid.value(row), tokens });
        }
        Some(())
    })
}

/// The ids in a folder that begin so, and that of the document which shards call so: the first few of them in order.
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

/// Whether a table is of one of these parts, by its name.
fn is_of(parts: &BTreeSet<PartId>) -> impl Fn(&str) -> bool {
    let stems: BTreeSet<String> = parts.iter().map(|part| format!("documents/part-{:05}", part.0)).collect();
    // `documents/part-00000-00.parquet`: the last number is that of the segment.
    move |name| name.rsplit_once('-').is_some_and(|(stem, _)| stems.contains(stem))
}

/// Columns of the tables whose names are wanted, batch by batch. `take` says nothing of one whose columns are others.
fn each_table(
    store: &Store,
    is_wanted: impl Fn(&str) -> bool,
    columns: &[&str],
    mut take: impl FnMut(&RecordBatch) -> Option<()>,
) -> Result<()> {
    for entry in store.list("documents")?.into_iter().filter(|entry| is_wanted(&entry.name)) {
        let bytes = bytes::Bytes::from(store.read(&entry.name)?);
        let damaged = |message: String| Error::Shard { place: store.place(&entry.name), group: None, message };
        let batches = catch_decoder(|| {
            let builder = ParquetRecordBatchReaderBuilder::try_new(bytes)?;
            let mask = ProjectionMask::columns(builder.parquet_schema(), columns.iter().copied());
            let batches: Result<Vec<RecordBatch>, _> = builder.with_projection(mask).build()?.collect();
            batches.map_err(ParquetError::from)
        });
        for batch in batches.map_err(damaged)? {
            take(&batch).ok_or_else(|| damaged("its columns are not those of a table".into()))?;
        }
    }
    Ok(())
}

fn sources(batch: &RecordBatch) -> Option<TypedDictionaryArray<'_, Int32Type, StringArray>> {
    batch.column_by_name("source")?.as_dictionary_opt::<Int32Type>()?.downcast_dict::<StringArray>()
}

fn take(batch: &RecordBatch, names: &BTreeSet<u64>, found: &mut BTreeMap<u64, Origin>) -> Option<()> {
    let column = |name| batch.column_by_name(name);
    let number = |name| Some(column(name)?.as_primitive_opt::<UInt64Type>()?.values());
    let (documents, starts, ends) = (number("document")?, number("start")?, number("end")?);
    let ids = column("id")?.as_string_opt::<i32>()?;
    let sources = sources(batch)?;
    for row in (0..batch.num_rows()).filter(|&row| names.contains(&documents[row])) {
        let source = sources.value(row).to_owned();
        let origin = || Origin { id: ids.value(row).to_owned(), source, range: starts[row]..ends[row] };
        found.entry(documents[row]).or_insert_with(origin);
    }
    Some(())
}
