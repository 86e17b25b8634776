//! Sections `[sources.NAME]`: the sources of a mixture.

use std::path::PathBuf;

use pipeline::corpus::AnyFormat;
use pipeline::mixture::Weight;
use pipeline::prepare::{AnyFilter, DuplicatesConfig, PrepareConfig};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// One of several prepared folders that a run reads.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct SourceConfig {
    /// Prepared folder of the source. All sources need the same tokenizer, `prepare.max_seq_len` and packing.
    pub(crate) folder: PathBuf,
    /// Corpus from which `cloze prepare` fills the folder: files, folders and globs, as in `prepare.inputs`. Settings
    /// that this section cannot have come from `[prepare]`. Empty for a folder that is prepared elsewhere.
    pub(crate) inputs: Vec<String>,
    /// Format of these files. Default: `prepare.format`, or the format that the extensions of most bytes indicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) format: Option<AnyFormat>,
    /// Formats with fields: field or column with the text. Default: `prepare.text_field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) text_field: Option<String>,
    /// Formats with fields, and WARC: field, column or header with the document id. Default: `prepare.id_field`. If only
    /// some sources have ids, leave out `prepare.id_field`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) id_field: Option<String>,
    /// Filters of this corpus, as `[[sources.NAME.filters]]`. Default: `prepare.filters`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) filters: Option<Vec<AnyFilter>>,
    /// Removal of duplicate documents of this corpus. Default: `[prepare.duplicates]`, which this table replaces as a
    /// whole. With `exact = false` and `near = false`, the duplicates of this corpus stay.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) duplicates: Option<DuplicatesConfig>,
    /// Share of the rows, relative to the weights of the other sources: a number, or a list of weights. Each weight of
    /// a list applies from a row of the stream on, the first from row 0. A source whose weight is always 0 is not read.
    pub(crate) weight: Weight,
}

impl SourceConfig {
    /// Returns the configuration of the preparation of this source, with the settings of `[prepare]` that it does not
    /// have.
    pub(crate) fn prepare(&self, base: &PrepareConfig) -> PrepareConfig {
        let duplicates = match &self.duplicates {
            None => base.duplicates.clone(),
            Some(DuplicatesConfig { exact: false, near: false, .. }) => None,
            own => own.clone(),
        };
        PrepareConfig {
            inputs: self.inputs.clone(),
            format: self.format.clone().unwrap_or_else(|| base.format.clone()),
            text_field: self.text_field.clone().unwrap_or_else(|| base.text_field.clone()),
            id_field: self.id_field.clone().or_else(|| base.id_field.clone()),
            folder: self.folder.clone(),
            filters: self.filters.clone().unwrap_or_else(|| base.filters.clone()),
            duplicates,
            ..base.clone()
        }
    }

    /// Returns the keys of `[prepare]` that this source replaces.
    pub(crate) fn own_keys(&self) -> Vec<&'static str> {
        let optional = [
            ("text_field", self.text_field.is_some()),
            ("id_field", self.id_field.is_some()),
            ("filters", self.filters.is_some()),
            ("duplicates", self.duplicates.is_some()),
        ];
        let own = optional.into_iter().filter(|(_, is_own)| *is_own).map(|(key, _)| key);
        ["inputs", "format", "folder"].into_iter().chain(own).collect()
    }
}
