//! A checkpoint written: all of its objects, the state last.

use std::fmt;
use std::io::{self, Write};

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::Store;
use trainer_plan::Error;
use trainer_plan::checkpoint::{
    FIGURES_FILE, FOLDER, MAIN_FILE, OPTIMIZER_FILE, PINNED_FILE, STATE_FILE, State, Validated, empty, folder_name,
    point_at, retain,
};
use trainer_plan::config::CheckpointConfig;

use crate::device::tensors;
use crate::device::tensors::HostTensors;

/// Everything that a run needs to go on, in host memory, or on its way there: making it does not wait for the device, reading
/// and writing it does.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// The state; `files` is filled when it is written.
    pub state: State,
    /// The weights.
    pub main: HostTensors,
    /// The optimizer's state and the report under way.
    pub optimizer: HostTensors,
    /// What the validation of this step found, where it is done.
    pub validated: Option<Validated>,
}

/// How checkpoints are kept.
pub struct CheckpointPolicy {
    /// Which of them stay.
    pub rules: CheckpointConfig,
    /// Puts what `transformers` loads of these weights, all of it or an error.
    pub export: Option<Export>,
    /// Whether a step that leaps may be undone: a checkpoint before all that nobody has judged yet then stays too.
    pub goes_back: bool,
}

/// Puts a model made of weights into a folder, its `config.json` last.
pub type Export = Box<dyn Fn(&HostTensors, &Store) -> Result<(), Error> + Send + Sync>;

impl CheckpointPolicy {
    /// By these rules, and nothing else.
    #[must_use]
    pub fn by(rules: CheckpointConfig) -> Self {
        Self { rules, export: None, goes_back: false }
    }
}

impl fmt::Debug for CheckpointPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Puts the checkpoint into the store of a run, points `latest` at it, and removes those that the rules let go. Returns
    /// where it is.
    ///
    /// # Errors
    /// [`Error::Io`], or that of the export; the checkpoint is then absent, or whole where only `latest` or a removal failed,
    /// and the older ones are as they were.
    pub fn write(&self, run: &Store, keeping: &CheckpointPolicy) -> Result<String, Error> {
        let checkpoints = run.within(FOLDER);
        let checkpoint = checkpoints.within(&folder_name(self.state.step));
        // A damaged one of that name.
        empty(&checkpoint)?;
        if let Err(error) = self.put(&checkpoint, keeping.export.as_ref()) {
            // Room for the next attempt; the failure itself is on its way up.
            let _ = empty(&checkpoint);
            return Err(error);
        }
        point_at(&checkpoints, Some(self.state.step))?;
        let judged = Step(self.state.step.0.saturating_sub(self.state.guard.unread as u64));
        retain(&checkpoints, &keeping.rules, keeping.goes_back.then_some(judged))?;
        Ok(checkpoint.place(""))
    }

    /// Puts all objects of the checkpoint, the state last.
    fn put(&self, checkpoint: &Store, export: Option<&Export>) -> Result<(), Error> {
        let mut state = self.state.clone();
        state.files.clear();
        if let Some(export) = export {
            export(&self.main, checkpoint)?;
            // What a pin is, is not the checkpoint's business.
            for entry in checkpoint.list("")?.into_iter().filter(|entry| entry.name != PINNED_FILE) {
                let hash = checkpoint.hash(&entry.name, entry.stat.bytes)?;
                state.files.insert(entry.name, hash.to_hex().to_string());
            }
        }
        for (name, tensors) in [(MAIN_FILE, &self.main), (OPTIMIZER_FILE, &self.optimizer)] {
            let mut file = Hashing { target: checkpoint.begin(name)?, hasher: blake3::Hasher::new() };
            tensors::write(tensors, &mut file)?;
            file.target.commit()?;
            state.files.insert(name.to_owned(), file.hasher.finalize().to_hex().to_string());
        }
        if let Some(validated) = &self.validated {
            checkpoint.put(FIGURES_FILE, &validated.seal())?;
        }
        checkpoint.put(STATE_FILE, &state.seal())?;
        Ok(())
    }
}

/// Hashes what passes through.
struct Hashing<W> {
    target: W,
    hasher: blake3::Hasher,
}

impl<W: Write> Write for Hashing<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.target.write(bytes)?;
        self.hasher.update(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.target.flush()
    }
}
