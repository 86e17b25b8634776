//! The dataset versions that a run reads: of its prepared folder, or of each source of its mixture.
//!
//! # What
//! [`DatasetVersions`] is the version that a run began with and, for each epoch so far, the version that the epoch
//! reads. It is written to the run folder (`dataset_versions.json`, or `dataset_versions/SOURCE.json` for each source
//! of a mixture, whose epochs are its own) before any row of an epoch is rendered.
//!
//! # Why
//! A prepared folder grows while runs read it, and a run that is killed must resume with the data that it had. With
//! `data.version = "pinned"` all epochs read the version that the run began with ([`PinnedVersion`]). With `"latest"`,
//! each epoch reads the newest version at the time when its first row is requested. If the first epoch is streamed
//! ([`streamed`]), the list also records how far it was read, so that other text under the same names is noticed.
//!
//! Rank 0 decides for all ranks. The others wait until the list has an epoch.

mod list;
pub mod pauses;
pub mod streamed;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use pipeline::epoch_plan::{EpochVersions, SplitSnapshot};
use pipeline::load::{self, RowOrder, VersionChoice};
use pipeline::{Error, Result};
use runtime::{CancelToken, starved};
use schemas::{DatasetVersion, Epoch, Manifest, Shard, manifest};
use store::{Store, Version};

use self::list::{ReadPrefix, VersionList, other_data};
pub(crate) use self::list::{hashes_of, list_name, part_lists};

/// Maximum time in which rank 0 decides on an epoch that another rank has reached.
const MAX_WAIT: Duration = Duration::from_secs(300);

/// Interval of reads until it has.
const POLL: Duration = Duration::from_millis(50);

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
    /// The list as read when this was opened.
    found: Option<VersionList>,
    /// Snapshot for the last requested epoch.
    snapshot: Option<Arc<SplitSnapshot>>,
    /// Version of the manifest file from which `snapshot` was built.
    seen: Option<Version>,
    /// Run folder to which the list is written. `None` for commands that write nothing.
    run: Option<Store>,
    /// Run folder of rank 0, which writes the list. `None` on rank 0.
    followed: Option<Store>,
}

impl DatasetVersions {
    /// Reads the versions of the run in the folder `run`. The run reads the prepared folder `data`: the only one, or
    /// the folder of `source`. A run that does not exist yet begins with the newest version. `hashes` identify the data
    /// of each version:
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
        let has_run = !run.as_os_str().is_empty() && remote_store::may_exist(run);
        let found = if has_run { VersionList::read(&remote_store::existing_path(run)?, &name)? } else { None };
        let list = found.clone().unwrap_or_else(|| VersionList::new(order, hashes));
        list.check_order(order)?;
        list.check_hashes(hashes, data)?;
        let state = State { list, found, snapshot: None, seen: None, run: None, followed: None };
        Ok(Self { data: data.clone(), name, choice, state: Mutex::new(state) })
    }

    /// The version that the run began with.
    pub(crate) fn first(&self) -> DatasetVersion {
        self.lock().list.first()
    }

    /// Whether all epochs read the version that the run began with.
    pub fn is_pinned(&self) -> bool {
        self.choice == VersionChoice::Pinned
    }

    /// The versions of the epochs of a training stream.
    pub(crate) fn of_epochs(self: &Arc<Self>) -> Arc<dyn EpochVersions> {
        let versions = Arc::clone(self);
        if self.is_pinned() { Arc::new(PinnedVersion(versions)) } else { versions }
    }

    /// Writes every later answer to the run folder. The caller must hold the lock of the run folder.
    ///
    /// # Errors
    /// [`Error::Config`] if another process has written a list since this one was opened.
    pub fn record_in(&self, run: Store) -> Result<()> {
        let mut state = self.lock();
        match VersionList::read(&run, &self.name)? {
            Some(found) if found == state.list => {}
            found if found == state.found => state.list.write(&run, &self.name)?,
            _ => return Err(self.planned_too_early(&run)),
        }
        state.run = Some(run);
        Ok(())
    }

    /// Error of a process whose list is not that of the run folder.
    fn planned_too_early(&self, run: &Store) -> Error {
        let place = run.place(&self.name);
        let message = "another process has trained here since this one began to plan; run the same command again";
        Error::Config(format!("{place}: {message}"))
    }

    /// Leaves the decisions to rank 0, which writes the list to the run folder.
    pub fn follow(&self, run: Store) {
        self.lock().followed = Some(run);
    }

    /// Reads the list of rank 0, if it has one. Returns whether it has decided on `epoch`.
    fn read_decision(&self, run: &Store, epoch: Epoch) -> Result<bool> {
        let mut state = self.lock();
        match VersionList::read(run, &self.name)? {
            Some(list) if !list.continues(&state.list) => return Err(self.planned_too_early(run)),
            Some(list) => state.list = list,
            None => {}
        }
        Ok(state.list.version_at(epoch).is_some())
    }

    /// Number of shards of a streamed epoch that the run has read, according to its list.
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

    /// Writes a list, if a run folder is set.
    fn write(&self, state: &State, list: &VersionList) -> Result<()> {
        state.run.as_ref().map_or(Ok(()), |run| list.write(run, &self.name))
    }

    /// Reads the manifest, and checks that it describes the data that the run read.
    fn manifest(&self, state: &State) -> Result<Manifest> {
        let manifest = load::open(&self.data)?;
        state.list.check_hashes(&self.hashes(state, &manifest)?, &self.data)?;
        state.list.check_read(&manifest, &self.data)?;
        Ok(manifest)
    }

    /// Hashes by which the run identifies versions. Hashes of part lists are known before the first part is prepared.
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
    fn await_decision(&self, epoch: Epoch, stop: Option<&CancelToken>) -> Result<()> {
        let run = {
            let state = self.lock();
            state.followed.clone().filter(|_| state.list.version_at(epoch).is_none())
        };
        let Some(run) = run else { return Ok(()) };
        let begun = Instant::now();
        while !self.read_decision(&run, epoch)? {
            if begun.elapsed() > MAX_WAIT {
                let place = run.place(&self.name);
                let seconds = MAX_WAIT.as_secs();
                let message = format!("rank 0 has not decided on the dataset version of epoch {epoch} in {seconds} s");
                return Err(Error::Config(format!(
                    "{place}: {message}; see its log, and check that all ranks see the file"
                )));
            }
            match stop {
                Some(stop) if !starved(|| stop.is_cancelled_within(POLL)) => {}
                _ => return Err(Error::Stopped),
            }
        }
        Ok(())
    }

    fn snapshot(&self, epoch: Epoch) -> Result<Arc<SplitSnapshot>> {
        let mut state = self.lock();
        if state.list.version_at(epoch).is_none() {
            assert_eq!(epoch.0, state.list.epochs, "epochs are decided one after another");
            let manifest = self.manifest(&state)?;
            let mut list = state.list.clone();
            list.push(manifest.newest(), &self.hashes(&state, &manifest)?);
            // Written first: after a kill, the resumed run must know which version was rendered.
            self.write(&state, &list)?;
            let snapshot = SplitSnapshot::train(&manifest, manifest.newest());
            (state.list, state.snapshot) = (list, Some(Arc::new(snapshot)));
        }
        let dataset_version = state.list.version_at(epoch).expect("it was just decided");
        let known = state.snapshot.take().filter(|snapshot| snapshot.dataset_version == dataset_version);
        let snapshot = match known {
            Some(snapshot) => snapshot,
            None => Arc::new(SplitSnapshot::train(&self.manifest(&state)?, dataset_version)),
        };
        state.snapshot = Some(Arc::clone(&snapshot));
        Ok(snapshot)
    }

    fn decided(&self) -> u64 {
        self.lock().list.epochs
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;

/// The version that a run began with, for each of its epochs. The answer is constant while the prepared folder is the
/// same and none of its parts was dropped.
///
/// The manifest is checked for each epoch, and read again if it has changed. So a run that has all data in memory stops
/// when a part of it is dropped.
#[derive(Debug)]
pub(crate) struct PinnedVersion(pub(crate) Arc<DatasetVersions>);

impl EpochVersions for PinnedVersion {
    fn snapshot(&self, _: Epoch) -> Result<Arc<SplitSnapshot>> {
        let mut state = self.0.lock();
        let now = self.0.data.head(manifest::NAME)?.map(|stat| stat.version);
        if now.is_none() || now != state.seen {
            let manifest = self.0.manifest(&state)?;
            let first = state.list.first();
            (state.snapshot, state.seen) = (Some(Arc::new(SplitSnapshot::train(&manifest, first))), now);
        }
        Ok(Arc::clone(state.snapshot.as_ref().expect("it was made when the manifest was read")))
    }

    fn decided(&self) -> u64 {
        u64::MAX
    }
}
