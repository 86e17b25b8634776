//! The address of a row.

use std::fmt::{self, Display};

use schemas::{DatasetVersion, Epoch, RowIndex, SampleAddress};
use serde::{Deserialize, Serialize};

/// Where a row comes from.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RowFacts {
    /// Its number in the stream.
    pub row: RowIndex,
    /// The source of the mixture that it is of; none where one folder is all there is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub of: Option<String>,
    /// Pass over the data of that source.
    pub epoch: Epoch,
    /// The dataset version of its folder that the epoch is over.
    pub dataset_version: DatasetVersion,
    /// The stored sample.
    pub sample: SampleAddress,
    /// Which piece of it.
    pub piece: u32,
    /// Which copy.
    pub copy: u32,
    /// The shard's path within the folder.
    pub shard: String,
    /// Row group within the shard.
    pub group: u32,
    /// Row within the group.
    pub row_in_group: usize,
    /// Source of the sample's first document.
    pub source: u16,
    /// The names of its documents, in order.
    pub documents: Vec<u64>,
}

/// Documents that an address names.
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
