//! Assignment of the rows of a stream to its sources.

use std::ops::Range;

use super::{AssignedRows, Mixture};

/// Rule that assigns a source to each row of a stream.
#[derive(Debug)]
pub(crate) enum SourceAssignment {
    /// A single source.
    SingleSource,
    /// One source after another, with this many rows each. Used for validation.
    InTurn(Vec<u64>),
    /// A mixture of sources.
    Mixed(Mixture),
}

impl SourceAssignment {
    /// Assigns the rows `rows` to sources.
    pub(crate) fn assign(&self, rows: Range<u64>) -> AssignedRows {
        match self {
            Self::SingleSource => {
                let count = usize::try_from(rows.end.saturating_sub(rows.start)).unwrap_or(0);
                AssignedRows { sources: vec![0; count], rows: vec![rows] }
            }
            Self::InTurn(counts) => {
                let first = in_turn(counts, rows.start);
                let behind = in_turn(counts, rows.end);
                let ranges: Vec<Range<u64>> =
                    first.into_iter().zip(behind).map(|(first, behind)| first..behind).collect();
                let of_source = |(source, range): (u16, &Range<u64>)| range.clone().map(move |_| source);
                AssignedRows { sources: (0..).zip(&ranges).flat_map(of_source).collect(), rows: ranges }
            }
            Self::Mixed(mixture) => mixture.assign(rows),
        }
    }

    /// Returns the number of rows of each source before a row of the stream.
    pub(crate) fn rows_before(&self, row: u64) -> Vec<u64> {
        match self {
            Self::SingleSource => vec![row],
            Self::InTurn(counts) => in_turn(counts, row),
            Self::Mixed(mixture) => mixture.rows_before(row),
        }
    }

    /// Returns the row of the stream that contains a source's row `row`. `None` if the stream never reaches it.
    pub(crate) fn row_of(&self, source: usize, row: u64) -> Option<u64> {
        match self {
            Self::SingleSource => Some(row),
            Self::InTurn(counts) => (row < counts[source]).then(|| counts[..source].iter().sum::<u64>() + row),
            Self::Mixed(mixture) => mixture.row_of(source, row),
        }
    }

    /// Returns the shares of a mixture source in a period, each with the first row at which it applies. Empty without a
    /// mixture.
    pub(crate) fn shares(&self, source: usize) -> Vec<(u64, u64)> {
        let Self::Mixed(mixture) = self else { return Vec::new() };
        let shares = mixture.recipes().iter().map(|recipe| (mixture.first_row(recipe.period), recipe.shares[source]));
        let mut changes: Vec<(u64, u64)> = shares.collect();
        changes.dedup_by_key(|(_, share)| *share);
        changes
    }

    /// Returns the maximum number of a source's rows among `rows` consecutive rows of the stream.
    pub(crate) fn at_most(&self, source: usize, rows: u64) -> u64 {
        match self {
            Self::SingleSource => rows,
            Self::InTurn(counts) => rows.min(counts[source]),
            Self::Mixed(mixture) => mixture.at_most(source, rows),
        }
    }
}

fn in_turn(counts: &[u64], row: u64) -> Vec<u64> {
    let mut left = row;
    let take = |&count: &u64| {
        let taken = count.min(left);
        left -= taken;
        taken
    };
    counts.iter().map(take).collect()
}
