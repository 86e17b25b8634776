//! Proof that a part list, planned from the corpus, is the newest list of a folder, which is lost or damaged.
//!
//! # Why
//! Another list under the same number would give the numbers of finished parts to other text.
//!
//! # Definition
//! The files must have the identities of `fingerprints.json`. A later list must have the parts of its entry in the
//! manifest: then it has forgotten no document. The settings of the first list are in no other list, so commit records
//! must prove them: at least one is there, and each is of a part of the list and has the BLAKE3 of its settings.

use std::collections::BTreeMap;

use schemas::{Manifest, PartId, Sealed, manifest};
use store::Store;

use super::commit_record::CommitRecord;
use super::fingerprints::Fingerprints;
use super::part_list::PartList;
use super::requests::request_all;
use crate::Result;
use crate::corpus::{Corpus, Part};

/// Returns the reason why `list`, which the corpus requires, may not be the list of the folder.
pub(super) fn find_doubt(store: &Store, corpus: &Corpus, list: Option<&PartList>) -> Result<Option<String>> {
    let Some(list) = list else { return Ok(Some("`prepare.inputs` require no such list".to_owned())) };
    let fingerprints = Fingerprints::read(store)?;
    let mut pieces = list.parts.iter().flat_map(|part| &part.pieces);
    let is_other = |name: &str| corpus.file(name).is_none_or(|file| !fingerprints.has(file));
    if let Some(piece) = pieces.find(|piece| is_other(&piece.name)) {
        return Ok(Some(format!("`{}` has changed since, or `fingerprints.json` is lost", piece.name.escape_debug())));
    }
    let manifest = store.get_with_stat(manifest::NAME)?.and_then(|(bytes, _)| Manifest::from_json(&bytes).ok());
    let number = list.dataset_version.0 as usize;
    let is_newest = |manifest: &Manifest| {
        let entries = &manifest.dataset_versions;
        entries.len() == number + 1 && entries.last().is_some_and(|entry| list.is_published_as(entry))
    };
    match manifest {
        Some(manifest) if !is_newest(&manifest) => Ok(Some("its parts are not those of the manifest".to_owned())),
        Some(_) if number > 0 => Ok(None),
        None if number > 0 => Ok(Some(format!("`{}` is lost or damaged too", manifest::NAME))),
        _ => contradiction(store, list),
    }
}

/// Returns the reason why the commit records do not prove that the list is theirs.
fn contradiction(store: &Store, list: &PartList) -> Result<Option<String>> {
    let names: Vec<String> = store.list("parts")?.into_iter().map(|entry| entry.name).collect();
    let settings = list.settings.digest();
    let parts: BTreeMap<PartId, Part> = list.parts.iter().map(|part| (part.id, part.clone())).collect();
    let verdicts = request_all(store, names, move |store, name: &String| {
        let record = store.get_with_stat(name)?.and_then(|(bytes, _)| CommitRecord::unseal(&bytes).ok());
        let is_theirs =
            |record: &CommitRecord| record.settings == settings && parts.get(&record.part.id) == Some(&record.part);
        Ok(record.map(|record| if is_theirs(&record) { Ok(()) } else { Err(name.clone()) }))
    })?;
    let mut is_proven = false;
    for verdict in verdicts.into_iter().flatten() {
        match verdict {
            Ok(()) => is_proven = true,
            Err(name) => {
                return Ok(Some(format!("{} has other settings or another part", store.place(&name))));
            }
        }
    }
    Ok((!is_proven).then(|| "no commit record proves its settings".to_owned()))
}
