//! Comparison of all documents before the parts: signatures of each part, then verdicts of each dataset version.
//!
//! Documents are ordered by dataset version, file name and position. The verdicts of a dataset version are made once,
//! from the parts in effect at that time: documents of earlier versions keep their verdicts, and new ones are compared
//! with them. Those that were removed connect others, so the cluster of a document stays whole. Forgotten documents take
//! part in the comparison, so their clusters do not return. Lost verdicts are made again from the parts that were in
//! effect then: signatures and verdicts of dropped parts are kept for that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::thread;
use std::time::Instant;

use duplicates::{BitSet, FoldPlan, Verdicts, fold};
use runtime::{CancelToken, PoolOptions, WorkPool};
use schemas::{DatasetVersion, PartId};
use store::Store;
use telemetry::EventKind;
use tracing::info;

use super::commit_record::recorded_verdicts;
use super::job::{PartAccess, PrepareJob};
use super::numbered_parts::{NumberedDocument, NumberedPart, StoredColumns, changed, number};
use super::part_list::VersionLists;
use super::part_pool::{DEPTH, drain};
use super::partners::PartnerWriter;
use super::progress::{EventSink, Progress};
use super::sign::{SignResult, sign_part};
use super::signatures::SignatureRecord;
use super::verdicts::{DuplicateKind, PartVerdicts, RemovedDocument, VerdictDigests, VersionVerdicts, parts_in_effect};
use crate::corpus::Part;
use crate::unusable_files::UnusableFiles;
use crate::{Error, Result};

/// Share of `prepare.max_memory_bytes` for hashes that are sorted at a time. No text is in memory during a fold.
const MEMORY_SHARE: u64 = 2;

/// Returns the bytes of a fold for hashes that are sorted at a time.
pub(super) fn sorted_bytes(max_memory_bytes: u64) -> u64 {
    max_memory_bytes / MEMORY_SHARE
}

/// Makes the missing signatures of these parts. Waits for those that other processes make. One error names all files that
/// cannot be used, after the signatures of all other parts.
pub(super) fn sign_parts(
    work: &Arc<PrepareJob>,
    mut parts: Vec<Part>,
    stop: &CancelToken,
    voice: &mut EventSink<'_>,
) -> Result<()> {
    let mut unusable = UnusableFiles::default();
    loop {
        parts = sign_free_parts(work, parts, &mut unusable, stop, voice)?;
        let (PartAccess::Lease(contender), false) = (&work.access, parts.is_empty()) else {
            return unusable.refuse();
        };
        thread::sleep(contender.terms().heartbeat_interval);
    }
}

/// Makes the missing signatures of these parts. Returns the parts that other processes have leased.
fn sign_free_parts(
    work: &Arc<PrepareJob>,
    parts: Vec<Part>,
    unusable: &mut UnusableFiles,
    stop: &CancelToken,
    voice: &mut EventSink<'_>,
) -> Result<Vec<Part>> {
    let began = Instant::now();
    let parts = Arc::new(parts);
    let progress = Arc::new(Progress::new(parts.iter()));
    let workers = work.config.workers();
    let options = PoolOptions { name: "sign", item: "part", workers, queue_depth: DEPTH * workers };
    let mut results = {
        let (work, parts, progress) = (Arc::clone(work), Arc::clone(&parts), Arc::clone(&progress));
        WorkPool::new(parts.len() as u64, options, move |index, stop| {
            let part = usize::try_from(index).expect("parts are in memory");
            Ok::<_, Error>(sign_part(&work, &parts[part], &progress, stop)?.map(|result| (part, result)))
        })
    };
    let mut made = 0_u64;
    let mut leased = Vec::new();
    drain(&mut results, stop, |item| {
        match item {
            Some((_, SignResult::Made)) => made += 1,
            Some((part, SignResult::Leased)) => leased.push(parts[part].clone()),
            Some((_, SignResult::Unusable(files))) => unusable.append(files),
            Some((_, SignResult::Kept)) | None => {}
        }
        voice.emit(EventKind::PrepareProgress(progress.at(began.elapsed())));
        Ok(())
    })?;
    if made > 0 {
        info!(parts = made, seconds = began.elapsed().as_secs_f64(), "prepare: signatures of documents made");
    }
    Ok(leased)
}

/// Makes the missing signatures and verdicts of all parts in effect. Returns the digests of the verdicts.
pub(super) fn compare_documents(
    work: &Arc<PrepareJob>,
    lists: &VersionLists,
    stop: &CancelToken,
    voice: &mut EventSink<'_>,
) -> Result<VerdictDigests> {
    let mut digests = VerdictDigests::empty(work.config.duplicates.is_some());
    let (Some(store), true) = (work.comparison_store(), work.config.duplicates.is_some()) else { return Ok(digests) };
    let dropped_now = lists.dropped(lists.newest());
    let mut dropped_then = BTreeSet::new();
    let mut earlier = Vec::<&Part>::new();
    for list in lists.iter() {
        dropped_then.extend(list.dropped.iter().copied());
        earlier.retain(|part| !dropped_then.contains(&part.id));
        let in_effect = parts_in_effect(list, &dropped_now);
        if !in_effect.is_empty() {
            let verdicts = match VersionVerdicts::read(store, &work.settings, list.dataset_version)? {
                Some(known) if known.is_intact(store, &in_effect)? => known,
                _ => {
                    let is_there = |part: &Part| !dropped_now.contains(&part.id);
                    let parts = keep(&list.parts, |part| Ok(is_there(part) || is_signed(work, store, part)?))?;
                    let before = keep(earlier.iter().copied(), |part| {
                        Ok(is_there(part) || is_signed(work, store, part)? && has_verdicts(store, part, &digests)?)
                    })?;
                    let signed = before.iter().chain(&parts).filter(|part| is_there(part));
                    sign_parts(work, signed.map(|part| (*part).clone()).collect(), stop, voice)?;
                    make_verdicts(work, store, list.dataset_version, &before, &parts, &digests)?
                }
            };
            digests.add(Some(verdicts));
        }
        earlier.extend(&list.parts);
    }
    Ok(digests)
}

/// Keeps the parts for which a check holds.
fn keep<'p>(
    parts: impl IntoIterator<Item = &'p Part>,
    is_kept: impl Fn(&Part) -> Result<bool>,
) -> Result<Vec<&'p Part>> {
    let checked = parts.into_iter().map(|part| Ok((is_kept(part)?, part)));
    checked.filter_map(|checked| checked.map(|(is_kept, part)| is_kept.then_some(part)).transpose()).collect()
}

/// Whether the signatures of a part are intact.
fn is_signed(work: &PrepareJob, store: &Store, part: &Part) -> Result<bool> {
    Ok(SignatureRecord::read_intact(store, &work.settings, part)?.is_some())
}

/// Whether the verdicts of a part of an earlier dataset version are intact.
fn has_verdicts(store: &Store, part: &Part, digests: &VerdictDigests) -> Result<bool> {
    let Some(digest) = digests.get(part.id) else { return Ok(false) };
    Ok(PartVerdicts::read(store, part.id, digest)?.is_some())
}

/// Makes and writes the verdicts on the documents of `parts`.
fn make_verdicts(
    work: &PrepareJob,
    store: &Store,
    dataset_version: DatasetVersion,
    earlier: &[&Part],
    parts: &[&Part],
    digests: &VerdictDigests,
) -> Result<VersionVerdicts> {
    let began = Instant::now();
    let config = work.config.duplicates.as_ref().expect("duplicates are removed");
    let mut documents = 0;
    let mut numbered = number(&work.settings, store, earlier, &mut documents)?;
    let settled = documents;
    numbered.extend(number(&work.settings, store, parts, &mut documents)?);
    let mut removed = BitSet::new(settled);
    for part in &numbered[..earlier.len()] {
        let id = part.record.part.id;
        let digest = digests.get(id).expect("earlier verdicts were made before");
        let lost = || changed(store, &super::verdicts::part_name(id));
        for document in PartVerdicts::read(store, id, digest)?.ok_or_else(lost)?.iter() {
            let first = part.first.get(document.piece as usize).copied().unwrap_or(settled);
            if let Some(number) = first.checked_add(document.number).filter(|&number| number < settled) {
                removed.insert(number);
            }
        }
    }
    let bands = config.near_options().map_or(0, |near| near.bands);
    let max_bytes = sorted_bytes(work.config.max_memory_bytes);
    let plan = FoldPlan { documents, settled, bands, max_bytes, keeps_partners: work.lists_removed() };
    let mut columns = StoredColumns { store, parts: &numbered, exact: config.exact };
    let verdicts = fold(&plan, &removed, &mut columns)?;
    let new = &numbered[earlier.len()..];
    refuse_other_verdicts(work, store, dataset_version, new, &verdicts)?;
    let mut digests = BTreeMap::<PartId, String>::new();
    let mut partners = plan.keeps_partners.then(|| PartnerWriter::new(columns, plan.bands, &verdicts, plan.max_bytes));
    for (index, part) in (earlier.len()..).zip(new) {
        let own = of_part(store, part, &verdicts)?;
        partners.as_mut().map_or(Ok(()), |partners| partners.add(index, &own))?;
        digests.insert(part.record.part.id, own.write(store, &part.record.part)?);
    }
    let partners = partners.map_or_else(|| Ok(BTreeMap::new()), PartnerWriter::finish)?;
    let made = VersionVerdicts { settings: work.settings.clone(), dataset_version, parts: digests, partners };
    made.write(store)?;
    info!(
        documents = u64::from(documents),
        exact = verdicts.exact.count(),
        near = verdicts.near.count(),
        seconds = began.elapsed().as_secs_f64(),
        "prepare: documents compared"
    );
    Ok(made)
}

/// Refuses verdicts other than those with which parts were made. They differ if dropped parts that were compared have no
/// signatures any more.
fn refuse_other_verdicts(
    work: &PrepareJob,
    store: &Store,
    dataset_version: DatasetVersion,
    parts: &[NumberedPart],
    verdicts: &Verdicts,
) -> Result<()> {
    for part in parts {
        let Some(made_with) = recorded_verdicts(store, &work.settings, &part.record.part, &work.listing)? else {
            continue;
        };
        if made_with != of_part(store, part, verdicts)?.digest() {
            let message = format!(
                "the verdicts on duplicates of dataset version {dataset_version} are lost, and so are the signatures of \
                 parts that were dropped later; restore `verdicts/`, or prepare into another `prepare.folder`"
            );
            return Err(Error::Config(format!("{}: {message}", store.place(""))));
        }
    }
    Ok(())
}

/// Collects the removed documents of a part.
fn of_part(store: &Store, part: &NumberedPart, verdicts: &Verdicts) -> Result<PartVerdicts> {
    let mut found = PartVerdicts::default();
    let mut documents = part.documents();
    part.record.starts(store, |start| {
        let NumberedDocument { piece, number, document } = documents.next().expect("as many as starts");
        let kind = if verdicts.exact.contains(document) {
            DuplicateKind::Exact
        } else if verdicts.near.contains(document) {
            DuplicateKind::Near
        } else {
            return;
        };
        found.push(RemovedDocument { piece, number, start, kind });
    })?;
    Ok(found)
}
