//! How often each document was learned from: `ledger/` of a run's folder.
//!
//! # What
//! Pages, `rows-000000000000-000000004096.parquet`: what became of the rows from one number of the stream up to another. A row
//! was *learned*, *skipped* (its step was skipped) or *left out* (it cannot be made). For each source of a
//! mixture, dataset version of its data and document the page says in how many rows of each sort that was; the rows themselves are
//! counted in its metadata (`cloze.rows`). A document of one source is another than that of equal text in another.
//! Pages follow one another without a gap, from the first row to the newest checkpoint.
//!
//! # Why
//! Nobody believes a mixture that cannot be counted, and who has to say whether a document was trained on needs a number. The
//! rows are a function of their numbers, but this is no calculation: it is what the trainer was given and has consumed.
//!
//! # Definition
//! A page is put before the checkpoint that ends with it. Whoever continues from a checkpoint moves the pages behind it to
//! `ledger/undone/`: these rows were consumed and come again. `trained + skipped + left out = rows consumed` holds for each page
//! when it is written, and for all of them when they are opened.

mod page;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemas::{DatasetVersion, RowIndex};
use store::Store;

pub use self::page::{Counts, ExposureEntry, ExposurePage, Fate};
use crate::error::{Error, Result};

/// Where it is in a run's folder.
pub const FOLDER: &str = "exposure";
/// Where pages are whose rows come again.
pub const ROLLED_BACK: &str = "rolled_back";
/// What the page that is being moved to `rolled_back/` is called there: who was killed meanwhile continues with that name.
const UNDOING: &str = "undoing";
/// Documents of a page that are kept in memory: some 50 MB. Beyond, a page ends between checkpoints.
const ENTRIES_MAX: usize = 1 << 20;

/// What a row of a batch is made of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDocuments {
    /// Its number in the stream.
    pub row: RowIndex,
    /// The source of the mixture that it is of; empty where one folder is all there is.
    pub of: Arc<str>,
    /// The dataset version of its data.
    pub dataset_version: DatasetVersion,
    /// The names of its documents.
    pub documents: Vec<u64>,
    /// Whether it is padding, since it cannot be made or is not wanted.
    pub left_out: bool,
}

/// A ledger that is kept.
#[derive(Debug, Default)]
pub struct Exposure {
    /// Nowhere before the run has begun.
    store: Option<Store>,
    /// Rows that were given, and are not consumed yet.
    given: VecDeque<RowDocuments>,
    /// Where the first page begins.
    first: u64,
    /// Where the page in hand begins, and how far it goes.
    from: u64,
    to: u64,
    rows: Counts,
    /// Pages that have ended, in order, each until it is in the folder: whoever writes the next writes these before it.
    unwritten: Arc<Mutex<VecDeque<ExposurePage>>>,
    /// By source, then by dataset version and name.
    documents: BTreeMap<Arc<str>, BTreeMap<(DatasetVersion, u64), Counts>>,
}

impl Exposure {
    /// The run continues behind its first `rows` rows. Pages behind them are undone, and so is the one in hand.
    ///
    /// # Errors
    /// If the pages cannot be moved, or do not add up.
    pub fn begin(&mut self, run: &Store, rows: RowIndex) -> Result<()> {
        let folder = run.within(FOLDER);
        finish_undoing(&folder)?;
        write(&folder, &self.unwritten)?;
        if let Some(page) = self.page() {
            let undone = folder.within(ROLLED_BACK);
            page.put(&undone, &numbered(&undone, &page.name())?)?;
        }
        let (undone, kept): (Vec<_>, Vec<_>) = pages(run)?.into_iter().partition(|(_, _, to)| *to > rows.0);
        undone.iter().try_for_each(|(name, ..)| undo(&folder, name))?;
        let first = first(run, &kept)?;
        // A run that was begun by a program without a ledger has none of its first rows.
        if let Some((_, _, end)) = kept.last().filter(|(_, _, end)| *end != rows.0) {
            return Err(broken(&folder, &format!("it ends with row {end}, and the checkpoint with row {rows}")));
        }
        let (from, to) = (rows.0, rows.0);
        *self = Self { store: Some(folder), first: first.unwrap_or(from), from, to, ..Self::default() };
        Ok(())
    }

    /// These rows are in the batch that was handed on.
    pub fn give(&mut self, rows: Vec<RowDocuments>) {
        self.given.extend(rows);
    }

    /// What was given and is not consumed is given again.
    pub fn forget(&mut self) {
        self.given.clear();
    }

    /// A step has consumed the rows up to `end`.
    ///
    /// # Errors
    /// If a page that is full cannot be written.
    ///
    /// # Panics
    /// If other rows were given.
    pub fn consume(&mut self, end: RowIndex, fate: Fate) -> Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        while self.given.front().is_some_and(|row| row.row < end) {
            let row = self.given.pop_front().expect("there is a first");
            assert_eq!(row.row.0, self.to, "rows are consumed one after another");
            self.to += 1;
            self.rows.add(fate, row.left_out);
            let documents = self.documents.entry(row.of).or_default();
            for document in row.documents {
                documents.entry((row.dataset_version, document)).or_default().add(fate, row.left_out);
            }
        }
        assert_eq!(self.to, end.0, "every row that is consumed was given");
        let entries: usize = self.documents.values().map(BTreeMap::len).sum();
        if entries >= ENTRIES_MAX { self.end_page().map_or(Ok(()), |pages| pages.write()) } else { Ok(()) }
    }

    /// The page of the rows since the one before, and those that could not be written yet: to be written before the
    /// checkpoint that ends with it. None if the folder has all of them.
    ///
    /// # Panics
    /// If its rows do not add up.
    pub fn end_page(&mut self) -> Option<PagesToWrite> {
        let folder = self.store.clone()?;
        if let Some(page) = self.page() {
            assert_eq!(page.rows.total(), page.to - page.from, "every row was learned, skipped or left out");
            locked(&self.unwritten).push_back(page);
            (self.from, self.rows) = (self.to, Counts::default());
            self.documents.clear();
        }
        let is_written = locked(&self.unwritten).is_empty();
        (!is_written).then(|| PagesToWrite { folder, pages: Arc::clone(&self.unwritten) })
    }

    fn page(&self) -> Option<ExposurePage> {
        let of_source = |(of, documents): (&Arc<str>, &BTreeMap<(DatasetVersion, u64), Counts>)| -> Vec<ExposureEntry> {
            let entry = |(&(dataset_version, document), &counts)| ExposureEntry {
                of: Arc::clone(of),
                dataset_version,
                document,
                counts,
            };
            documents.iter().map(entry).collect()
        };
        (self.to > self.from).then(|| ExposurePage {
            first: Some(self.first),
            from: self.from,
            to: self.to,
            rows: self.rows,
            entries: self.documents.iter().flat_map(of_source).collect(),
        })
    }
}

/// Pages on their way.
#[derive(Debug)]
pub struct PagesToWrite {
    folder: Store,
    pages: Arc<Mutex<VecDeque<ExposurePage>>>,
}

impl PagesToWrite {
    /// Puts them into the run's folder. Those that fail are kept, for whoever writes the next.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write(&self) -> Result<()> {
        write(&self.folder, &self.pages)
    }
}

fn write(folder: &Store, pages: &Mutex<VecDeque<ExposurePage>>) -> Result<()> {
    let mut pages = locked(pages);
    while let Some(page) = pages.front() {
        page.put(folder, &page.name())?;
        pages.pop_front();
    }
    Ok(())
}

fn locked(pages: &Mutex<VecDeque<ExposurePage>>) -> MutexGuard<'_, VecDeque<ExposurePage>> {
    pages.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The pages of a run in order: the name of each in `ledger/`, and its rows.
///
/// # Errors
/// If the folder cannot be listed.
pub fn pages(run: &Store) -> Result<Vec<(String, u64, u64)>> {
    listed(&run.within(FOLDER))
}

/// The pages of rows that were undone: the name of each in `ledger/undone/`, and its rows.
///
/// # Errors
/// If the folder cannot be listed.
pub fn undone(run: &Store) -> Result<Vec<(String, u64, u64)>> {
    let folder = run.within(FOLDER);
    let mut undone = listed(&folder.within(ROLLED_BACK))?;
    // What is still among the others is not undone yet.
    if let Some((called, _)) = undoing(&folder)? {
        undone.retain(|(name, ..)| *name != called);
    }
    Ok(undone)
}

/// The row that the first of these pages of a run has to begin with; none if there are no pages.
///
/// # Errors
/// If the pages do not follow one another from there, or the first cannot be read.
pub fn first(run: &Store, pages: &[(String, u64, u64)]) -> Result<Option<u64>> {
    let folder = run.within(FOLDER);
    let Some((name, from, _)) = pages.first() else { return Ok(None) };
    // Pages of earlier programs do not say it.
    let first = ExposurePage::read(&folder, name)?.first.unwrap_or(*from);
    let mut end = first;
    for (_, from, to) in pages {
        if *from != end {
            return Err(broken(&folder, &format!("no page tells of the rows from {end} to {from}")));
        }
        end = *to;
    }
    Ok(Some(first))
}

fn listed(folder: &Store) -> Result<Vec<(String, u64, u64)>> {
    let mut found = Vec::new();
    for entry in folder.list("")? {
        // What is called otherwise is not ours.
        let Some((from, to)) = ExposurePage::rows_of(&entry.name) else { continue };
        found.push((entry.name, from, to));
    }
    found.sort_by_key(|(name, from, to)| (*from, *to, name.clone()));
    Ok(found)
}

/// Moves a page to those whose rows come again.
fn undo(folder: &Store, name: &str) -> Result<()> {
    // One that nobody can read is named while it is still where it was.
    ExposurePage::read(folder, name)?;
    folder.put(UNDOING, numbered(&folder.within(ROLLED_BACK), name)?.as_bytes())?;
    finish_undoing(folder)
}

/// Continues where somebody was killed: a page that is there twice is one page.
fn finish_undoing(folder: &Store) -> Result<()> {
    if let Some((called, name)) = undoing(folder)? {
        folder.within(ROLLED_BACK).put(&called, &folder.read(&name)?)?;
        folder.remove(&name)?;
    }
    Ok(folder.remove(UNDOING)?)
}

/// The page that is on its way to `rolled_back/` and still here: what it is called there, and here.
fn undoing(folder: &Store) -> Result<Option<(String, String)>> {
    let Some((called, _)) = folder.read_with_stat(UNDOING)? else { return Ok(None) };
    let called = String::from_utf8_lossy(&called).into_owned();
    let Some((_, name)) = called.split_once('-').filter(|(_, name)| ExposurePage::rows_of(name).is_some()) else {
        return Ok(None);
    };
    let is_here = folder.stat(name)?.is_some();
    Ok(is_here.then(|| (called.clone(), name.to_owned())))
}

/// What a page is called among those that are undone: the same rows may be there before.
fn numbered(undone: &Store, name: &str) -> Result<String> {
    Ok(format!("{:04}-{name}", listed(undone)?.len()))
}

fn broken(folder: &Store, message: &str) -> Error {
    let way_on = "put the page back, or move the folder away: the run then counts from here on";
    Error::Config(format!("{}: {message}; {way_on}", folder.place("")))
}

#[cfg(test)]
mod tests;
