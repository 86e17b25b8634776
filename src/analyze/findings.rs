//! Results of an analysis.

use analysis::FindingTable;

/// Results for one checkpoint.
#[derive(Clone, Debug, PartialEq)]
pub struct ModelFindings {
    /// Name of the run or model.
    pub model: String,
    /// Step of the checkpoint; `None` for a model without steps.
    pub step: Option<u64>,
    /// Tables of the analysis.
    pub tables: Vec<FindingTable>,
}
