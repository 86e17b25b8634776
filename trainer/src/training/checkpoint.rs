//! What a run keeps, complete or absent.
//!
//! # The checkpoint format, version 3
//!
//! Below `RUN/checkpoints/step-00001200/` lie
//!
//! - `main.safetensors`: every weight by its name in `Parameters`, float32;
//! - `optimizer.safetensors`: `mean.NAME`, `variance.NAME`, `updates`; `report.N.sum` and, where the device counts,
//!   `report.N.count`, of the N-th mean of the report under way; `skipped.count`, `skipped.first`; `guard.ring`;
//! - `state.json`, put last and removed first: [`State`], [sealed](schemas::sealed);
//! - `figures.json`, where the step was validated: [`Validated`]; `pinned.json`, where somebody [pinned](pin) it;
//! - with `checkpoints.export`, what `transformers` loads: `config.json`, `model.safetensors`, the tokenizer.
//!
//! A checkpoint is there when its `state.json` is. What lies there without one is unfinished, and the next start removes
//! it, unless `latest` says that it was finished and there is no other. A `state.json` that is no file (a pipe, a link
//! that leads nowhere) is an error. A reader must refuse another version, a file whose BLAKE3 is not the one in `state.json`, a `state.json` that is
//! not, byte for byte, what its own content would be written as, and one of another step than its name says.
//!
//! A checkpoint that is not as it was written is *damaged*: where an older one is whole, the `state.json` of the damaged
//! one is kept as `damaged.json` and removed, and the rest stays, so that somebody can look at it. `RUN/checkpoints/latest`
//! holds the newest one's name, for people and scripts.
//!
//! A checkpoint records what was *consumed*: `rows_consumed` is the whole position in the stream.

mod figures;
mod given_up;
mod kept;
mod looked_at;
mod rules;
mod shelf;
#[cfg(test)]
pub(super) mod tests;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::path::Path;

use schemas::ordinal::Step;
use schemas::{SealError, Sealed};
use serde::{Deserialize, Serialize};
use store::Store;
use telemetry::change::KeyChange;

pub use self::figures::Validated;
pub use self::given_up::give_up;
pub use self::kept::newest;
pub(crate) use self::kept::{beyond, copy, discard, note, point, steps};
pub use self::looked_at::{before, pick};
pub use self::rules::Reason;
pub(crate) use self::shelf::check;
pub use self::shelf::{Listed, newest_state, pin, remove, shelf, state_of, unpin, verify};
use crate::device::tensors;
use crate::device::tensors::HostTensors;
use crate::error::Error;
use crate::plan::config::CheckpointConfig;
use crate::plan::identity::Identity;
use crate::training::beside::Beside;
use crate::training::guard::SavedGuard;
use crate::training::tally::SavedMean;

/// The tensors' objects, in the order in which they are put.
const MAIN_FILE: &str = "main.safetensors";
const OPTIMIZER_FILE: &str = "optimizer.safetensors";
/// What is put last: with it, there is a checkpoint.
const STATE_FILE: &str = "state.json";

/// What the validation of its step found.
const FIGURES_FILE: &str = "figures.json";
/// Somebody wants it to stay.
const PINNED_FILE: &str = "pinned.json";
/// With it, `transformers` sees a model.
const CONFIG_FILE: &str = "config.json";

/// What `state.json` says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct State {
    /// Steps done.
    pub step: Step,
    /// Rows of the stream that they took.
    pub rows_consumed: u64,
    /// Real tokens of these rows.
    pub tokens_consumed: u64,
    /// Whether the validation of this step is still to be done (a stop came first).
    pub validation_pending: bool,
    /// Running BLAKE3 over the digests of all rows consumed, in hexadecimal.
    pub batch_hash: String,
    /// Content hash of the data.
    pub data_content: String,
    /// The program that wrote it, with its version: another resumes, not to the bit.
    pub program: String,
    /// The version of libtorch: likewise.
    pub libtorch: String,
    /// Threads of libtorch: likewise.
    pub threads: usize,
    /// Where it was trained: likewise.
    pub device: String,
    /// The means of the report under way, in order; their sums are in `optimizer.safetensors`.
    pub report: Vec<SavedMean>,
    /// The steps that were passed over, of those done: see [`skips`](crate::training::skips).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub skips: Vec<Step>,
    /// What the guard compares the next steps with; the loss and norm of those that it has still to look at are
    /// `guard.ring` in `optimizer.safetensors`.
    #[serde(default, skip_serializing_if = "SavedGuard::is_empty")]
    pub guard: SavedGuard,
    /// What makes it this run.
    pub identity: Identity,
    /// BLAKE3 of every file beside this one.
    pub files: BTreeMap<String, String>,
    /// Keys of the identity that were changed in the middle of the run, the oldest change first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Change>,
    /// Seconds that the run has trained, where hours end it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trained_s: Option<f64>,
    /// What the run has gone by that is kept beside its checkpoints.
    #[serde(default, skip_serializing_if = "Beside::is_empty")]
    pub beside: Beside,
}

/// A key of the identity that is another since a step.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Change {
    /// Steps done when it changed.
    pub step: Step,
    /// Which, and how.
    pub key: KeyChange,
}

impl Sealed for State {
    const FORMAT: &'static str = "cloze checkpoint";
    const VERSION: u32 = 3;
    const PRETTY: bool = true;
}

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
pub struct Keeping {
    /// Which of them stay.
    pub rules: CheckpointConfig,
    /// Puts what `transformers` loads of these weights, all of it or an error.
    pub export: Option<Export>,
    /// Whether a step that leaps may be undone: a checkpoint before all that nobody has judged yet then stays too.
    pub goes_back: bool,
}

/// Puts a model made of weights into a folder, its `config.json` last.
pub type Export = Box<dyn Fn(&HostTensors, &Store) -> Result<(), Error> + Send + Sync>;

impl Keeping {
    /// By these rules, and nothing beside.
    #[must_use]
    pub fn by(rules: CheckpointConfig) -> Self {
        Self { rules, export: None, goes_back: false }
    }
}

impl fmt::Debug for Keeping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keeping").field("rules", &self.rules).finish_non_exhaustive()
    }
}

/// Why a checkpoint is not read.
enum Unread {
    /// It is not as it was written.
    Damaged {
        /// The object.
        place: String,
        /// What is wrong with it.
        problem: String,
    },
    /// It may well be whole: the store failed, it is of another version, or somebody has formatted its state.
    Other(Error),
}

impl From<Unread> for Error {
    fn from(unread: Unread) -> Self {
        match unread {
            Unread::Damaged { place, problem } => Self::Checkpoint { path: place.into(), problem },
            Unread::Other(error) => error,
        }
    }
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}

impl Snapshot {
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

    /// Reads and verifies all of them. Nothing of it is believed unless all of it is as it was written.
    fn read(checkpoint: &Store, step: Step) -> Result<Self, Unread> {
        let damaged = |name: &str, problem: String| Unread::Damaged { place: checkpoint.place(name), problem };
        let bytes = |name: &str| match checkpoint.read_with_stat(name)? {
            Some((bytes, _)) => Ok(bytes),
            None => Err(damaged(name, "it is missing".to_owned())),
        };
        let state = State::read(checkpoint, step)?;
        let tensors = |name: &str| {
            let bytes = bytes(name)?;
            if state.files.get(name).map(String::as_str) != Some(blake3::hash(&bytes).to_hex().as_str()) {
                return Err(damaged(name, "its BLAKE3 is not the one in `state.json`".to_owned()));
            }
            tensors::parse(Path::new(&checkpoint.place(name)), &bytes).map_err(Unread::Other)
        };
        let (main, optimizer) = (tensors(MAIN_FILE)?, tensors(OPTIMIZER_FILE)?);
        Ok(Self { state, main, optimizer, validated: None })
    }
}

impl State {
    /// That of a checkpoint, which has to be after that step.
    fn read(checkpoint: &Store, step: Step) -> Result<Self, Unread> {
        let damaged = |problem: String| Unread::Damaged { place: checkpoint.place(STATE_FILE), problem };
        let Some((bytes, _)) = checkpoint.read_with_stat(STATE_FILE)? else {
            return Err(damaged("it is missing".to_owned()));
        };
        let state = Self::unseal(&bytes).map_err(|error| match error {
            SealError::Version { found, .. } => {
                Unread::Other(Error::CheckpointVersion { folder: checkpoint.place("").into(), version: found })
            }
            SealError::Rewritten => {
                let (path, problem) = (checkpoint.place(STATE_FILE).into(), error.to_string());
                Unread::Other(Error::Checkpoint { path, problem })
            }
            damage => damaged(damage.to_string()),
        })?;
        if state.step == step {
            Ok(state)
        } else {
            Err(damaged(format!("it is the checkpoint after step {}", state.step)))
        }
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
