//! Archive of rolled-back steps: steps that a run did and that no longer affect its weights.
//!
//! # What
//! Each rollback has a `RUN/rolled_back/NNN/rolled_back.json`, [sealed](schemas::sealed), with both steps and the rows
//! of the stream between them. The same folder contains the removed `checkpoints/step-…/` and `log/*.jsonl`, unchanged.
//!
//! # Why
//! Users can look up how often a document was trained on, and the loss curve before the rollback. So nothing is
//! deleted.

use std::io;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::error::Error;

/// Folder of a run's archives.
const FOLDER: &str = "rolled_back";
/// File that describes one rollback.
const RECORD: &str = "rolled_back.json";

/// Record of one rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackArchive {
    /// Number of the rollback, and of its folder.
    pub number: u64,
    /// Steps done at the newest checkpoint before the rollback.
    pub from: Step,
    /// Steps done at the checkpoint that the run was rolled back to.
    pub to: Step,
    /// Rows of the stream consumed after `from` steps.
    pub rows_from: u64,
    /// Rows of the stream consumed after `to` steps. The rows from here up to `rows_from` are trained on again.
    pub rows_to: u64,
    /// Time of the rollback, in milliseconds since the Unix epoch, by the wall clock.
    pub time: u64,
    /// Reason that the user gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Sealed for RollbackArchive {
    const FORMAT: &'static str = "cloze rollback";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl RollbackArchive {
    /// Reads all rollbacks of a run, oldest first.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a damaged record.
    pub fn all(run: &Store) -> Result<Vec<Self>, Error> {
        let archives = run.prefixed(FOLDER);
        let mut found = Vec::new();
        for entry in archives.list("")? {
            let Some(number) = entry.name.strip_suffix(RECORD).and_then(|folder| folder.strip_suffix('/')) else {
                continue;
            };
            let refuse = |problem: String| Error::Checkpoint { path: archives.place(&entry.name).into(), problem };
            let record = Self::unseal(&archives.get(&entry.name)?).map_err(|error| refuse(error.to_string()))?;
            if folder_name(record.number) != number {
                return Err(refuse(format!("the file is of rollback {}, not of `{number}`", record.number)));
            }
            found.push(record);
        }
        found.sort_by_key(|record| record.number);
        Ok(found)
    }

    /// Returns the folder of the archived files.
    #[must_use]
    pub fn folder(&self, run: &Store) -> Store {
        run.prefixed(FOLDER).prefixed(&folder_name(self.number))
    }

    /// Writes the record.
    pub fn write(&self, run: &Store) -> io::Result<()> {
        self.folder(run).put(RECORD, &self.seal()).map(|_| ())
    }
}

fn folder_name(number: u64) -> String {
    format!("{number:03}")
}
