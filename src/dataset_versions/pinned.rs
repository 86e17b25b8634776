//! A run all of whose epochs read one dataset version.

use std::sync::Arc;

use pipeline::Result;
use pipeline::course::{Edition, EpochVersions};
use schemas::{Epoch, manifest};

use super::DatasetVersions;

/// The version that a run began with, for each of its epochs: the same answer, as long as the prepared folder is the same
/// and none of its parts was dropped.
///
/// The manifest is looked at for each epoch, and read if it has changed. So a run that has all data in memory stops when
/// a part of it is dropped.
#[derive(Debug)]
pub(crate) struct PinnedVersion(pub(crate) Arc<DatasetVersions>);

impl EpochVersions for PinnedVersion {
    fn of(&self, _: Epoch) -> Result<Arc<Edition>> {
        let mut state = self.0.lock();
        let now = self.0.data.stat(manifest::NAME)?.map(|stat| stat.version);
        if now.is_none() || now != state.seen {
            let manifest = self.0.manifest(&state)?;
            let first = state.list.first();
            (state.edition, state.seen) = (Some(Arc::new(Edition::train(&manifest, first))), now);
        }
        Ok(Arc::clone(state.edition.as_ref().expect("it was made when the manifest was read")))
    }

    fn decided(&self) -> u64 {
        u64::MAX
    }
}
