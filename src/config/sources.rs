//! Sections `[sources.NAME]`: the sources of a mixture.

use std::path::PathBuf;

use pipeline::corpus::AnyFormat;
use pipeline::mixture::Weight;
use pipeline::prepare::AnyFilter;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of several prepared folders that a run reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SourceConfig {
    /// Prepared folder of the source. All sources need the same tokenizer, `prepare.max_seq_len` and packing.
    pub(crate) folder: PathBuf,
    /// Corpus from which `cloze prepare` fills the folder: files, folders and globs, as in `prepare.inputs`. All other
    /// settings come from `[prepare]`. Empty for a folder that is prepared elsewhere.
    pub(crate) inputs: Vec<String>,
    /// Format of these files. Default: `prepare.format`, or the format that the extensions of most bytes indicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<AnyFormat>,
    /// Filters of this corpus, as `[[sources.NAME.filters]]`. Default: `prepare.filters`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filters: Option<Vec<AnyFilter>>,
    /// Share of the rows, relative to the weights of the other sources: a number, or a list of weights. Each weight of
    /// a list applies from a row of the stream on, the first from row 0. A source whose weight is always 0 is not read.
    pub(crate) weight: Weight,
}
