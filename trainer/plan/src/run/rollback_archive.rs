//! What a run has taken back: steps that it did and that are not in its weights any more.
//!
//! # What
//! `RUN/undone/NNN/rolled_back.json` for each rollback, [sealed](schemas::sealed): from which step to which, and the rows of the
//! stream between them. Next to it lies what was taken away: `checkpoints/step-…/` and `log/*.jsonl`, whole, as they were.
//!
//! # Why
//! Who asks later how often a document was learned, or what the curve was before, finds it. So nothing is deleted.

use std::io;

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::error::Error;

/// Where a run keeps what it took back.
const FOLDER: &str = "rolled_back";
/// What says what that was.
const RECORD: &str = "rolled_back.json";

/// One rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RollbackArchive {
    /// Its number: that of its folder.
    pub number: u64,
    /// Steps that the run had done, at its newest checkpoint.
    pub from: Step,
    /// Steps that it has done since: those of the checkpoint that it went back to.
    pub to: Step,
    /// Rows of the stream that had been consumed after `from` steps.
    pub rows_from: u64,
    /// Rows that were consumed after `to` steps: those from here up to `rows_from` were learned, and are to be learned again.
    pub rows_to: u64,
    /// When, in milliseconds since the epoch of Unix, by the wall clock.
    pub time: u64,
    /// Why, in the words of whoever did it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
}

impl Sealed for RollbackArchive {
    const FORMAT: &'static str = "cloze rollback";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

impl RollbackArchive {
    /// Every rollback of a run, the first one first.
    ///
    /// # Errors
    /// [`Error::Checkpoint`] for a record that is not as it was written.
    pub fn all(run: &Store) -> Result<Vec<Self>, Error> {
        let undone = run.within(FOLDER);
        let mut found = Vec::new();
        for entry in undone.list("")? {
            let Some(number) = entry.name.strip_suffix(RECORD).and_then(|folder| folder.strip_suffix('/')) else {
                continue;
            };
            let refuse = |problem: String| Error::Checkpoint { path: undone.place(&entry.name).into(), problem };
            let record = Self::unseal(&undone.read(&entry.name)?).map_err(|error| refuse(error.to_string()))?;
            if folder_name(record.number) != number {
                return Err(refuse(format!("it is rollback {}, under the name of another", record.number)));
            }
            found.push(record);
        }
        found.sort_by_key(|record| record.number);
        Ok(found)
    }

    /// Where what this one took away lies.
    #[must_use]
    pub fn folder(&self, run: &Store) -> Store {
        run.within(FOLDER).within(&folder_name(self.number))
    }

    /// Puts the record: the rollback is complete.
    pub fn write(&self, run: &Store) -> io::Result<()> {
        self.folder(run).put(RECORD, &self.seal()).map(|_| ())
    }
}

fn folder_name(number: u64) -> String {
    format!("{number:03}")
}
