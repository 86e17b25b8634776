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
//! one that was the newest when the epoch's first row was asked for.

use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pipeline::course::{Edition, Generations};
use pipeline::{Error, Result, load};
use schemas::{Epoch, Generation, Manifest, Sealed, manifest};
use serde::{Deserialize, Serialize};
use store::{Store, Version};

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
}

/// Epochs over one generation that follow one another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stretch {
    /// The first of them.
    epoch: Epoch,
    /// What they are over.
    generation: Generation,
    /// The hash of its training data: another folder has another.
    content: String,
}

impl Sealed for List {
    const FORMAT: &'static str = "cloze generations of a run";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl List {
    fn begun_with(manifest: &Manifest, generation: Generation) -> Self {
        let content = manifest.generation(generation).content.clone();
        Self { epochs: 1, stretches: vec![Stretch { epoch: Epoch(0), generation, content }] }
    }

    fn at(&self, epoch: Epoch) -> Option<Generation> {
        let behind = self.stretches.partition_point(|stretch| stretch.epoch <= epoch);
        (epoch.0 < self.epochs).then(|| self.stretches[behind - 1].generation)
    }

    /// Decides one more epoch.
    fn push(&mut self, manifest: &Manifest, generation: Generation) {
        if self.stretches.last().is_none_or(|last| last.generation != generation) {
            let content = manifest.generation(generation).content.clone();
            self.stretches.push(Stretch { epoch: Epoch(self.epochs), generation, content });
        }
        self.epochs += 1;
    }

    /// Whether the folder is the one that the run read before.
    fn check(&self, manifest: &Manifest, data: &Store) -> Result<()> {
        let is_known = |stretch: &&Stretch| {
            stretch.generation <= manifest.newest()
                && manifest.generation(stretch.generation).content == stretch.content
        };
        let Some(other) = self.stretches.iter().find(|stretch| !is_known(stretch)) else { return Ok(()) };
        Err(Error::Config(format!(
            "{}: the run read generation {} with other data than is here now; name the folder that it read, or begin a \
             new run (another `run.folder`)",
            data.place(""),
            other.generation
        )))
    }
}

/// The generations of one run.
#[derive(Debug)]
pub(crate) struct RunGenerations {
    data: Store,
    /// What the list is called.
    name: String,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    list: List,
    manifest: Manifest,
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
    pub(crate) fn of(run: &Path, data: &Store, manifest: &Manifest, source: Option<&str>) -> Result<Self> {
        let name = list_name(source);
        let list =
            if run.as_os_str().is_empty() || !run.is_dir() { None } else { read(&Store::existing(run)?, &name)? };
        let list = list.unwrap_or_else(|| List::begun_with(manifest, manifest.newest()));
        list.check(manifest, data)?;
        let state = State { list, manifest: manifest.clone(), edition: None, seen: None, store: None };
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
    #[cfg(any(test, feature = "train"))]
    pub(crate) fn keep_in(&self, run: Store) -> Result<()> {
        let mut state = self.lock();
        match read(&run, &self.name)? {
            None => state.list.write(&run, &self.name)?,
            Some(found) if found == state.list => {}
            Some(_) => {
                let place = run.place(&self.name);
                let message =
                    "another process has trained here since this one began to plan; run the same command again";
                return Err(Error::Config(format!("{place}: {message}")));
            }
        }
        state.store = Some(run);
        Ok(())
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
            let manifest = load::open(&self.data)?;
            state.list.check(&manifest, &self.data)?;
            let mut list = state.list.clone();
            list.push(&manifest, manifest.newest());
            // Written before it is believed: what was rendered must be known after a kill.
            if let Some(store) = &state.store {
                list.write(store, &self.name)?;
            }
            (state.list, state.manifest, state.edition) = (list, manifest, None);
        }
        let generation = state.list.at(epoch).expect("it was just decided");
        let known = state.edition.take().filter(|edition| edition.generation == generation);
        let edition = known.unwrap_or_else(|| Arc::new(Edition::train(&state.manifest, generation)));
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
        let RunGenerations { data, .. } = &*self.0;
        let mut state = self.0.lock();
        let now = data.stat(manifest::NAME)?.map(|stat| stat.version);
        if now.is_none() || now != state.seen {
            let manifest = load::open(data)?;
            state.list.check(&manifest, data)?;
            (state.manifest, state.edition, state.seen) = (manifest, None, now);
        }
        let first = state.list.stretches[0].generation;
        let edition = state.edition.take().unwrap_or_else(|| Arc::new(Edition::train(&state.manifest, first)));
        state.edition = Some(Arc::clone(&edition));
        Ok(edition)
    }

    fn decided(&self) -> u64 {
        u64::MAX
    }
}

#[cfg(test)]
mod fuzz;
#[cfg(test)]
mod tests;
