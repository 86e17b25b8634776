//! Full check of a prepared folder: every object is read, hashed and decoded.
//!
//! # What
//! Checks the manifest, the part lists, the commit records and every object that they name. Recomputes hashes, rows,
//! tokens and token counts, and compares them with what records and manifest claim.
//!
//! # Why
//! `cloze prepare` trusts objects of the recorded length that are not newer than their record. Bit rot and faulty copies
//! are found here.
//!
//! # Definition
//! A part is damaged if a record, a shard or a table of documents of it is missing or differs. Other objects (manifest,
//! vocabulary, tokenizer) are written again from the records. A damaged part list cannot be remade, except the newest.
//! Signatures may be missing, since the next comparison makes them again. Objects of a listed part that no record names
//! are a problem of the folder.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use runtime::{CancelToken, PoolOptions, WorkPool};
use schemas::manifest::{CorpusReport, PartEntry};
use schemas::{Manifest, PartId};
use store::Store;

use super::config::Settings;
use super::gc;
use super::job::in_order;
use super::listing::ObjectListing;
use super::part_check::{PartCheck, PartExpectation, check_part};
use super::part_list::{ReadableLists, VersionLists};
use super::part_objects::part_of;
use super::part_pool::drain;
use super::provisional_manifest::ProvisionalManifest;
use super::signatures;
use super::verdicts::{VerdictDigests, VersionVerdicts, parts_in_effect};
use crate::load;
use crate::{Error, Result};

/// Problem of a prepared folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FolderProblem {
    /// Part of the object, if it belongs to one.
    pub part: Option<PartId>,
    /// Object and problem.
    pub message: String,
}

/// Result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderCheck {
    /// Parts that were checked.
    pub parts: u64,
    /// Objects that were hashed: shards, tables of documents, and lists of removed ones.
    pub objects: u64,
    /// Bytes of these objects.
    pub bytes: u64,
    /// Samples of both splits.
    pub rows: u64,
    /// Content tokens of both splits.
    pub tokens: u64,
    /// Problems, in the order of the parts; those of no part come first.
    pub problems: Vec<FolderProblem>,
}

impl FolderCheck {
    fn add(&mut self, part: Option<PartId>, message: String) {
        self.problems.push(FolderProblem { part, message });
    }

    /// Returns the parts with problems.
    #[must_use]
    pub fn damaged_parts(&self) -> BTreeSet<PartId> {
        self.problems.iter().filter_map(|problem| problem.part).collect()
    }
}

/// Sums over the records of all parts in effect.
#[derive(Default)]
struct RecordSums {
    entries: BTreeMap<PartId, PartEntry>,
    report: CorpusReport,
    counts: Vec<u64>,
    /// Names of the records and of the objects that they name.
    objects: Vec<String>,
}

/// Checks a prepared folder with that many threads. Changes nothing. `progress` receives the numbers of checked parts and
/// of all parts.
///
/// # Errors
/// If the store does not answer, or if nothing is prepared there. Damage is no error, but a problem of the result.
pub fn verify(
    store: &Store,
    workers: usize,
    stop: &CancelToken,
    progress: &mut dyn FnMut(u64, u64),
) -> Result<FolderCheck> {
    let mut check = FolderCheck::default();
    // Listed before the lists and the records are read: those of later objects may not be.
    let listing = ObjectListing::read(store)?;
    let ReadableLists { lists, damaged } = VersionLists::read_undamaged(store)?;
    if lists.is_empty() && damaged.is_none() {
        let message = "there is no prepared corpus here (no part list); name a `prepare.folder`";
        return Err(Error::Config(format!("{}: {message}", store.place(""))));
    }
    // Without the first list, nothing says which parts belong to the folder.
    if let Some(damaged) = damaged.as_ref() {
        check.add(None, damaged.message(store));
        if lists.is_empty() {
            return Ok(check);
        }
    }
    let manifest = read_or_add(load::open(store), &mut check)?;
    let provisional = read_or_add(ProvisionalManifest::read(store), &mut check)?;
    let expectation = provisional.as_ref().map(ProvisionalManifest::part_expectation);
    let expectation =
        expectation.or_else(|| manifest.as_ref().map(|found| PartExpectation::new(&found.tokenizer, &found.pack)));
    if let (Some(provisional), Some(manifest)) = (&provisional, &manifest)
        && !provisional.announces(manifest)
    {
        check.add(None, format!("{}: it contradicts the provisional manifest", store.place(schemas::manifest::NAME)));
    }
    if let Some(provisional) = &provisional {
        check_announced(store, provisional, manifest.as_ref(), &mut check)?;
    }
    // Without any manifest, nothing says how shards are decoded; `cloze prepare` writes both again.
    let Some(expectation) = expectation else { return Ok(check) };
    let sums = check_parts(store, &lists, expectation, workers, stop, progress, &mut check)?;
    let is_compared = check_comparison(store, &lists, &mut check)?;
    let is_known = is_compared && damaged.is_none();
    if let Some(manifest) = manifest.filter(|_| is_known && check.damaged_parts().is_empty()) {
        check_manifest(store, &manifest, &sums, &mut check)?;
    }
    if is_known {
        check_others(store, &listing, &lists, sums.objects, &mut check)?;
    }
    check.problems.sort_by_key(|problem| problem.part);
    Ok(check)
}

/// Returns what was read. Damage becomes a problem; an error of the store is returned.
fn read_or_add<T>(read: Result<T>, check: &mut FolderCheck) -> Result<Option<T>> {
    match read {
        Ok(read) => Ok(Some(read)),
        Err(error @ (Error::Io(_) | Error::Stopped)) => Err(error),
        Err(error) => {
            check.add(None, error.to_string());
            Ok(None)
        }
    }
}

/// Checks the signatures and verdicts on duplicates, if they are removed. Returns whether all verdicts are intact.
fn check_comparison(store: &Store, lists: &VersionLists, check: &mut FolderCheck) -> Result<bool> {
    let Some(settings) = lists.settings().filter(|settings| settings.removes_duplicates()) else { return Ok(true) };
    let settings = settings.digest();
    let dropped = lists.dropped(lists.newest());
    let hint = "missing or damaged; `cloze prepare` writes it again";
    let mut is_compared = true;
    for list in lists.iter() {
        let parts = parts_in_effect(list, &dropped);
        if parts.is_empty() {
            continue;
        }
        let verdicts = VersionVerdicts::read(store, &settings, list.dataset_version)?;
        let is_intact = verdicts.map(|verdicts| verdicts.is_intact(store, &parts)).transpose()?.unwrap_or_default();
        if !is_intact {
            is_compared = false;
            check.add(None, format!("verdicts on duplicates of dataset version {}: {hint}", list.dataset_version));
        }
        for part in parts {
            if signatures::is_damaged(store, &settings, part)? {
                check.add(
                    None,
                    format!("signatures of part {}: damaged; `cloze verify --repair` makes them again", part.id),
                );
            }
        }
    }
    Ok(is_compared)
}

fn check_parts(
    store: &Store,
    lists: &VersionLists,
    expectation: PartExpectation,
    workers: usize,
    stop: &CancelToken,
    progress: &mut dyn FnMut(u64, u64),
    check: &mut FolderCheck,
) -> Result<RecordSums> {
    let settings = lists.settings().map(Settings::digest).unwrap_or_default();
    let verdicts = match lists.settings() {
        Some(settings) => VerdictDigests::read(store, settings, lists)?,
        None => VerdictDigests::empty(false),
    };
    let tasks = Arc::new(in_order(lists));
    let all = tasks.len() as u64;
    let options = PoolOptions { name: "verify", item: "part", workers, queue_depth: 2 * workers };
    let store = store.clone();
    let mut results = WorkPool::<PartCheck, Error>::new(all, options, move |index, _| {
        let task = &tasks[usize::try_from(index).expect("parts are in memory")];
        check_part(&store, task, &settings, verdicts.get(task.part.id), expectation).map(Some)
    });
    let mut sums = RecordSums { counts: vec![0; expectation.vocab_size()], ..RecordSums::default() };
    drain(&mut results, stop, |part| {
        if let Some(part) = part {
            check.parts += 1;
            check.objects += part.objects;
            check.bytes += part.bytes;
            check.rows += part.rows;
            check.tokens += part.tokens;
            part.problems.into_iter().for_each(|problem| check.add(Some(part.entry.id), problem));
            for record in &part.records {
                sums.report.add(&record.report);
                record.add_counts(&mut sums.counts);
                sums.objects.extend(record.objects().map(|object| object.name.to_owned()).chain([record.file_name()]));
            }
            sums.entries.insert(part.entry.id, part.entry);
        }
        progress(check.parts, all);
        Ok(())
    })?;
    Ok(sums)
}

/// Checks the objects that the provisional manifest names and the manifest does not.
fn check_announced(
    store: &Store,
    provisional: &ProvisionalManifest,
    manifest: Option<&Manifest>,
    check: &mut FolderCheck,
) -> Result<()> {
    let is_named = |name: &str| manifest.is_some_and(|manifest| manifest.files.contains_key(name));
    for (name, blake3) in provisional.objects().filter(|(name, _)| !is_named(name)) {
        let found = store.get_with_stat(name)?;
        if found.is_none_or(|(bytes, _)| blake3::hash(&bytes).to_hex().as_str() != blake3) {
            let place = store.place(name);
            check.add(None, format!("{place}: missing or damaged; `cloze prepare` writes it again"));
        }
    }
    Ok(())
}

/// Reports objects of parts that no commit record names. Nothing is lost by them, and the end of a preparation removes
/// them.
fn check_others(
    store: &Store,
    listing: &ObjectListing,
    lists: &VersionLists,
    named: Vec<String>,
    check: &mut FolderCheck,
) -> Result<()> {
    const SHOWN: usize = 5;
    let ours = [named, gc::comparison_objects(lists)].concat();
    // The records of a damaged part do not name all of its objects.
    let damaged = check.damaged_parts();
    let mut others = gc::others(listing, lists, &ours);
    others.retain(|name| part_of(name).is_none_or(|part| !damaged.contains(&part)));
    if others.is_empty() {
        return Ok(());
    }
    // A preparation may have removed them meanwhile.
    let listing = ObjectListing::read(store)?;
    others.retain(|name| listing.has(name));
    if !others.is_empty() {
        let dots = if others.len() > SHOWN { ", …" } else { "" };
        let shown = others.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
        let count = others.len();
        check.add(
            None,
            format!(
                "{}: no commit record names {count} objects of parts ({shown}{dots}); they are not used, and `cloze \
                 prepare` or `cloze verify --repair` removes them",
                store.place("")
            ),
        );
    }
    Ok(())
}

/// Compares the newest dataset version of the manifest with the records, and reads the objects that it names.
fn check_manifest(store: &Store, manifest: &Manifest, sums: &RecordSums, check: &mut FolderCheck) -> Result<()> {
    let newest = manifest.newest();
    let entry = manifest.dataset_version(newest);
    let place = store.place(schemas::manifest::NAME);
    let found: BTreeMap<PartId, &PartEntry> = manifest.parts(newest).map(|part| (part.id, part)).collect();
    if !found.into_iter().eq(sums.entries.iter().map(|(&id, entry)| (id, entry))) {
        check.add(None, format!("{place}: its parts are not those of the commit records"));
    }
    if entry.corpus != sums.report {
        check.add(None, format!("{place}: its counts of documents are not those of the commit records"));
    }
    if entry.content != manifest.effective(newest).train.content() {
        check.add(None, format!("{place}: its content hash is not that of its shards"));
    }
    if let Some(vocab) = read_or_add(load::read_vocab(store, manifest, newest), check)?
        && vocab.counts() != sums.counts
    {
        let place = store.place(&entry.vocab.path);
        check.add(None, format!("{place}: its counts are not those of the commit records"));
    }
    match load::read_tokenizer(store, manifest) {
        Err(Error::Io(error)) if error.kind() != std::io::ErrorKind::NotFound => return Err(error.into()),
        read => drop(read.map_err(|error| check.add(None, error.to_string()))),
    }
    Ok(())
}
