//! Unusable files of a part: the one at which a worker failed, and those after it.

use runtime::CancelToken;
use tracing::warn;

use super::job::PrepareJob;
use crate::corpus::{BytesRead, DocumentPlace, Part};
use crate::unusable_files::UnusableFiles;
use crate::{Error, Result};

/// Returns all unusable files of a part in which one was found. The files after it are read for that.
///
/// # Errors
/// The error itself if it is about something else, or if the preparation must not continue: a reader that follows the
/// parts in order would wait for this one.
pub(super) fn find_all(work: &PrepareJob, part: &Part, first: Error, stop: &CancelToken) -> Result<UnusableFiles> {
    let mut files = UnusableFiles::default();
    if work.options.in_order {
        return Err(first);
    }
    let mut error = first;
    loop {
        let next = piece_after(work, part, &error);
        let message = error.to_string();
        files.add(error)?;
        warn!(part = part.id.0, error = message, "prepare: a file cannot be used; the other parts are made");
        error = match read(work, part, next, stop) {
            Ok(()) => return Ok(files),
            Err(error) => error,
        };
    }
}

/// Returns the index of the first piece after the file of an error.
fn piece_after(work: &PrepareJob, part: &Part, error: &Error) -> usize {
    let Error::UnusableFile { path, .. } = error else { return part.pieces.len() };
    let last = part.pieces.iter().rposition(|piece| work.corpus.path(piece) == path);
    last.map_or(part.pieces.len(), |last| last + 1)
}

/// Reads a part from a piece on, for its errors.
fn read(work: &PrepareJob, part: &Part, piece: usize, stop: &CancelToken) -> Result<()> {
    let from = DocumentPlace { piece, reached: None };
    let mut documents = work.corpus.documents(part, from, &BytesRead::default())?;
    while let Some(found) = documents.next().filter(|_| !stop.is_cancelled()) {
        documents.take_back(found?);
    }
    Ok(())
}
