//! Exposure counts of each document: `exposure/` of a run's folder.
//!
//! # What
//! Pages named `rows-000000000000-000000004096.parquet` describe the rows from one number of the stream to another. A
//! row was *trained*, *skipped* (its step was skipped) or *bad* (it is padding). For each mixture source,
//! dataset version and document, the page counts the rows of each kind. Its metadata (`cloze.rows`) counts the rows
//! themselves. Documents of equal text in two sources count as two documents. Pages follow one another without a gap,
//! from the first row to the newest checkpoint.
//!
//! # Why
//! A mixture must be verifiable, and the question whether a document was trained on needs a number as the answer. Rows
//! could be computed from their numbers, but these pages record which rows the trainer received and consumed.
//!
//! # Definition
//! A page is written before the checkpoint that ends with it. A run that continues from a checkpoint moves later pages
//! to `exposure/rolled_back/`: their rows were consumed and will be consumed again. `trained + skipped + left out =
//! rows consumed` holds for each page when it is written, and for all pages when they are opened.

mod consumed_rows;
mod page;

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schemas::{DatasetVersion, RowIndex};
use store::Store;

pub use self::consumed_rows::ConsumedRows;
pub use self::page::{Counts, ExposureEntry, ExposurePage, RowOutcome};
use crate::error::{Error, Result};

/// Subfolder of a run's folder.
pub const FOLDER: &str = "exposure";
/// Subfolder of the pages whose rows are consumed again.
pub const ROLLED_BACK: &str = "rolled_back";
/// Name in `rolled_back/` of the page that is being moved there. After a kill, the next process continues with that
/// name.
const UNDOING: &str = "undoing";
/// Maximum number of documents of a page in memory, about 50 MB. A page with more ends between checkpoints.
const ENTRIES_MAX: usize = 1 << 20;

/// Documents of one row of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDocuments {
    /// Number of the row in the stream.
    pub row: RowIndex,
    /// Mixture source of the row. Empty for a single folder.
    pub of: Arc<str>,
    /// Dataset version of its data.
    pub dataset_version: DatasetVersion,
    /// Ids of its documents.
    pub documents: Vec<u64>,
    /// Whether the row is padding because it cannot be made or is excluded.
    pub bad: bool,
}

/// Exposure record of a running training.
#[derive(Debug, Default)]
pub struct Exposure {
    /// Folder of the pages. `None` before the run has begun.
    store: Option<Store>,
    /// Rows that were handed out and are not consumed yet.
    given: VecDeque<RowDocuments>,
    /// First row of the first page.
    first: u64,
    /// First row of the current page, and the row after its last.
    from: u64,
    to: u64,
    rows: Counts,
    /// Finished pages in order, each until it is written. The next writer writes these first.
    unwritten: Arc<Mutex<VecDeque<ExposurePage>>>,
    /// Counts by source, then by dataset version and id.
    documents: BTreeMap<Arc<str>, BTreeMap<(DatasetVersion, u64), Counts>>,
}

impl Exposure {
    /// Continues the run after its first `rows` rows. Rolls back later pages and discards the current one.
    ///
    /// # Errors
    /// If the pages cannot be moved, or do not add up.
    pub fn begin(&mut self, run: &Store, rows: RowIndex) -> Result<()> {
        let folder = run.prefixed(FOLDER);
        finish_undoing(&folder)?;
        write(&folder, &self.unwritten)?;
        if let Some(page) = self.page() {
            let rolled_back_pages = folder.prefixed(ROLLED_BACK);
            page.put(&rolled_back_pages, &numbered(&rolled_back_pages, &page.name())?)?;
        }
        let (rolled_back_pages, kept): (Vec<_>, Vec<_>) = pages(run)?.into_iter().partition(|page| page.to > rows.0);
        rolled_back_pages.iter().try_for_each(|page| undo(&folder, &page.name))?;
        let first = first(run, &kept)?;
        // A run that began with a program version without exposure counts has no pages for its first rows.
        if let Some(end) = kept.last().map(|page| page.to).filter(|end| *end != rows.0) {
            return Err(broken(&folder, &format!("it ends with row {end}, but the checkpoint with row {rows}")));
        }
        let from = rows.0;
        let to = rows.0;
        *self = Self { store: Some(folder), first: first.unwrap_or(from), from, to, ..Self::default() };
        Ok(())
    }

    /// Adds the rows of a batch that was handed out.
    pub fn give(&mut self, rows: Vec<RowDocuments>) {
        self.given.extend(rows);
    }

    /// Takes the rows before `end` that were handed out, of a rank that has no record.
    pub fn take_given(&mut self, end: RowIndex) -> Vec<RowDocuments> {
        let count = self.given.partition_point(|row| row.row < end);
        self.given.drain(..count).collect()
    }

    /// Discards rows that were handed out and not consumed. They will be handed out again.
    pub fn reset(&mut self) {
        self.given.clear();
    }

    /// Records that a step consumed the rows up to `end`.
    ///
    /// # Errors
    /// If a full page cannot be written.
    ///
    /// # Panics
    /// If the rows differ from those that were handed out.
    pub fn consume(&mut self, end: RowIndex, fate: RowOutcome) -> Result<()> {
        if self.store.is_none() {
            return Ok(());
        }
        while self.given.front().is_some_and(|row| row.row < end) {
            let row = self.given.pop_front().expect("there is a first");
            assert_eq!(row.row.0, self.to, "rows are consumed one after another");
            self.to += 1;
            self.rows.add(fate, row.bad);
            let documents = self.documents.entry(row.of).or_default();
            for document in row.documents {
                documents.entry((row.dataset_version, document)).or_default().add(fate, row.bad);
            }
        }
        assert_eq!(self.to, end.0, "every row that is consumed was given");
        let entries: usize = self.documents.values().map(BTreeMap::len).sum();
        if entries >= ENTRIES_MAX { self.end_page().map_or(Ok(()), |pages| pages.write()) } else { Ok(()) }
    }

    /// Ends the page of the rows since the previous one. Returns it with the pages that could not be written yet. The
    /// caller writes them before the checkpoint that ends with them. Returns `None` if the folder has all pages.
    ///
    /// # Panics
    /// If its rows do not add up.
    pub fn end_page(&mut self) -> Option<PagesToWrite> {
        let folder = self.store.clone()?;
        if let Some(page) = self.page() {
            assert_eq!(page.rows.total(), page.to - page.from, "every row was trained, skipped or bad");
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

/// Pages that are ready to be written.
#[derive(Debug)]
pub struct PagesToWrite {
    folder: Store,
    pages: Arc<Mutex<VecDeque<ExposurePage>>>,
}

impl PagesToWrite {
    /// Writes the pages to the run's folder. Failed pages are kept for the next write.
    ///
    /// # Errors
    /// If a page cannot be written.
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

/// Page in a folder, with the rows that its name states.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedPage {
    /// File name in the folder.
    pub name: String,
    /// First row of the page.
    pub from: u64,
    /// First row after the page.
    pub to: u64,
}

/// Returns the pages of a run in `exposure/`, in order of their rows.
///
/// # Errors
/// If the folder cannot be listed.
pub fn pages(run: &Store) -> Result<Vec<ListedPage>> {
    listed(&run.prefixed(FOLDER))
}

/// Returns the rolled-back pages, in `exposure/rolled_back/`.
///
/// # Errors
/// If the folder cannot be listed.
pub fn rolled_back_pages(run: &Store) -> Result<Vec<ListedPage>> {
    let folder = run.prefixed(FOLDER);
    let mut rolled_back_pages = listed(&folder.prefixed(ROLLED_BACK))?;
    // A page that is still among the others is not rolled back yet.
    if let Some((called, _)) = undoing(&folder)? {
        rolled_back_pages.retain(|page| page.name != called);
    }
    Ok(rolled_back_pages)
}

/// Returns the first row that the pages of a run must begin with. `None` if there are no pages.
///
/// # Errors
/// If the pages leave a gap after that row, or the first page cannot be read.
pub fn first(run: &Store, pages: &[ListedPage]) -> Result<Option<u64>> {
    let folder = run.prefixed(FOLDER);
    let Some(page) = pages.first() else { return Ok(None) };
    // Pages of earlier program versions do not contain the first row.
    let first = ExposurePage::read(&folder, &page.name)?.first.unwrap_or(page.from);
    let mut end = first;
    for &ListedPage { from, to, .. } in pages {
        if from != end {
            return Err(broken(&folder, &format!("there is no page for the rows from {end} to {from}")));
        }
        end = to;
    }
    Ok(Some(first))
}

fn listed(folder: &Store) -> Result<Vec<ListedPage>> {
    let mut found = Vec::new();
    for entry in folder.list("")? {
        // Files with other names are not pages.
        let Some((from, to)) = ExposurePage::rows_of(&entry.name) else { continue };
        found.push(ListedPage { name: entry.name, from, to });
    }
    found.sort_by(|one, other| (one.from, one.to, &one.name).cmp(&(other.from, other.to, &other.name)));
    Ok(found)
}

/// Moves a page to the rolled-back pages.
fn undo(folder: &Store, name: &str) -> Result<()> {
    // Reading first reports an unreadable page under its current name.
    ExposurePage::read(folder, name)?;
    folder.put(UNDOING, numbered(&folder.prefixed(ROLLED_BACK), name)?.as_bytes())?;
    finish_undoing(folder)
}

/// Continues a move that was interrupted by a kill. A page that exists in both places is one page.
fn finish_undoing(folder: &Store) -> Result<()> {
    if let Some((called, name)) = undoing(folder)? {
        folder.prefixed(ROLLED_BACK).put(&called, &folder.get(&name)?)?;
        folder.delete(&name)?;
    }
    Ok(folder.delete(UNDOING)?)
}

/// Returns the names, there and here, of a page whose move to `rolled_back/` is incomplete.
fn undoing(folder: &Store) -> Result<Option<(String, String)>> {
    let Some((called, _)) = folder.get_with_stat(UNDOING)? else { return Ok(None) };
    let called = String::from_utf8_lossy(&called).into_owned();
    let Some((_, name)) = called.split_once('-').filter(|(_, name)| ExposurePage::rows_of(name).is_some()) else {
        return Ok(None);
    };
    let is_here = folder.head(name)?.is_some();
    Ok(is_here.then(|| (called.clone(), name.to_owned())))
}

/// Returns the name of a page among the rolled-back ones. Pages of the same rows can be there already.
fn numbered(rolled_back_pages: &Store, name: &str) -> Result<String> {
    Ok(format!("{:04}-{name}", listed(rolled_back_pages)?.len()))
}

fn broken(folder: &Store, message: &str) -> Error {
    let fix = "restore the page, or move the folder away: counting then starts from here";
    Error::Config(format!("{}: {message}; {fix}", folder.place("")))
}

#[cfg(test)]
mod tests;
