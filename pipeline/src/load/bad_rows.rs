//! Rows that are left out of a stream: by whoever asks for that, or because they cannot be made.
//!
//! # What
//! A row that is left out is padding: no token of it is real, nothing of it is predicted, and what is counted or averaged
//! does not hear of it. It keeps its place, so that every other row stays what it is.
//!
//! # Why
//! One sample that a view cannot take must not end a run of weeks; and which rows did not count must be the same after
//! any kill, or the run would be another. So whoever answers for [`BadRows`] writes a row down before its batch is handed
//! on, and knows it forever.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use schemas::RowIndex;
use serde::{Deserialize, Serialize};

use super::row_facts::RowFacts;
use crate::error::{Error, Result};

/// Rows of a stream that nobody learns from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LeftOut(BTreeSet<RowIndex>);

impl LeftOut {
    /// Whether the row is one of them.
    #[must_use]
    pub fn contains(&self, row: RowIndex) -> bool {
        self.0.contains(&row)
    }
}

impl FromIterator<RowIndex> for LeftOut {
    fn from_iter<I: IntoIterator<Item = RowIndex>>(rows: I) -> Self {
        Self(rows.into_iter().collect())
    }
}

/// A row that cannot be made.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BadRow {
    /// Where it comes from.
    pub row: RowFacts,
    /// What went wrong, each time.
    pub why: String,
}

impl BadRow {
    /// That it ends the stream.
    pub(super) fn refused(&self, way_on: String) -> Error {
        Error::Row { row: self.row.to_string(), why: self.why.clone(), way_on }
    }
}

/// Keeps which rows of a stream cannot be made.
pub trait BadRows: Debug + Send + Sync {
    /// Those of `rows` that are left out by now.
    fn within(&self, rows: Range<u64>) -> Vec<BadRow>;

    /// How many are left out by now.
    fn count(&self) -> u64;

    /// Leaves one more out, forever: it is written down when this returns. Rows come in the order of the stream, each
    /// before its batch is handed on.
    ///
    /// # Errors
    /// If it cannot be written down; the stream ends with it.
    fn leave_out(&self, row: &BadRow) -> Result<()>;
}

/// Strikes while rows are made, to see what becomes of them: it may take its time, or panic.
pub trait RowFaults: Debug + Send + Sync {
    /// Row `row` is made, for the `attempt`-th time, counted from 0. Of [`ROW_ATTEMPTS`] the last decides.
    fn strike(&self, row: RowIndex, attempt: u32);
}

/// How often a row is made before it is given up: what panics once may have met a passing fault, and what panics twice
/// would forever.
pub const ROW_ATTEMPTS: u32 = 2;

/// Who looks after the rows of a stream.
#[derive(Clone, Debug, Default)]
pub struct RowPolicy {
    /// Rows that are left out whatever they are.
    pub left_out: LeftOut,
    /// Who keeps which cannot be made; without, such a row ends the stream.
    pub bad_rows: Option<Arc<dyn BadRows>>,
    /// Whether somebody counts what documents rows are made of: see [`exposure`](crate::exposure).
    pub counts_documents: bool,
    /// Who strikes, to see all this at work.
    pub faults: Option<Arc<dyn RowFaults>>,
}
