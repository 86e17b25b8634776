//! Detection of a prepared folder whose preparation is incomplete, so that it has no manifest yet.

use pipeline::prepare::PartLists;
use pipeline::{Error, Result};
use schemas::manifest;
use store::Store;

/// Returns an error that names the progress of the preparation if it is incomplete; otherwise returns `error`.
pub(super) fn or_half_prepared(store: &Store, error: Error) -> Error {
    match parts(store) {
        Ok(Some((done, all))) => {
            let message = format!("prepared to {done} of {all} parts; run `cloze prepare` to its end");
            Error::Config(format!("{}: {message}", store.place("")))
        }
        // `cloze prepare` reports any other defect of such a folder.
        _ => error,
    }
}

/// Returns the number of finished parts and of all. `None` if the folder is complete or no preparation has begun.
fn parts(store: &Store) -> Result<Option<(usize, usize)>> {
    if store.head(manifest::NAME)?.is_some() {
        return Ok(None);
    }
    let Some(lists) = PartLists::read(store)? else { return Ok(None) };
    let mut pending = lists.pending(lists.newest())?;
    pending.more()?;
    Ok(Some(pending.done()))
}
