//! Record of the rows that a run skips because they cannot be built: `bad_rows.json` of its folder.
//!
//! # What
//! A sealed list of rows, each with its origin and the reason. It is written before the row's batch is trained on.
//!
//! # Why
//! A skipped row changes the trained weights. A process that resumes from a checkpoint, replays a step or branches off
//! must skip the same rows, even if the row could be built by then.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pipeline::load::{BadRow, BadRows};
use pipeline::{Error, Result};
use schemas::{RowIndex, Sealed};
use serde::{Deserialize, Serialize};
use store::Store;

/// Name in the run folder.
pub(crate) const NAME: &str = "bad_rows.json";

/// Content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// Hash of the identity of the run: another run has other rows.
    identity: String,
    /// Bad rows in the order of the stream.
    rows: Vec<BadRow>,
}

impl Sealed for List {
    const FORMAT: &'static str = "cloze bad rows";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// Bad rows of one run.
#[derive(Debug, Default)]
pub struct RunBadRows(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<RowIndex, BadRow>,
    /// Store and identity of the run to which the list is written. `None` for read-only commands.
    record: Option<(Store, String)>,
}

impl RunBadRows {
    /// Reads the list of a run for a read-only command. Further bad rows are skipped, and are not written.
    ///
    /// # Errors
    /// [`Error::Config`] if the list is damaged, [`Error::Io`] if it cannot be read.
    pub fn open(run: &Store) -> Result<Self> {
        let rows = read(run)?.map_or_else(BTreeMap::new, |list| by_row(list.rows));
        Ok(Self(Mutex::new(State { rows, record: None })))
    }

    /// Reads the list of the run for a rank that does not record it, as [`record_in`](Self::record_in) does.
    ///
    /// # Errors
    /// The same as those of [`open`](Self::open).
    pub fn open_as(run: &Store, identity: &str, begins: bool) -> Result<Self> {
        Ok(Self(Mutex::new(State { rows: rows_of(run, identity, begins)?, record: None })))
    }

    /// Reads the list of the run, and writes further bad rows to it from now on. A run that begins at step 0 ignores
    /// the list of a run with another identity.
    ///
    /// # Errors
    /// The same as those of [`open`](Self::open).
    pub fn record_in(&self, run: Store, identity: &str, begins: bool) -> Result<()> {
        let rows = rows_of(&run, identity, begins)?;
        let mut state = self.lock();
        state.rows = rows;
        state.record = Some((run, identity.to_owned()));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads the bad rows of a run. A run that begins at step 0 ignores those of another identity.
fn rows_of(run: &Store, identity: &str, begins: bool) -> Result<BTreeMap<RowIndex, BadRow>> {
    let list = read(run)?.filter(|list| !begins || list.identity == identity);
    Ok(list.map_or_else(BTreeMap::new, |list| by_row(list.rows)))
}

impl BadRows for RunBadRows {
    fn in_range(&self, rows: Range<u64>) -> Vec<BadRow> {
        self.lock().rows.range(RowIndex(rows.start)..RowIndex(rows.end)).map(|(_, bad)| bad.clone()).collect()
    }

    fn count(&self) -> u64 {
        self.lock().rows.len() as u64
    }

    fn leave_out(&self, row: &BadRow) -> Result<()> {
        let mut state = self.lock();
        let mut rows = state.rows.clone();
        rows.insert(row.row.row, row.clone());
        // Written first: after a kill, the resumed run must know that the row was skipped.
        if let Some((store, identity)) = &state.record {
            let list = List { identity: identity.clone(), rows: rows.values().cloned().collect() };
            store.put(NAME, &list.seal())?;
        }
        state.rows = rows;
        Ok(())
    }
}

fn by_row(rows: Vec<BadRow>) -> BTreeMap<RowIndex, BadRow> {
    rows.into_iter().map(|bad| (bad.row.row, bad)).collect()
}

/// Reads the list of a run, if it exists.
fn read(store: &Store) -> Result<Option<List>> {
    let Some((bytes, _)) = store.get_with_stat(NAME)? else { return Ok(None) };
    let list = List::unseal(&bytes).map_err(|error| {
        let fix = "it records which rows were skipped; restore it, or begin a new run (another `run.folder`)";
        Error::Config(format!("{}: {error}; {fix}", store.place(NAME)))
    })?;
    Ok(Some(list))
}

#[cfg(test)]
mod fuzz;

#[cfg(test)]
mod tests {
    use pipeline::load::RowFacts;
    use schemas::{DatasetVersion, Epoch, SampleAddress};
    use store::FaultConfig;

    use super::*;

    fn bad(row: u64) -> BadRow {
        let facts = RowFacts {
            row: RowIndex(row),
            of: row.is_multiple_of(2).then(|| "books".to_owned()),
            epoch: Epoch(1),
            dataset_version: DatasetVersion(0),
            sample: SampleAddress::numbered(row),
            piece: 0,
            copy: 0,
            shard: "train/part-00000-00-00.parquet".to_owned(),
            group: 2,
            row_in_group: 7,
            source: 0,
            documents: vec![u64::MAX, 5],
        };
        BadRow { row: facts, why: "an index is out of bounds".to_owned() }
    }

    fn rows(bad_rows: &RunBadRows, rows: Range<u64>) -> Vec<u64> {
        bad_rows.in_range(rows).iter().map(|bad| bad.row.row.0).collect()
    }

    #[test]
    fn a_skipped_row_is_recorded_at_once_and_known_after_a_resume() {
        let store = Store::in_memory(FaultConfig::none());
        let first = RunBadRows::default();
        first.record_in(store.clone(), "one", true).expect("kept");
        assert!(store.head(NAME).expect("asked").is_none(), "a run that leaves nothing out writes nothing");
        for row in [3, 40] {
            first.leave_out(&bad(row)).expect("written");
            assert_eq!(RunBadRows::open(&store).expect("sealed").in_range(row..row + 1), [bad(row)]);
        }
        // The same run after a kill: from a checkpoint, or from step 0 if it had none.
        for begins in [true, false] {
            let again = RunBadRows::default();
            again.record_in(store.clone(), "one", begins).expect("kept");
            assert_eq!((rows(&again, 0..40), again.count()), (vec![3], 2));
        }
        // Allowed changes during a run change no row; another run from step 0 has other rows.
        let changed = RunBadRows::default();
        changed.record_in(store.clone(), "two", false).expect("kept");
        assert_eq!(rows(&changed, 0..99), [3, 40]);
        let other = RunBadRows::default();
        other.record_in(store.clone(), "two", true).expect("kept");
        assert_eq!(other.count(), 0);
        other.leave_out(&bad(8)).expect("written");
        assert_eq!(rows(&RunBadRows::open(&store).expect("sealed"), 0..99), [8]);
    }

    #[test]
    fn a_damaged_list_is_refused_with_a_fix() {
        let store = Store::in_memory(FaultConfig::none());
        let bad_rows = RunBadRows::default();
        bad_rows.record_in(store.clone(), "one", true).expect("kept");
        bad_rows.leave_out(&bad(3)).expect("written");
        let mut bytes = store.get(NAME).expect("there");
        let at = bytes.windows(6).position(|word| word == b"bounds").expect("a word of it");
        bytes[at] ^= 1;
        store.put(NAME, &bytes).expect("put");
        let error = RunBadRows::default().record_in(store, "one", false).expect_err("damaged").to_string();
        assert!(error.contains("bad_rows.json") && error.contains("restore it"), "{error}");
    }

    #[test]
    fn a_row_that_cannot_be_recorded_is_not_skipped() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("made");
        let bad_rows = RunBadRows::default();
        bad_rows.record_in(store, "one", true).expect("kept");
        store::faults::fail_after(home.path(), Some(0));
        bad_rows.leave_out(&bad(3)).expect_err("the disk is broken");
        store::faults::fail_after(home.path(), None);
        assert_eq!(bad_rows.count(), 0);
    }
}
