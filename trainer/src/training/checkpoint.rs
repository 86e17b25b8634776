//! What a run keeps, complete or absent.
//!
//! # The checkpoint format, version 3
//!
//! Below `RUN/checkpoints/step-00001200/` lie
//!
//! - `main.safetensors`: every weight by its name in `Parameters`, float32;
//! - `optimizer.safetensors`: `mean.NAME`, `variance.NAME`, `updates`; `report.N.sum` and, where the device counts,
//!   `report.N.count`, of the N-th mean of the report under way; `skipped.count`, `skipped.first`; `guard.ring`;
//! - `state.json`, put last and removed first: [`State`], [sealed](schemas::sealed).
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

mod before;
mod given_up;
mod kept;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use schemas::ordinal::Step;
use schemas::{SealError, Sealed};
use serde::{Deserialize, Serialize};
use store::Store;

pub use self::before::before;
pub use self::given_up::give_up;
pub use self::kept::{newest, pick};
use crate::device::tensors;
use crate::device::tensors::HostTensors;
use crate::error::Error;
use crate::plan::identity::Identity;
use crate::training::guard::SavedGuard;
use crate::training::tally::SavedMean;

/// The tensors' objects, in the order in which they are put.
const MAIN_FILE: &str = "main.safetensors";
const OPTIMIZER_FILE: &str = "optimizer.safetensors";
/// What is put last: with it, there is a checkpoint.
const STATE_FILE: &str = "state.json";

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
    fn put(&self, checkpoint: &Store) -> io::Result<()> {
        let mut state = self.state.clone();
        for (name, tensors) in [(MAIN_FILE, &self.main), (OPTIMIZER_FILE, &self.optimizer)] {
            let mut file = Hashing { target: checkpoint.begin(name)?, hasher: blake3::Hasher::new() };
            tensors::write(tensors, &mut file)?;
            file.target.commit()?;
            state.files.insert(name.to_owned(), file.hasher.finalize().to_hex().to_string());
        }
        checkpoint.put(STATE_FILE, &state.seal()).map(|_| ())
    }

    /// Reads and verifies all of them. Nothing of it is believed unless all of it is as it was written.
    fn read(checkpoint: &Store, step: Step) -> Result<Self, Unread> {
        let damaged = |name: &str, problem: String| Unread::Damaged { place: checkpoint.place(name), problem };
        let bytes = |name: &str| match checkpoint.read_with_stat(name)? {
            Some((bytes, _)) => Ok(bytes),
            None => Err(damaged(name, "it is missing".to_owned())),
        };
        let state = State::unseal(&bytes(STATE_FILE)?).map_err(|error| match error {
            SealError::Version { found, .. } => {
                Unread::Other(Error::CheckpointVersion { folder: checkpoint.place("").into(), version: found })
            }
            SealError::Rewritten => {
                let (path, problem) = (checkpoint.place(STATE_FILE).into(), error.to_string());
                Unread::Other(Error::Checkpoint { path, problem })
            }
            damage => damaged(STATE_FILE, damage.to_string()),
        })?;
        if state.step != step {
            return Err(damaged(STATE_FILE, format!("it is the checkpoint after step {}", state.step)));
        }
        let tensors = |name: &str| {
            let bytes = bytes(name)?;
            if state.files.get(name).map(String::as_str) != Some(blake3::hash(&bytes).to_hex().as_str()) {
                return Err(damaged(name, "its BLAKE3 is not the one in `state.json`".to_owned()));
            }
            tensors::parse(Path::new(&checkpoint.place(name)), &bytes).map_err(Unread::Other)
        };
        let (main, optimizer) = (tensors(MAIN_FILE)?, tensors(OPTIMIZER_FILE)?);
        Ok(Self { state, main, optimizer })
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
