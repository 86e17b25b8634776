//! Opening a prepared folder.

use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use schemas::{Generation, Manifest, ManifestError, SealError, Vocab};

use crate::error::{Error, Result};
use crate::shard::reader::hash_file;

/// Reads and verifies the manifest of a prepared folder.
///
/// # Errors
/// [`Error::Config`] if there is none, [`Error::Manifest`] if it is damaged or of another version.
pub fn open(folder: &Path) -> Result<Manifest> {
    let path = folder.join("manifest.json");
    let bytes = std::fs::read(&path).map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => Error::Config(format!(
            "{}: there is no prepared corpus here (no `manifest.json`); run `cloze prepare`, or change `data.folder`",
            folder.display()
        )),
        _ => Error::Io(std::io::Error::new(error.kind(), format!("{}: {error}", path.display()))),
    })?;
    Manifest::from_json(&bytes).map_err(|source| Error::Manifest { path, source })
}

/// Reads the vocabulary of a generation and verifies it.
///
/// # Errors
/// [`Error::Manifest`] if the file is not the one that the manifest names, [`Error::Config`] if it cannot be read.
pub fn read_vocab(folder: &Path, manifest: &Manifest, generation: Generation) -> Result<Vocab> {
    let entry = &manifest.generation(generation).vocab;
    let path = folder.join(&entry.path);
    let failed = |message: &str| {
        let advice = "run `cloze prepare` again, it writes the file anew";
        Error::Config(format!("{}: {message}; {advice}", path.display()))
    };
    let hash = hash_file(&path).map_err(|error| failed(&error.to_string()))?;
    if hash.to_hex().as_str() != entry.blake3 {
        return Err(Error::Manifest { path, source: ManifestError::Damaged(SealError::Checksum) });
    }
    let file = std::fs::File::open(&path).map_err(|error| failed(&error.to_string()))?;
    let size = manifest.tokenizer.vocab_size as usize;
    let record = ParquetRecordBatchReaderBuilder::try_new(file)
        .and_then(|builder| builder.with_batch_size(size.max(1)).build())
        .map_err(|error| failed(&error.to_string()))?
        .next()
        .transpose()
        .map_err(|error| failed(&error.to_string()))?
        .filter(|record| record.num_rows() == size)
        .ok_or_else(|| failed(&format!("it does not have {size} rows")))?;
    vocab(&record, manifest).ok_or_else(|| failed("its columns are not `token`, `word_start` and `count`"))
}

fn vocab(record: &RecordBatch, manifest: &Manifest) -> Option<Vocab> {
    let tokens = record.column_by_name("token")?.as_string_opt::<i32>()?;
    let word_starts = record.column_by_name("word_start")?.as_boolean_opt()?;
    let counts = record.column_by_name("count")?.as_primitive_opt::<UInt64Type>()?;
    if tokens.null_count() + word_starts.null_count() + counts.null_count() > 0 {
        return None;
    }
    Some(Vocab::new(
        tokens.iter().flatten().map(str::to_owned).collect(),
        word_starts.iter().flatten().collect(),
        counts.values().to_vec(),
        manifest.tokenizer.special,
        &manifest.tokenizer.specials,
    ))
}
