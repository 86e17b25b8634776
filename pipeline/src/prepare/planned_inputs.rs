//! Places of the planned input files: `inputs.json`.
//!
//! `cloze prepare plan` writes the object, so that the processes of `cloze prepare run` open the files of their parts
//! without a search for all files. Like the lock, it depends on the machine. The last step of a preparation removes it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use schemas::Sealed;
use serde::{Deserialize, Serialize};
use store::Store;

use super::fingerprints::Fingerprints;
use crate::corpus::{Corpus, InputFile};
use crate::{Error, Result};

/// Name of the object.
pub(super) const NAME: &str = "inputs.json";

/// Path of each file, by its name in the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PlannedInputs(BTreeMap<String, PathBuf>);

impl Sealed for PlannedInputs {
    const FORMAT: &'static str = "cloze planned inputs";
    const VERSION: u32 = 1;
    const PRETTY: bool = false;
}

impl PlannedInputs {
    /// Collects the places of all files. Objects, and paths that are not UTF-8, are left out; they are searched for.
    pub(super) fn new(corpus: &Corpus) -> Self {
        let files = corpus.files().iter().filter(|file| !file.is_object() && file.path.to_str().is_some());
        Self(files.map(|file| (file.name.clone(), file.path.clone())).collect())
    }

    /// Writes the object, unless it is unchanged.
    pub(super) fn write(&self, store: &Store) -> Result<()> {
        store.put_if_changed(NAME, &self.seal())?;
        Ok(())
    }

    /// Reads the object; empty if it is missing or damaged.
    pub(super) fn read(store: &Store) -> Result<Self> {
        let found = store.get_with_stat(NAME)?;
        Ok(found.and_then(|(bytes, _)| Self::unseal(&bytes).ok()).unwrap_or_default())
    }

    /// Opens the files of these names. Returns `None` if one of them is not at its recorded place, as on a machine that
    /// has the corpus elsewhere.
    ///
    /// # Errors
    /// If a file has changed since the plan.
    pub(super) fn open(&self, names: &BTreeSet<&str>, fingerprints: &Fingerprints) -> Result<Option<Vec<InputFile>>> {
        let mut files = Vec::with_capacity(names.len());
        for &name in names {
            let Some(path) = self.0.get(name).filter(|path| path.is_file()) else { return Ok(None) };
            let file = InputFile::new(path.clone(), name.to_owned())?;
            refuse_changed(&file, fingerprints)?;
            files.push(file);
        }
        Ok(Some(files))
    }

    /// Refuses a corpus without one of these files. The message has the place at which the plan found it.
    pub(super) fn refuse_missing(&self, names: &BTreeSet<&str>, corpus: &Corpus) -> Result<()> {
        let Some(&name) = names.iter().find(|name| corpus.file(name).is_none()) else { return Ok(()) };
        let path = self.0.get(name).cloned().unwrap_or_else(|| name.into());
        let message =
            "it is missing since the plan; restore it, or run `cloze prepare plan` again, then the same command";
        Err(Error::Corpus { path, line: None, message: message.to_owned() })
    }
}

/// Refuses a file whose content has changed since the plan, by its fingerprint.
pub(super) fn refuse_changed(file: &InputFile, fingerprints: &Fingerprints) -> Result<()> {
    if !fingerprints.has_other_content(file) {
        return Ok(());
    }
    let message = "it has changed since the plan; run `cloze prepare plan` again, then the same command";
    Err(Error::Corpus { path: file.path.clone(), line: None, message: message.to_owned() })
}
