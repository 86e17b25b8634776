//! Functions that open a prepared folder.

use std::io::ErrorKind;
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use bytes::Bytes;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use schemas::{DatasetVersion, Manifest, ManifestError, SealError, Vocab, manifest};
use store::Store;

use crate::error::{Error, Result};

/// Opens the store of a prepared folder. Its path may be a URL.
///
/// # Errors
/// [`Error::Config`] if there is no such folder, [`Error::Io`] if it cannot be read.
pub fn find(folder: &Path) -> Result<Store> {
    remote_store::existing_path(folder).map_err(|error| match error.kind() {
        ErrorKind::NotFound => nothing_at(&folder.display()),
        _ => Error::Io(error),
    })
}

/// Reads and verifies the manifest of a prepared folder.
///
/// # Errors
/// [`Error::Config`] if there is none, [`Error::Manifest`] if it is damaged or of another version.
pub fn open(store: &Store) -> Result<Manifest> {
    let Some((bytes, _)) = store.get_with_stat(manifest::NAME)? else { return Err(nothing_at(&store.place(""))) };
    Manifest::from_json(&bytes).map_err(|why| Error::Manifest { place: store.place(manifest::NAME), why })
}

fn nothing_at(place: &dyn std::fmt::Display) -> Error {
    Error::Config(format!(
        "{place}: there is no prepared corpus here (no `{}`); run `cloze prepare`, or change `data.folder`",
        manifest::NAME
    ))
}

/// Reads and verifies the vocabulary of a dataset version.
///
/// # Errors
/// [`Error::Manifest`] if the file does not match the manifest, [`Error::Config`] if it cannot be read.
pub fn read_vocab(store: &Store, manifest: &Manifest, dataset_version: DatasetVersion) -> Result<Vocab> {
    let entry = &manifest.dataset_version(dataset_version).vocab;
    let place = store.place(&entry.path);
    let failed = |message: &str| {
        let advice = "run `cloze prepare` again to rewrite the file";
        Error::Config(format!("{place}: {message}; {advice}"))
    };
    let bytes = store.get(&entry.path).map_err(|error| failed(&error.to_string()))?;
    verify(&bytes, Some(&entry.blake3), &place)?;
    let size = manifest.tokenizer.vocab_size as usize;
    let record = ParquetRecordBatchReaderBuilder::try_new(Bytes::from(bytes))
        .and_then(|builder| builder.with_batch_size(size.max(1)).build())
        .map_err(|error| failed(&error.to_string()))?
        .next()
        .transpose()
        .map_err(|error| failed(&error.to_string()))?
        .filter(|record| record.num_rows() == size)
        .ok_or_else(|| failed(&format!("it does not have {size} rows")))?;
    vocab(&record, manifest)
        .ok_or_else(|| failed("its columns are not `token`, `word_start` and `count`, or it has no ordinary token"))
}

/// Reads and verifies the `tokenizer.json` that the data was made with.
///
/// # Errors
/// [`Error::Manifest`] if the file has changed, [`Error::Io`] if it cannot be read.
pub fn read_tokenizer(store: &Store, manifest: &Manifest) -> Result<Vec<u8>> {
    let bytes = store.get(manifest::TOKENIZER)?;
    verify(&bytes, manifest.files.get(manifest::TOKENIZER), &store.place(manifest::TOKENIZER))?;
    Ok(bytes)
}

/// Checks that a file is the one that the manifest names.
fn verify(bytes: &[u8], expected: Option<&String>, place: &str) -> Result<()> {
    if expected.is_some_and(|expected| *expected == blake3::hash(bytes).to_hex().as_str()) {
        return Ok(());
    }
    Err(Error::Manifest { place: place.to_owned(), why: ManifestError::Damaged(SealError::Checksum) })
}

fn vocab(record: &RecordBatch, manifest: &Manifest) -> Option<Vocab> {
    let tokens = record.column_by_name("token")?.as_string_opt::<i32>()?;
    let word_starts = record.column_by_name("word_start")?.as_boolean_opt()?;
    let counts = record.column_by_name("count")?.as_primitive_opt::<UInt64Type>()?;
    if tokens.null_count() + word_starts.null_count() + counts.null_count() > 0 {
        return None;
    }
    let tokens: Vec<String> = tokens.iter().flatten().map(str::to_owned).collect();
    let special = manifest.tokenizer.special;
    let specials = &manifest.tokenizer.specials;
    if Vocab::ordinary_ids(&tokens, special, specials).is_empty() {
        return None;
    }
    Some(Vocab::new(tokens, word_starts.iter().flatten().collect(), counts.values().to_vec(), special, specials))
}
