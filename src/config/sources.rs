//! The sections `[sources.NAME]`: what a mixture is made of.

use std::path::PathBuf;

use pipeline::corpus::AnyFormat;
use pipeline::mixture::Weight;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of several prepared folders that a run reads, by its own name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SourceConfig {
    /// Its prepared folder. All sources have one tokenizer, one `prepare.max_seq_len` and one way of packing.
    pub(crate) folder: PathBuf,
    /// What `cloze prepare` makes that folder of: files, folders and globs, as in `prepare.inputs`. All else is as `[prepare]`
    /// says. Nothing for a folder that is prepared elsewhere.
    pub(crate) inputs: Vec<String>,
    /// How documents lie in these files; if not given, as `prepare.format` says, or as the endings of most of their bytes say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<AnyFormat>,
    /// Its share of the rows, next to the weights of the other sources: a number, or a list of weights that each hold from
    /// so many rows of the stream on, the first from 0. A source that never has one is not read.
    pub(crate) weight: Weight,
}
