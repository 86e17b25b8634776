//! Which rows a run leaves out since they cannot be made: `bad_rows.json` of its folder.
//!
//! # What
//! A sealed list, each row with where it comes from and why, written before the row's batch is learned from.
//!
//! # Why
//! A row that is left out changes what is learned. Whoever continues from any checkpoint, replays a step or branches off
//! must leave out the same, also where the row could be made by now.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Mutex, MutexGuard, PoisonError};

use pipeline::load::{BadRow, BadRows};
use pipeline::{Error, Result};
use schemas::{RowIndex, Sealed};
use serde::{Deserialize, Serialize};
use store::Store;

/// Its name in the run's folder.
pub(crate) const NAME: &str = "bad_rows.json";

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct List {
    /// The hash of the identity of the run that they were written for: another run's rows are others.
    identity: String,
    /// In the order of the stream.
    rows: Vec<BadRow>,
}

impl Sealed for List {
    const FORMAT: &'static str = "cloze bad rows";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// The rows that one run leaves out.
#[derive(Debug, Default)]
pub struct RunLeftOut(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    rows: BTreeMap<RowIndex, BadRow>,
    /// Where they are written, and for whom; nowhere by those who only look.
    kept: Option<(Store, String)>,
}

impl RunLeftOut {
    /// Those of the run in a folder, for who only looks at it. What is found on top is left out as well, and nobody keeps it.
    ///
    /// # Errors
    /// [`Error::Config`] if the list is damaged, [`Error::Io`] if it cannot be read.
    pub(crate) fn of(run: &Store) -> Result<Self> {
        let rows = read(run)?.map_or_else(BTreeMap::new, |list| by_row(list.rows));
        Ok(Self(Mutex::new(State { rows, kept: None })))
    }

    /// From now on these are the rows that the run in this folder has left out, and more are written down there. A run that
    /// begins again from nothing begins without those of a run that was another.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn keep_in(&self, run: Store, identity: &str, begins: bool) -> Result<()> {
        let list = read(&run)?.filter(|list| !begins || list.identity == identity);
        let mut state = self.lock();
        state.rows = list.map_or_else(BTreeMap::new, |list| by_row(list.rows));
        state.kept = Some((run, identity.to_owned()));
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl BadRows for RunLeftOut {
    fn within(&self, rows: Range<u64>) -> Vec<BadRow> {
        self.lock().rows.range(RowIndex(rows.start)..RowIndex(rows.end)).map(|(_, bad)| bad.clone()).collect()
    }

    fn count(&self) -> u64 {
        self.lock().rows.len() as u64
    }

    fn leave_out(&self, row: &BadRow) -> Result<()> {
        let mut state = self.lock();
        let mut rows = state.rows.clone();
        rows.insert(row.row.row, row.clone());
        // Written before it is believed: what was learned without it must be known after a kill.
        if let Some((store, identity)) = &state.kept {
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

/// The list of a run, if it has one.
fn read(store: &Store) -> Result<Option<List>> {
    let Some((bytes, _)) = store.read_with_stat(NAME)? else { return Ok(None) };
    let list = List::unseal(&bytes).map_err(|error| {
        let way_on = "it says which rows were not learned from: restore it, or begin a new run (another `run.folder`)";
        Error::Config(format!("{}: {error}; {way_on}", store.place(NAME)))
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

    fn rows(left_out: &RunLeftOut, rows: Range<u64>) -> Vec<u64> {
        left_out.within(rows).iter().map(|bad| bad.row.row.0).collect()
    }

    #[test]
    fn a_row_is_on_disk_when_it_is_left_out_and_known_to_who_goes_on() {
        let store = Store::memory(FaultConfig::calm());
        let first = RunLeftOut::default();
        first.keep_in(store.clone(), "one", true).expect("kept");
        assert!(store.stat(NAME).expect("asked").is_none(), "a run that leaves nothing out writes nothing");
        for row in [3, 40] {
            first.leave_out(&bad(row)).expect("written");
            assert_eq!(RunLeftOut::of(&store).expect("sealed").within(row..row + 1), [bad(row)]);
        }
        // A kill, and the same run again: from a checkpoint, or from nothing as it had none.
        for begins in [true, false] {
            let again = RunLeftOut::default();
            again.keep_in(store.clone(), "one", begins).expect("kept");
            assert_eq!((rows(&again, 0..40), again.count()), (vec![3], 2));
        }
        // Allowed changes in mid-run change no row; another run from nothing has other rows.
        let changed = RunLeftOut::default();
        changed.keep_in(store.clone(), "two", false).expect("kept");
        assert_eq!(rows(&changed, 0..99), [3, 40]);
        let other = RunLeftOut::default();
        other.keep_in(store.clone(), "two", true).expect("kept");
        assert_eq!(other.count(), 0);
        other.leave_out(&bad(8)).expect("written");
        assert_eq!(rows(&RunLeftOut::of(&store).expect("sealed"), 0..99), [8]);
    }

    #[test]
    fn a_list_that_is_not_whole_is_refused_with_a_way_on() {
        let store = Store::memory(FaultConfig::calm());
        let left_out = RunLeftOut::default();
        left_out.keep_in(store.clone(), "one", true).expect("kept");
        left_out.leave_out(&bad(3)).expect("written");
        let mut bytes = store.read(NAME).expect("there");
        let at = bytes.windows(6).position(|word| word == b"bounds").expect("a word of it");
        bytes[at] ^= 1;
        store.put(NAME, &bytes).expect("put");
        let error = RunLeftOut::default().keep_in(store, "one", false).expect_err("damaged").to_string();
        assert!(error.contains("bad_rows.json") && error.contains("restore it"), "{error}");
    }

    #[test]
    fn a_row_that_cannot_be_written_down_is_not_left_out() {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = Store::folder(home.path()).expect("made");
        let left_out = RunLeftOut::default();
        left_out.keep_in(store, "one", true).expect("kept");
        store::faults::fail_after(home.path(), Some(0));
        left_out.leave_out(&bad(3)).expect_err("the disk is broken");
        store::faults::fail_after(home.path(), None);
        assert_eq!(left_out.count(), 0);
    }
}
