//! Copy of the small files of a prepared folder in the run folder.
//!
//! # What
//! `prepared/` has the manifest, the tokenizer, the vocabulary and the labelled task that the run began with, for each
//! source of a mixture in a folder with its name. It has no rows.
//!
//! # Why
//! A run can be exported and can fill in blanks after the prepared folder was moved or deleted.

use std::path::Path;
use std::sync::Arc;

use pipeline::load::{self, RowOrder, VersionChoice};
use pipeline::mixture::Weight;
use schemas::manifest;
use store::Store;

use super::{PreparedData, Purpose};
use crate::config::Config;
use crate::finetune::record;
use crate::run::dataset_versions::{DatasetVersions, hashes_of};

/// Folder of the copies in a run folder.
const FOLDER: &str = "prepared";

/// Returns the files of the copy, by their names in the run folder.
///
/// # Errors
/// If a file of the prepared folder cannot be read.
pub fn files(data: &PreparedData) -> pipeline::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    for data in data.all() {
        let mut manifest = data.manifest.clone();
        // Later versions have vocabularies that are not copied.
        manifest.dataset_versions.truncate(data.dataset_version.0 as usize + 1);
        let vocab = manifest.dataset_version(data.dataset_version).vocab.path.clone();
        let mut content = vec![
            (vocab.clone(), data.store.get(&vocab)?),
            (manifest::TOKENIZER.to_owned(), load::read_tokenizer(&data.store, &manifest)?),
            (manifest::NAME.to_owned(), manifest.to_json()),
        ];
        // The record of a labelled task has the names of the classes.
        if let Some((task, _)) = data.store.get_with_stat(record::NAME)? {
            content.push((record::NAME.to_owned(), task));
        }
        let folder = folder(data.name());
        files.extend(content.into_iter().map(|(name, bytes)| (format!("{folder}/{name}"), bytes)));
    }
    Ok(files)
}

fn folder(source: Option<&str>) -> String {
    source.map_or(FOLDER.to_owned(), |name| format!("{FOLDER}/{name}"))
}

impl PreparedData {
    /// Opens the copy in the run folder of a configuration. `None` if it is missing or damaged.
    pub(super) fn open_copy(config: &Config) -> Option<Self> {
        let run = remote_store::existing_path(&config.run.folder).ok()?;
        let sources = config.sources_read();
        if sources.is_empty() {
            return open_folder(&run, None);
        }
        let opened =
            sources.into_iter().map(|(name, source)| open_folder(&run, Some((name.to_owned(), source.weight.clone()))));
        opened.collect::<Option<_>>().map(Self::mixed)
    }
}

fn open_folder(run: &Store, source: Option<(String, Weight)>) -> Option<PreparedData> {
    let name = source.as_ref().map(|(name, _)| name.as_str());
    let store = run.prefixed(&folder(name));
    let manifest = load::open(&store).ok()?;
    let hashes = hashes_of(&manifest);
    // The list of the run is of the prepared folder.
    let versions =
        DatasetVersions::open(Path::new(""), &store, name, RowOrder::Shuffled, VersionChoice::default(), &hashes)
            .ok()?;
    let dataset_version = versions.first();
    let vocab = load::read_vocab(&store, &manifest, dataset_version).ok()?;
    let content = manifest.dataset_version(dataset_version).content.clone();
    let data = PreparedData::single_source(store, manifest, vocab, Arc::new(versions), content, Purpose::Model);
    Some(PreparedData { source, is_copy: true, ..data })
}

/// Checks that a run's prepared folders exist, for commands that read documents.
///
/// # Errors
/// [`pipeline::Error::Config`] if the data is the copy of the run folder.
pub(crate) fn refuse(data: &PreparedData) -> pipeline::Result<()> {
    match data.all().find(|data| data.is_copy) {
        None => Ok(()),
        Some(copy) => Err(pipeline::Error::Config(format!(
            "{}: this copy has no documents, and the prepared folder is not there; restore the folder that \
             `data.folder` of the run names",
            copy.store.place("")
        ))),
    }
}
