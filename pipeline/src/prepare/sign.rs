//! Signatures of one part: read its documents, sign them, write the signatures and their record, in one thread.

use duplicates::Signer;
use runtime::CancelToken;

use super::job::PrepareJob;
use super::progress::Progress;
use super::signatures::{SignatureRecord, SignatureWriter};
use crate::Result;
use crate::corpus::{DocumentPlace, Part};

/// Makes the signatures of a part, unless they exist and are intact. Returns `None` after a stop, and otherwise whether
/// they were made.
pub(super) fn sign_part(
    work: &PrepareJob,
    part: &Part,
    progress: &Progress,
    stop: &CancelToken,
) -> Result<Option<bool>> {
    let (Some(store), Some(config)) = (work.store(), &work.config.duplicates) else { return Ok(Some(false)) };
    let count = progress.part();
    if let Some(record) = SignatureRecord::read(store, &work.settings, part)?
        && record.is_intact(store)?
    {
        progress.finish_part(part, &count);
        return Ok(Some(false));
    }
    let near = config.near_options();
    let mut signer = Signer::new(near);
    let mut writer = SignatureWriter::new(store, part, near.map_or(0, |near| near.bands))?;
    let mut documents = work.corpus.documents(part, DocumentPlace::default(), &count)?;
    while let Some(found) = documents.next() {
        let found = found?;
        if stop.is_cancelled() {
            return Ok(None);
        }
        // A document that is rejected anyway must not remove another one.
        if let Some(document) = found.document.as_ref().filter(|document| work.accepts_length(&document.text)) {
            writer.add(found.piece, found.range.start, signer.sign(&document.text))?;
        }
        documents.take_back(found);
    }
    let read = documents.read().iter().map(|(_, end)| end.clone()).collect();
    writer.finish(&work.settings, read)?;
    progress.finish_part(part, &count);
    Ok(Some(true))
}
