//! Signatures of one part: read its documents, sign them, write the signatures and their record, in one thread.

use duplicates::{Normalized, Signer};
use runtime::CancelToken;

use super::job::{PartAccess, PrepareJob};
use super::leases;
use super::progress::Progress;
use super::signatures::{self, SignatureRecord, SignatureWriter};
use super::text_rules::{RuleCounts, TextPlace};
use super::unusable_part;
use crate::corpus::{DocumentPlace, Part};
use crate::unusable_files::UnusableFiles;
use crate::{Error, Result};

/// Result of an attempt at the signatures of a part.
#[derive(Debug)]
pub(super) enum SignResult {
    Made,
    /// They exist and are intact.
    Kept,
    /// Another process has leased them.
    Leased,
    /// The part has files that cannot be used.
    Unusable(UnusableFiles),
}

/// Makes the signatures of a part, unless they exist and are intact. Returns `None` after a stop.
pub(super) fn sign_part(
    work: &PrepareJob,
    part: &Part,
    progress: &Progress,
    stop: &CancelToken,
) -> Result<Option<SignResult>> {
    match find_or_sign(work, part, progress, stop) {
        Err(error @ Error::UnusableFile { .. }) => {
            Ok(Some(SignResult::Unusable(unusable_part::find_all(work, part, error, stop)?)))
        }
        signed => signed,
    }
}

fn find_or_sign(work: &PrepareJob, part: &Part, progress: &Progress, stop: &CancelToken) -> Result<Option<SignResult>> {
    let (Some(store), Some(config)) = (work.comparison_store(), &work.config.duplicates) else {
        return Ok(Some(SignResult::Kept));
    };
    let count = progress.part();
    let is_intact = || Ok::<_, Error>(SignatureRecord::read_intact(store, &work.settings, part)?.is_some());
    if is_intact()? {
        progress.finish_part(part, &count);
        return Ok(Some(SignResult::Kept));
    }
    // Released on drop.
    let mut lease = None;
    if let PartAccess::Lease(contender) = &work.access {
        lease = leases::try_acquire(contender, &leases::signatures_name(part.id), &count)?;
        if lease.is_none() {
            return Ok(Some(SignResult::Leased));
        }
        // The previous holder may have completed them.
        if is_intact()? {
            progress.finish_part(part, &count);
            return Ok(Some(SignResult::Kept));
        }
    }
    let is_own = work.tasks.iter().any(|task| task.part.id == part.id);
    if !is_own {
        let message = "it is missing or damaged, and another share makes it; run `cloze prepare signatures` of all \
                       shares again";
        let place = store.place(&signatures::record_name(part));
        return Err(Error::Unfinished { place, message: message.to_owned() });
    }
    let near = config.near_options();
    let mut signer = Signer::new(near);
    // Counted when the part is made.
    let mut filtered = RuleCounts::new(&work.tools.rules);
    let bands = near.map_or(0, |near| near.bands);
    let mut writer = SignatureWriter::new(store, part, bands, work.lists_removed())?;
    let mut documents = work.corpus.documents(part, DocumentPlace::default(), &count)?;
    let room = documents.memory_budget().clone();
    while let Some(found) = documents.next() {
        let found = found?;
        if stop.is_cancelled() {
            return Ok(None);
        }
        // A document that is removed anyway must not remove another one.
        let is_sampled = work.options.samples(part, &found, work.config.seed);
        let document = found.document.as_ref().filter(|document| is_sampled && work.accepts_length(&document.text));
        let place = TextPlace { piece: found.piece, line: found.line };
        let kept = document.and_then(|document| {
            let text = work.filter(&document.text, place, &mut filtered, &room).ok()?;
            Some((&document.id, text))
        });
        let test_sets = work.tools.test_sets.as_ref();
        let is_contaminated =
            |text: Normalized<'_>| test_sets.is_some_and(|sets| sets.index.find(text).next().is_some());
        if let Some((id, text)) = &kept
            && let Some(signature) = signer.sign_unless(text, is_contaminated)
        {
            let bytes = signatures::document_bytes(bands);
            work.dry_run.as_ref().map_or(Ok(()), |dry_run| dry_run.count_signature(bytes))?;
            writer.add(found.piece, found.range.start, id, signature)?;
        }
        documents.take_back(found);
    }
    let read = documents.read().iter().map(|(_, end)| end.clone()).collect();
    writer.finish(&work.settings, read)?;
    drop(lease);
    progress.finish_part(part, &count);
    Ok(Some(SignResult::Made))
}
