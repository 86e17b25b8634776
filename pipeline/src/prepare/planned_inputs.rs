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
use crate::requests::request_all;
use crate::{Error, Result};

/// Name of the object.
pub(super) const NAME: &str = "inputs.json";

/// Planned files, by their names in the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct PlannedInputs(BTreeMap<String, PlannedFile>);

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PlannedFile {
    path: PathBuf,
    /// BLAKE3 of its first and last bytes, for copies at other places.
    ends: String,
}

impl Sealed for PlannedInputs {
    const FORMAT: &'static str = "cloze planned inputs";
    const VERSION: u32 = 2;
    const PRETTY: bool = false;
}

impl PlannedInputs {
    /// Collects the places of all files. Objects, and paths that are not UTF-8, are left out; they are searched for.
    pub(super) fn new(corpus: &Corpus) -> Result<Self> {
        let files = corpus.files().iter().filter(|file| !file.is_object() && file.path.to_str().is_some());
        // In parallel: a file may be on a network.
        let planned = request_all(files.cloned().collect(), true, |file: &InputFile| {
            Ok((file.name.clone(), PlannedFile { path: file.path.clone(), ends: file.ends_digest()? }))
        });
        Ok(Self(planned.collect::<Result<_>>()?))
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
            let Some(planned) = self.0.get(name).filter(|planned| planned.path.is_file()) else { return Ok(None) };
            let file = InputFile::new(planned.path.clone(), name.to_owned())?;
            refuse_changed(&file, fingerprints)?;
            files.push(file);
        }
        Ok(Some(files))
    }

    /// Refuses a corpus without one of these files. The message has the place at which the plan found it.
    pub(super) fn refuse_missing(&self, names: &BTreeSet<&str>, corpus: &Corpus) -> Result<()> {
        let Some(&name) = names.iter().find(|name| corpus.file(name).is_none()) else { return Ok(()) };
        let path = self.0.get(name).map_or_else(|| name.into(), |planned| planned.path.clone());
        let message =
            "it is missing since the plan; restore it, or run `cloze prepare plan` again, then the same command";
        Err(Error::Corpus { path, line: None, message: message.to_owned() })
    }
}

impl PlannedInputs {
    /// Refuses a copy of a file that differs from the file of the plan. A copy that was written at the same time is the
    /// file.
    pub(super) fn refuse_other_copy(&self, file: &InputFile, fingerprints: &Fingerprints) -> Result<()> {
        let Some(planned) = self.0.get(&file.name).filter(|_| fingerprints.has_other_content(file)) else {
            return Ok(());
        };
        if planned.ends == file.ends_digest()? {
            return Ok(());
        }
        let message = format!(
            "it differs from {}, the file of the plan; copy that file again, or run `cloze prepare plan` with this one",
            planned.path.display()
        );
        Err(Error::Corpus { path: file.path.clone(), line: None, message })
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
