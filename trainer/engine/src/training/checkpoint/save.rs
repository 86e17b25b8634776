//! Writing of checkpoints: all objects, the state last.

use std::fmt;
use std::io::{self, Write};

use schemas::Sealed as _;
use schemas::ordinal::Step;
use store::Store;
use trainer_plan::Error;
use trainer_plan::checkpoint::{
    FIGURES_FILE, FOLDER, MAIN_FILE, OPTIMIZER_FILE, PINNED_FILE, STATE_FILE, State, Validated, empty, folder_name,
    is_own_file, point_at, retain,
};
use trainer_plan::config::CheckpointConfig;

use crate::device::tensors;
use crate::device::tensors::HostTensors;

/// Everything that a run needs to resume, in host memory or in flight to it. Creating a snapshot does not wait for the
/// device; reading or writing it does.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// State of the run; writing fills `files`.
    pub state: State,
    /// Weights.
    pub main: HostTensors,
    /// State of the optimizer and sums of the current report interval.
    pub optimizer: HostTensors,
    /// Result of the validation of this step, if it is done.
    pub validated: Option<Validated>,
}

/// Policy for writing and retaining checkpoints.
pub struct CheckpointPolicy {
    /// Retention rules.
    pub rules: CheckpointConfig,
    /// Writes the `transformers` export of the weights completely, or returns an error.
    pub export: Option<Export>,
    /// Whether a loss spike may cause a rollback. If so, a checkpoint before all unchecked steps is retained too.
    pub goes_back: bool,
}

/// Function that writes a model with the given weights to a folder, its `config.json` last.
pub type Export = Box<dyn Fn(&HostTensors, &Store) -> Result<(), Error> + Send + Sync>;

impl CheckpointPolicy {
    /// Creates a policy of these rules, without export and without rollback.
    #[must_use]
    pub fn new(rules: CheckpointConfig) -> Self {
        Self { rules, export: None, goes_back: false }
    }

    /// Points `latest` at the checkpoint of `newest`, and removes the checkpoints that the rules do not retain. A save
    /// ends with it, and a start repeats it, because a kill can occur before it.
    pub fn apply(&self, run: &Store, newest: &State) -> io::Result<()> {
        let checkpoints = run.prefixed(FOLDER);
        point_at(&checkpoints, Some(newest.step))?;
        let judged = Step(newest.step.0.saturating_sub(newest.guard.unread as u64));
        retain(&checkpoints, &self.rules, self.goes_back.then_some(judged))
    }
}

impl fmt::Debug for CheckpointPolicy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CheckpointPolicy").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Snapshot {
    /// Writes the checkpoint to the store of a run, points `latest` at it, and removes the checkpoints that the rules
    /// do not retain. Returns its location.
    ///
    /// # Errors
    /// [`Error::Io`], or the error of the export. The checkpoint is then absent. If only `latest` or a removal failed,
    /// it is complete. Older checkpoints are unchanged.
    pub fn write(&self, run: &Store, keeping: &CheckpointPolicy) -> Result<String, Error> {
        let checkpoints = run.prefixed(FOLDER);
        let checkpoint = checkpoints.prefixed(&folder_name(self.state.step));
        // A damaged checkpoint may have the same name.
        empty(&checkpoint)?;
        if let Err(error) = self.put(&checkpoint, keeping.export.as_ref()) {
            // Frees space for the next attempt. The first error is returned, so this one is ignored.
            let _ = empty(&checkpoint);
            return Err(error);
        }
        keeping.apply(run, &self.state)?;
        Ok(checkpoint.place(""))
    }

    /// Writes all objects of the checkpoint, the state last.
    fn put(&self, checkpoint: &Store, export: Option<&Export>) -> Result<(), Error> {
        let mut state = self.state.clone();
        state.files.clear();
        if let Some(export) = export {
            export(&self.main, checkpoint)?;
            // The pin may change after the checkpoint is written.
            let is_exported = |name: &str| name != PINNED_FILE && is_own_file(name);
            for entry in checkpoint.list("")?.into_iter().filter(|entry| is_exported(&entry.name)) {
                let hash = checkpoint.hash(&entry.name, entry.stat.bytes)?;
                state.files.insert(entry.name, hash.to_hex().to_string());
            }
        }
        for (name, tensors) in [(MAIN_FILE, &self.main), (OPTIMIZER_FILE, &self.optimizer)] {
            let mut file = Hashing { target: checkpoint.writer(name)?, hasher: blake3::Hasher::new() };
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

/// Writer that hashes the bytes it forwards.
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
