//! Rows that a rank has consumed, for rank 0, which has the records of the run.

use schemas::{DatasetVersion, RowIndex};
use serde::{Deserialize, Serialize};

use super::RowDocuments;
use crate::error::{Error, Result};
use crate::load::BadRow;

/// Rows that a rank consumed in a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedRows {
    /// Consumed rows, in the order of the stream.
    pub rows: Vec<RowDocuments>,
    /// Rows among them that were found to be bad.
    pub bad: Vec<BadRow>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Message {
    rows: Vec<GivenRow>,
    bad: Vec<BadRow>,
}

#[derive(Debug, Serialize, Deserialize)]
struct GivenRow {
    row: u64,
    of: String,
    dataset_version: DatasetVersion,
    documents: Vec<u64>,
    bad: bool,
}

impl ConsumedRows {
    /// Returns the rows as JSON.
    #[must_use]
    pub fn to_json(&self) -> Vec<u8> {
        let row = |row: &RowDocuments| GivenRow {
            row: row.row.0,
            of: row.of.as_ref().to_owned(),
            dataset_version: row.dataset_version,
            documents: row.documents.clone(),
            bad: row.bad,
        };
        let message = Message { rows: self.rows.iter().map(row).collect(), bad: self.bad.clone() };
        serde_json::to_vec(&message).expect("its maps have text as keys")
    }

    /// Reads the rows of another rank.
    ///
    /// # Errors
    /// If the bytes are not those of [`to_json`](Self::to_json).
    pub fn from_json(bytes: &[u8]) -> Result<Self> {
        let Message { rows, bad } = serde_json::from_slice(bytes)
            .map_err(|error| Error::Config(format!("rows of another rank cannot be read: {error}")))?;
        let row = |row: GivenRow| RowDocuments {
            row: RowIndex(row.row),
            of: row.of.into(),
            dataset_version: row.dataset_version,
            documents: row.documents,
            bad: row.bad,
        };
        Ok(Self { rows: rows.into_iter().map(row).collect(), bad })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_survive_the_way_to_another_rank() {
        let row = RowDocuments {
            row: RowIndex(u64::MAX),
            of: "books".into(),
            dataset_version: DatasetVersion(2),
            documents: vec![0, u64::MAX],
            bad: true,
        };
        let rows = ConsumedRows { rows: vec![row], bad: Vec::new() };
        assert_eq!(ConsumedRows::from_json(&rows.to_json()).expect("readable"), rows);
        assert!(ConsumedRows::from_json(b"{}").is_err());
    }
}
