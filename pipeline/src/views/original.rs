//! Framed sample without changes.
//!
//! # What
//! `[CLS]` content `[SEP]`, padded to the width.
//!
//! # Why
//! Default input of every edit, and the clean copy for teachers and analyses.
//!
//! # Definition
//! Content of `n` tokens in a row of width `w ≥ n + 2`: column 0 is `[CLS]`, columns `1..=n` the content,
//! column `n + 1` `[SEP]`, the rest `[PAD]`. A row without content (the empty last pieces of a short sample) is
//! `[CLS] [SEP]`: nothing in it can be masked, so it counts for nothing, and attention over it is defined.
//!
//! # Columns
//! `input_ids`; on demand `attention_mask`, `origin`, `document`.
//!
//! # Reference
//! Devlin et al., *BERT*, NAACL 2019, section 3, with one segment, as in RoBERTa (Liu et al. 2019).

use schemars::JsonSchema;
use schemas::columns::INPUT_IDS;
use schemas::{ColumnSpec, Vocab};
use serde::{Deserialize, Serialize};

use super::{View, ViewName, ViewSource};
use crate::rng::RowAddress;
use crate::row::RowMut;

/// Framed sample without changes. It has no settings.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Original {}

impl View for Original {
    fn of(&self) -> Option<&ViewName> {
        None
    }

    fn columns(&self) -> &'static [ColumnSpec] {
        const { &[INPUT_IDS.spec()] }
    }

    fn render(&self, source: ViewSource<'_>, vocab: &Vocab, _: &RowAddress<'_>, row: &mut RowMut<'_>) {
        row.frame(source.sample(), vocab);
    }
}
