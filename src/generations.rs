//! Which generations of the prepared folder a run reads: `generations.json` of its folder; of a mixture
//! `generations/SOURCE.json`, one for each source, whose epochs are its own.
//!
//! # What
//! The generation that the run began with, and for each epoch so far the one that it is over. A list, sealed, written
//! before anything of an epoch is rendered.
//!
//! # Why
//! A prepared folder grows while runs read it, and a run that is killed must go on with what it had. With
//! `data.generations = "first"` that is the generation that it began with ([`Staying`]); with `"newest"`, for each epoch, the
//! one that was the newest when the epoch's first row was asked for. Where the first epoch is streamed ([`streamed`]), it also
//! says how far that was read, so that other text under the same names is noticed.

pub(crate) mod names;
pub mod pauses;
pub mod streamed;

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline::course::{Edition, Generations};
use pipeline::{Error, Result, load};
use schemas::{Epoch, Generation, Manifest, Sealed, Shard, Split, manifest};
use serde::{Deserialize, Serialize};
use store::{Store, Version};

use self::names::Names;

/// Its name in the run's folder, where there is one prepared folder.
const NAME: &str = "generations.json";

/// What the list of a source of a mixture is called in the run's folder, or the only one.
pub(crate) fn list_name(source: Option<&str>) -> String {
    source.map_or_else(|| NAME.to_owned(), |source| format!("generations/{source}.json"))
}

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Epochs that are decided.
    epochs: u64,
    /// Where another generation began; the first is that of epoch 0.
    stretches: Vec<Stretch>,
    /// Of a run whose first epoch is streamed: how far it has been read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    streamed: Option<Prefix>,
}

/// The first training shards of a part list.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Prefix {
    /// How many.
    shards: u64,
    /// The hash of their data.
    content: String,
}

impl Prefix {
    fn of(shards: Vec<Shard>) -> Self {
        Self { shards: shards.len() as u64, content: Split { shards }.content() }
    }

    /// Whether a list with these shards, so far or as a whole, begins as this one. False if it is shorter.
    fn begins(&self, shards: &[Shard]) -> bool {
        let count = usize::try_from(self.shards).unwrap_or(usize::MAX);
        shards.get(..count).is_some_and(|first| Self::of(first.to_vec()) == *self)
    }
}

/// Epochs over one generation that follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stretch {
    /// The first of them.
    epoch: Epoch,
    /// What they are over.
    generation: Generation,
    /// The hash of its training data, or of a streamed run its lists: another folder has another.
    content: String,
}

impl Sealed for List {
    const FORMAT: &'static str = "cloze generations of a run";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl List {
    fn begun_with(names: &Names<'_>, generation: Generation) -> Self {
        let (content, streamed) = (names.of(generation), names.are_lists().then(|| Prefix::of(Vec::new())));
        Self { epochs: 1, stretches: vec![Stretch { epoch: Epoch(0), generation, content }], streamed }
    }

    fn at(&self, epoch: Epoch) -> Option<Generation> {
        let behind = self.stretches.partition_point(|stretch| stretch.epoch <= epoch);
        (epoch.0 < self.epochs).then(|| self.stretches[behind - 1].generation)
    }

    /// Decides one more epoch.
    fn push(&mut self, names: &Names<'_>, generation: Generation) {
        if self.stretches.last().is_none_or(|last| last.generation != generation) {
            let content = names.of(generation);
            self.stretches.push(Stretch { epoch: Epoch(self.epochs), generation, content });
        }
        self.epochs += 1;
    }

    /// Whether the folder is the one that the run read before.
    fn check(&self, names: &Names<'_>, data: &Store) -> Result<()> {
        if self.streamed.is_some() != names.are_lists() {
            let began = if self.streamed.is_some() { "streamed" } else { "shuffled" };
            return Err(Error::Config(format!(
                "the run began with `data.order = \"{began}\"`; set that, or begin a new run (another `run.folder`)"
            )));
        }
        let is_known = |stretch: &&Stretch| {
            stretch.generation <= names.newest() && names.of(stretch.generation) == stretch.content
        };
        match self.stretches.iter().find(|stretch| !is_known(stretch)) {
            None => Ok(()),
            Some(other) => Err(other_data(other.generation, data)),
        }
    }

    /// Whether what was read of a streamed epoch is what is there.
    fn check_read(&self, manifest: &Manifest, data: &Store) -> Result<()> {
        let (Some(read), first) = (&self.streamed, self.stretches[0].generation) else { return Ok(()) };
        let dropped = manifest.dropped_since(first);
        // What was dropped is refused by name, where it would be read.
        let is_it = !dropped.is_empty() || read.begins(&manifest.effective(first).train.shards);
        if is_it { Ok(()) } else { Err(other_data(first, data)) }
    }
}

fn other_data(generation: Generation, data: &Store) -> Error {
    Error::Config(format!(
        "{}: the run read generation {generation} with other data than is here now; name the folder that it read, or begin \
         a new run (another `run.folder`)",
        data.place("")
    ))
}

/// The generations of one run.
#[derive(Debug)]
pub struct RunGenerations {
    data: Store,
    /// What the list is called.
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    list: List,
    /// The list as it was found.
    found: Option<List>,
    /// What was asked for last.
    edition: Option<Arc<Edition>>,
    /// What the manifest was when it was read last.
    seen: Option<Version>,
    /// Where the list is written; nowhere by those who only look.
    store: Option<Store>,
}

impl RunGenerations {
    /// Those of the run in the folder `run`, which read the prepared folder `data`, the only one or that of a source; of a run
    /// that is not there yet, the newest.
    ///
    /// # Errors
    /// [`Error::Config`] if the list is damaged or of another folder, [`Error::Io`] if it cannot be read.
    pub(crate) fn of(run: &Path, data: &Store, names: &Names<'_>, source: Option<&str>) -> Result<Self> {
        let name = list_name(source);
        let has_run = !run.as_os_str().is_empty() && run.is_dir();
        let found = if has_run { read(&Store::existing(run)?, &name)? } else { None };
        let list = found.clone().unwrap_or_else(|| List::begun_with(names, names.newest()));
        list.check(names, data)?;
        let state = State { list, found, edition: None, seen: None, store: None };
        Ok(Self { data: data.clone(), name, state: Mutex::new(state) })
    }

    /// The generation that the run began with.
    pub(crate) fn first(&self) -> Generation {
        self.lock().list.stretches[0].generation
    }

    /// From now on every answer is written down. Call it when the run's folder is held.
    ///
    /// # Errors
    /// [`Error::Config`] if another process has written a list meanwhile.
    pub fn keep_in(&self, run: Store) -> Result<()> {
        let mut state = self.lock();
        match read(&run, &self.name)? {
            Some(found) if found == state.list => {}
            found if found == state.found => state.list.write(&run, &self.name)?,
            _ => {
                let place = run.place(&self.name);
                let message =
                    "another process has trained here since this one began to plan; run the same command again";
                return Err(Error::Config(format!("{place}: {message}")));
            }
        }
        state.store = Some(run);
        Ok(())
    }

    /// How many shards of a streamed epoch the run has read, by what was written down.
    fn shards_read(&self) -> u64 {
        self.lock().list.streamed.as_ref().map_or(0, |read| read.shards)
    }

    /// That a streamed epoch begins with these shards, of which some are read next: what was read of it before must be among
    /// them, and from now on all of them are.
    fn note_read(&self, shards: &[Shard]) -> Result<()> {
        let mut state = self.lock();
        let Some(read) = &state.list.streamed else { return Ok(()) };
        if !read.begins(shards) {
            return Err(other_data(state.list.stretches[0].generation, &self.data));
        }
        if read.shards == shards.len() as u64 {
            return Ok(());
        }
        let list = List { streamed: Some(Prefix::of(shards.to_vec())), ..state.list.clone() };
        if let Some(store) = &state.store {
            list.write(store, &self.name)?;
        }
        state.list = list;
        Ok(())
    }

    /// The manifest, once it is known to be of the data that the run read.
    fn manifest(&self, state: &State) -> Result<Manifest> {
        let manifest = load::open(&self.data)?;
        state.list.check(&Names::by(state.list.streamed.is_some(), &manifest, &self.data)?, &self.data)?;
        state.list.check_read(&manifest, &self.data)?;
        Ok(manifest)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl List {
    fn write(&self, store: &Store, name: &str) -> Result<()> {
        store.put(name, &self.seal())?;
        Ok(())
    }
}

/// The list of a run, if it has one.
fn read(store: &Store, name: &str) -> Result<Option<List>> {
    let Some((bytes, _)) = store.read_with_stat(name)? else { return Ok(None) };
    let refuse = |error: &dyn std::fmt::Display| {
        let way_on = "it says which data the run reads: restore it, or begin a new run (another `run.folder`)";
        Error::Config(format!("{}: {error}; {way_on}", store.place(name)))
    };
    let list = List::unseal(&bytes).map_err(|error| refuse(&error))?;
    let is_whole = list.epochs > 0 && list.stretches.first().is_some_and(|first| first.epoch == Epoch(0));
    if is_whole { Ok(Some(list)) } else { Err(refuse(&"it does not begin with epoch 0")) }
}

impl Generations for RunGenerations {
    fn of(&self, epoch: Epoch) -> Result<Arc<Edition>> {
        let mut state = self.lock();
        if state.list.at(epoch).is_none() {
            assert_eq!(epoch.0, state.list.epochs, "epochs are decided one after another");
            let manifest = self.manifest(&state)?;
            let mut list = state.list.clone();
            list.push(&Names::by(list.streamed.is_some(), &manifest, &self.data)?, manifest.newest());
            // Written before it is believed: what was rendered must be known after a kill.
            if let Some(store) = &state.store {
                list.write(store, &self.name)?;
            }
            let edition = Edition::train(&manifest, manifest.newest());
            (state.list, state.edition) = (list, Some(Arc::new(edition)));
        }
        let generation = state.list.at(epoch).expect("it was just decided");
        let known = state.edition.take().filter(|edition| edition.generation == generation);
        let edition = match known {
            Some(edition) => edition,
            None => Arc::new(Edition::train(&self.manifest(&state)?, generation)),
        };
        state.edition = Some(Arc::clone(&edition));
        Ok(edition)
    }

    fn decided(&self) -> u64 {
        self.lock().list.epochs
    }
}

/// The answers of a run that stays with the generation that it began with: the same for each epoch, for as long as the
/// folder is its own and nothing of that generation was dropped. The manifest is looked at as often, and read where it has
/// changed, so that a run that has everything in memory does not go on over what was to be forgotten.
#[derive(Debug)]
pub(crate) struct Staying(pub(crate) Arc<RunGenerations>);

impl Generations for Staying {
    fn of(&self, _: Epoch) -> Result<Arc<Edition>> {
        let mut state = self.0.lock();
        let now = self.0.data.stat(manifest::NAME)?.map(|stat| stat.version);
        if now.is_none() || now != state.seen {
            let manifest = self.0.manifest(&state)?;
            let first = state.list.stretches[0].generation;
            (state.edition, state.seen) = (Some(Arc::new(Edition::train(&manifest, first))), now);
        }
        Ok(Arc::clone(state.edition.as_ref().expect("it was made when the manifest was read")))
    }

    fn decided(&self) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
