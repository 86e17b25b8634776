//! Rows that are replaced by padding: rows that the caller excludes, and rows that cannot be made.
//!
//! # What
//! A replaced row is padding: it has no real token and no prediction, and counts and averages ignore it. It keeps its
//! place, so every other row stays the same.
//!
//! # Why
//! One sample that a view cannot render must not end a run of weeks. The set of replaced rows must be the same after
//! any kill, or the run would differ. Implementations of [`BadRows`] therefore record a row before its batch is handed
//! out, and never forget it.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use schemas::RowIndex;
use serde::{Deserialize, Serialize};

use super::row_facts::RowFacts;
use crate::error::{Error, Result};

/// Rows of a stream that are excluded from training.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ExcludedRows(BTreeSet<RowIndex>);

impl ExcludedRows {
    /// Whether the row is excluded.
    #[must_use]
    pub fn contains(&self, row: RowIndex) -> bool {
        self.0.contains(&row)
    }
}

impl FromIterator<RowIndex> for ExcludedRows {
    fn from_iter<I: IntoIterator<Item = RowIndex>>(rows: I) -> Self {
        Self(rows.into_iter().collect())
    }
}

/// Row that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadRow {
    /// Origin of the row.
    pub row: RowFacts,
    /// Error message of each attempt.
    pub why: String,
}

impl BadRow {
    /// Fails if `recorded` bad rows are as many as are allowed. The hint names the batch of the row.
    ///
    /// # Errors
    /// [`Error::Row`].
    pub fn check_limit(&self, allowed: u64, recorded: u64, rows_per_batch: u64) -> Result<()> {
        if recorded < allowed {
            return Ok(());
        }
        let batch = self.row.row.0 / rows_per_batch;
        Err(self.refused(format!(
            "`data.max_bad_rows` allows {allowed} bad rows, and {recorded} are recorded; raise it to continue without the row, \
             see its batch with `cloze inspect batch {batch}`, or remove its document (`cloze prepare forget`)"
        )))
    }

    /// Returns the error that ends the stream at this row.
    pub(super) fn refused(&self, fix: String) -> Error {
        Error::Row { row: self.row.to_string(), why: self.why.clone(), fix }
    }
}

/// Persistent list of the rows of a stream that cannot be made.
pub trait BadRows: Debug + Send + Sync {
    /// Returns the recorded rows in `rows`.
    fn in_range(&self, rows: Range<u64>) -> Vec<BadRow>;

    /// Number of recorded rows.
    fn count(&self) -> u64;

    /// Records one more row permanently before it returns. Rows arrive in the order of the stream, each before its
    /// batch is handed out.
    ///
    /// # Errors
    /// If the row cannot be recorded; the stream ends with the error.
    fn leave_out(&self, row: &BadRow) -> Result<()>;
}

/// Fault injection for rows: an implementation may sleep or panic.
pub trait RowFaults: Debug + Send + Sync {
    /// Called when row `row` is made for the `attempt`-th time, counted from 0. The last of [`ROW_ATTEMPTS`] attempts
    /// decides.
    fn inject(&self, row: RowIndex, attempt: u32);
}

/// Number of attempts to make a row. One panic may be a transient fault; a second one means that the row always panics.
pub const ROW_ATTEMPTS: u32 = 2;

/// Policy for bad, excluded and faulty rows of a stream.
#[derive(Clone, Debug, Default)]
pub struct RowPolicy {
    /// Rows that are excluded in any case.
    pub excluded: ExcludedRows,
    /// List of the rows that cannot be made. Without it, such a row ends the stream.
    pub bad_rows: Option<Arc<dyn BadRows>>,
    /// Whether the documents of rows are counted: see [`exposure`](crate::exposure).
    pub counts_documents: bool,
    /// Fault injector for tests.
    pub faults: Option<Arc<dyn RowFaults>>,
}
