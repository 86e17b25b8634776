//! The dataset versions that a run reads: of its prepared folder, or of each source of its mixture.
//!
//! # What
//! [`DatasetVersions`] is the version that a run began with and, for each epoch so far, the version that the epoch reads. It
//! is written to the run folder (`dataset_versions.json`, or `dataset_versions/SOURCE.json` for each source of a mixture, whose
//! epochs are its own) before any row of an epoch is rendered.
//!
//! # Why
//! A prepared folder grows while runs read it, and a run that is killed must resume with the data that it had. With
//! `data.version = "pinned"` all epochs read the version that the run began with ([`PinnedVersion`]). With `"latest"`,
//! each epoch reads the newest version at the time when its first row is requested. If the first epoch is streamed
//! ([`streamed`]), the list also records how far it was read, so that other text under the same names is noticed.

mod list;
pub mod pauses;
pub mod streamed;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline::epoch_plan::{EpochVersions, SplitSnapshot};
use pipeline::load::{self, RowOrder, VersionChoice};
use pipeline::{Error, Result};
use schemas::{DatasetVersion, Epoch, Manifest, Shard, manifest};
use store::{Store, Version};

use self::list::{ReadPrefix, VersionList, other_data};
pub(crate) use self::list::{hashes_of, list_name, part_lists};

/// The dataset versions of one run.
#[derive(Debug)]
pub struct DatasetVersions {
    data: Store,
    /// Name of the list in the run folder.
    name: String,
    choice: VersionChoice,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    list: VersionList,
    /// The list as it was found.
    found: Option<VersionList>,
    /// The answer for the last epoch that was asked for.
    edition: Option<Arc<SplitSnapshot>>,
    /// The version of the manifest file that `edition` was made of.
    seen: Option<Version>,
    /// Where the list is written; none for commands that only look.
    run: Option<Store>,
}

impl DatasetVersions {
    /// Reads the versions of the run in the folder `run`, which reads the prepared folder `data`: the only one, or that of
    /// `source`. A run that is not there yet begins with the newest version. `hashes` identify the data of each version:
    /// [`hashes_of`], or those of [`part_lists`] if the rows are streamed.
    ///
    /// # Errors
    /// [`Error::Config`] if the list is damaged or of another folder, [`Error::Io`] if it cannot be read.
    pub(crate) fn open(
        run: &Path,
        data: &Store,
        source: Option<&str>,
        order: RowOrder,
        choice: VersionChoice,
        hashes: &[String],
    ) -> Result<Self> {
        let name = list_name(source);
        let has_run = !run.as_os_str().is_empty() && run.is_dir();
        let found = if has_run { VersionList::read(&Store::existing(run)?, &name)? } else { None };
        let list = found.clone().unwrap_or_else(|| VersionList::new(order, hashes));
        list.check_order(order)?;
        list.check_hashes(hashes, data)?;
        let state = State { list, found, edition: None, seen: None, run: None };
        Ok(Self { data: data.clone(), name, choice, state: Mutex::new(state) })
    }

    /// The version that the run began with.
    pub(crate) fn first(&self) -> DatasetVersion {
        self.lock().list.first()
    }

    /// Whether all epochs read the version that the run began with.
    pub(crate) fn is_pinned(&self) -> bool {
        self.choice == VersionChoice::Pinned
    }

    /// The versions of the epochs of a training stream.
    pub(crate) fn of_epochs(self: &Arc<Self>) -> Arc<dyn EpochVersions> {
        let versions = Arc::clone(self);
        if self.is_pinned() { Arc::new(PinnedVersion(versions)) } else { versions }
    }

    /// From now on every answer is written to the run folder. Call it when the lock of the run folder is held.
    ///
    /// # Errors
    /// [`Error::Config`] if another process has written a list since this one was opened.
    pub fn keep_in(&self, run: Store) -> Result<()> {
        let mut state = self.lock();
        match VersionList::read(&run, &self.name)? {
            Some(found) if found == state.list => {}
            found if found == state.found => state.list.write(&run, &self.name)?,
            _ => {
                let place = run.place(&self.name);
                let message =
                    "another process has trained here since this one began to plan; run the same command again";
                return Err(Error::Config(format!("{place}: {message}")));
            }
        }
        state.run = Some(run);
        Ok(())
    }

    /// Number of shards of a streamed epoch that the run has read, by its list.
    fn shards_read(&self) -> u64 {
        self.lock().list.streamed.as_ref().map_or(0, |read| read.shards)
    }

    /// Records that the run reads these shards of a streamed epoch.
    ///
    /// # Errors
    /// [`Error::Config`] if they do not begin with the shards that it read before.
    fn note_read(&self, shards: &[Shard]) -> Result<()> {
        let mut state = self.lock();
        let Some(read) = &state.list.streamed else { return Ok(()) };
        if !read.begins(shards) {
            return Err(other_data(state.list.first(), &self.data));
        }
        if read.shards == shards.len() as u64 {
            return Ok(());
        }
        let list = VersionList { streamed: Some(ReadPrefix::new(shards.to_vec())), ..state.list.clone() };
        self.write(&state, &list)?;
        state.list = list;
        Ok(())
    }

    /// Writes a list, where lists are written.
    fn write(&self, state: &State, list: &VersionList) -> Result<()> {
        state.run.as_ref().map_or(Ok(()), |run| list.write(run, &self.name))
    }

    /// The manifest, after a check that it is of the data that the run read.
    fn manifest(&self, state: &State) -> Result<Manifest> {
        let manifest = load::open(&self.data)?;
        state.list.check_hashes(&self.hashes(state, &manifest)?, &self.data)?;
        state.list.check_read(&manifest, &self.data)?;
        Ok(manifest)
    }

    /// The hashes by which the run identifies versions: those of part lists are known before the first part is made.
    fn hashes(&self, state: &State, manifest: &Manifest) -> Result<Vec<String>> {
        Ok(match state.list.order() {
            RowOrder::Shuffled => hashes_of(manifest),
            RowOrder::Streamed => part_lists(&self.data)?.hashes(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl EpochVersions for DatasetVersions {
    fn of(&self, epoch: Epoch) -> Result<Arc<SplitSnapshot>> {
        let mut state = self.lock();
        if state.list.at(epoch).is_none() {
            assert_eq!(epoch.0, state.list.epochs, "epochs are decided one after another");
            let manifest = self.manifest(&state)?;
            let mut list = state.list.clone();
            list.push(manifest.newest(), &self.hashes(&state, &manifest)?);
            // Written first: after a kill, the run must know what it had rendered.
            self.write(&state, &list)?;
            let edition = SplitSnapshot::train(&manifest, manifest.newest());
            (state.list, state.edition) = (list, Some(Arc::new(edition)));
        }
        let dataset_version = state.list.at(epoch).expect("it was just decided");
        let known = state.edition.take().filter(|edition| edition.dataset_version == dataset_version);
        let edition = match known {
            Some(edition) => edition,
            None => Arc::new(SplitSnapshot::train(&self.manifest(&state)?, dataset_version)),
        };
        state.edition = Some(Arc::clone(&edition));
        Ok(edition)
    }

    fn decided(&self) -> u64 {
        self.lock().list.epochs
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

/// The version that a run began with, for each of its epochs: the same answer, as long as the prepared folder is the same
/// and none of its parts was dropped.
///
/// The manifest is looked at for each epoch, and read if it has changed. So a run that has all data in memory stops when
/// a part of it is dropped.
#[derive(Debug)]
pub(crate) struct PinnedVersion(pub(crate) Arc<DatasetVersions>);

impl EpochVersions for PinnedVersion {
    fn of(&self, _: Epoch) -> Result<Arc<SplitSnapshot>> {
        let mut state = self.0.lock();
        let now = self.0.data.stat(manifest::NAME)?.map(|stat| stat.version);
        if now.is_none() || now != state.seen {
            let manifest = self.0.manifest(&state)?;
            let first = state.list.first();
            (state.edition, state.seen) = (Some(Arc::new(SplitSnapshot::train(&manifest, first))), now);
        }
        Ok(Arc::clone(state.edition.as_ref().expect("it was made when the manifest was read")))
    }

    fn decided(&self) -> u64 {
        u64::MAX
    }
}
