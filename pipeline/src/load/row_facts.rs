//! Address of a row.

use std::fmt::{self, Display};

use schemas::{DatasetVersion, Epoch, RowIndex, SampleAddress};
use serde::{Deserialize, Serialize};

/// Origin of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFacts {
    /// Number of the row in the stream.
    pub row: RowIndex,
    /// Mixture source of the row. Absent for a single folder.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Pass over the data of that source.
    pub epoch: Epoch,
    /// Dataset version of the folder that the epoch reads.
    pub dataset_version: DatasetVersion,
    /// Stored sample.
    pub sample: SampleAddress,
    /// Piece of the sample.
    pub piece: u32,
    /// Copy of the row.
    pub copy: u32,
    /// Path of the shard within the folder.
    pub shard: String,
    /// Row group within the shard.
    pub group: u32,
    /// Row within the group.
    pub row_in_group: usize,
    /// Source of the sample's first document.
    pub source: u16,
    /// Ids of its documents, in order.
    pub documents: Vec<u64>,
}

/// Maximum number of documents in a displayed address.
const DOCUMENTS_SHOWN: usize = 5;

impl Display for RowFacts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            row, of, epoch, dataset_version, sample, piece, copy, shard, group, row_in_group, documents, ..
        } = self;
        write!(f, "row {row} of the stream (")?;
        of.iter().try_for_each(|source| write!(f, "source `{source}`, "))?;
        write!(f, "epoch {epoch}, dataset version {dataset_version}, sample {sample} = {shard}, row ")?;
        write!(f, "group {group}, row {row_in_group}, piece {piece}, copy {copy}; documents")?;
        documents.iter().take(DOCUMENTS_SHOWN).try_for_each(|document| write!(f, " {document:016x}"))?;
        if documents.len() > DOCUMENTS_SHOWN {
            write!(f, " and {} more)", documents.len() - DOCUMENTS_SHOWN)
        } else {
            write!(f, ")")
        }
    }
}
