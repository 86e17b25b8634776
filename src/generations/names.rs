//! By what a run knows the data of a generation again.

use std::sync::Arc;

use pipeline::prepare::Listed;
use pipeline::{Error, Result};
use schemas::{Generation, Manifest};
use store::Store;

/// The names of the generations of a prepared folder.
#[derive(Clone, Debug)]
pub(crate) enum Names<'a> {
    /// The hashes of their training data, which are known when they are whole.
    Contents(&'a Manifest),
    /// Those of their part lists, which are known before the first part: what a streamed run goes by.
    Lists(Arc<Listed>),
}

impl<'a> Names<'a> {
    /// Those by which a run goes that is streamed or not.
    pub(super) fn by(are_lists: bool, manifest: &'a Manifest, data: &Store) -> Result<Self> {
        Ok(if are_lists { Self::Lists(Arc::new(listed(data)?)) } else { Self::Contents(manifest) })
    }

    pub(super) fn of(&self, generation: Generation) -> String {
        match self {
            Self::Contents(manifest) => manifest.generation(generation).content.clone(),
            Self::Lists(listed) => listed.name(generation),
        }
    }

    pub(super) fn newest(&self) -> Generation {
        match self {
            Self::Contents(manifest) => manifest.newest(),
            Self::Lists(listed) => listed.newest(),
        }
    }

    pub(super) fn are_lists(&self) -> bool {
        matches!(self, Self::Lists(_))
    }
}

/// The part lists of a prepared folder.
///
/// # Errors
/// [`Error::Unfinished`] if there are none.
pub(crate) fn listed(data: &Store) -> Result<Listed> {
    Listed::read(data)?.ok_or_else(|| Error::Unfinished {
        place: data.place(""),
        message:
            "there is no part list here, which a streamed run goes by; run `cloze prepare`, or change `data.folder`"
                .to_owned(),
    })
}
