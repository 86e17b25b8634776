//! A prepared folder that has no manifest yet, since somebody has only begun to fill it.

use pipeline::prepare::PartLists;
use pipeline::{Error, Result};
use schemas::manifest;
use store::Store;

/// How far it is prepared, where that is what keeps it from being opened; or why it is not otherwise.
pub(super) fn or_half_prepared(store: &Store, error: Error) -> Error {
    match parts(store) {
        Ok(Some((done, all))) => {
            let message = format!("prepared to {done} of {all} parts; run `cloze prepare` to its end");
            Error::Config(format!("{}: {message}", store.place("")))
        }
        // What else is wrong with such a folder is for `cloze prepare` to say.
        _ => error,
    }
}

/// The parts that are there, and all; none if the folder is whole or nobody has begun.
fn parts(store: &Store) -> Result<Option<(usize, usize)>> {
    if store.stat(manifest::NAME)?.is_some() {
        return Ok(None);
    }
    let Some(lists) = PartLists::read(store)? else { return Ok(None) };
    let mut pending = lists.pending(lists.newest())?;
    pending.more()?;
    Ok(Some(pending.done()))
}
