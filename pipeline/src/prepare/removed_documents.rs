//! Removed documents of a segment: `removed/part-00000-00.jsonl.zst`, a line for each, in the order of the text.
//!
//! # What
//! A JSON object with `source`, `start` and `end` as in the table of documents, `id`, `reason`, and the fields of the reason.
//!
//! # Why
//! Counts do not show whether a rule removes what it should. With the places, any program can read the removed texts.
//!
//! # Definition
//! - `filter`: `filter` and `rule` as in the report; `value` and `bound`, if the rule measures something; `found`, if it is
//!   about a part of the text.
//! - `duplicate`: `kind` is `exact` or `near`; `partner` has the `source`, `start` and `id` of the document because of which
//!   this one is removed; `similarity` is the estimated Jaccard similarity of a near duplicate with its partner, 0 if no band
//!   is equal: then other documents of the cluster connect both.
//! - `contamination`: the first `test_set` with which the document shares a run, and the first shared `run`.
//!
//! Rejected lines and forgotten documents are not listed.

use std::cell::RefCell;

use duplicates::NearOptions;
use filters::RemovalReason;
use schemas::manifest::{CorpusReport, FileEntry};
use serde::de::IgnoredAny;
use serde::{Deserialize, Serialize};
use store::{ObjectWriter, Store};

use super::json_lines::{LinesReader, LinesWriter, SUFFIX, is_intact};
use super::part_objects::part_of;
use super::partners::PartnerReader;
use super::removal::Removal;
use super::text_batch::DocumentRef;
use super::verdicts::DuplicateKind;
use crate::corpus::Part;
use crate::{Error, Result};

/// Memory of a worker for lists of removed documents: the encoder, its object, and the reader of the partners.
pub(super) const WORKER_BYTES: u64 = 6 << 20;

/// Line of a removed document.
#[derive(Serialize)]
struct RemovedLine<'a> {
    source: &'a str,
    start: u64,
    end: u64,
    id: &'a str,
    #[serde(flatten)]
    cause: RemovalCause<'a>,
}

/// Cause of a removal, with its fields.
#[derive(Serialize)]
#[serde(tag = "reason", rename_all = "snake_case")]
enum RemovalCause<'a> {
    Filter {
        filter: &'a str,
        rule: &'a str,
        #[serde(skip_serializing_if = "Option::is_none")]
        value: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        bound: Option<f64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        found: Option<&'a str>,
    },
    Duplicate {
        kind: DuplicateKind,
        partner: PartnerPlace<'a>,
        #[serde(skip_serializing_if = "Option::is_none")]
        similarity: Option<f64>,
    },
    Contamination {
        test_set: &'a str,
        run: &'a str,
    },
}

/// Place and id of a partner.
#[derive(Serialize)]
struct PartnerPlace<'a> {
    source: &'a str,
    start: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
}

/// Writer of the lines of a segment. The object is created with the first line.
pub(super) struct RemovedWriter<'a> {
    store: &'a Store,
    part: &'a Part,
    name: String,
    near: Option<NearOptions>,
    partners: Option<&'a RefCell<PartnerReader>>,
    open: Option<LinesWriter>,
}

impl<'a> RemovedWriter<'a> {
    /// Creates a writer for the segment with that common part of object names.
    pub(super) fn new(store: &'a Store, part: &'a Part, stem: &str, near: Option<NearOptions>) -> Self {
        Self { store, part, name: object_name(stem), near, partners: None, open: None }
    }

    /// Sets the partners of removed duplicates.
    pub(super) fn set_partners(&mut self, partners: Option<&'a RefCell<PartnerReader>>) {
        self.partners = partners;
    }

    /// Adds a document that a filter removes.
    pub(super) fn add_filtered(
        &mut self,
        document: &DocumentRef<'_>,
        filter: &str,
        reason: &RemovalReason,
    ) -> Result<()> {
        let &RemovalReason { rule, value, bound, ref found } = reason;
        self.push(document, RemovalCause::Filter { filter, rule, value, bound, found: found.as_deref() })
    }

    /// Adds a document that is removed after the filters.
    pub(super) fn add(&mut self, document: &DocumentRef<'_>, removal: &Removal) -> Result<()> {
        match removal {
            Removal::None => Ok(()),
            Removal::Duplicate { kind, index } => {
                let partners = self.partners.expect("verdicts have partners if removed documents are listed");
                let partner = partners.borrow_mut().find(*index)?;
                let similarity = partner.equal_bands.zip(self.near).map(|(equal, near)| near.similarity(equal));
                let place = PartnerPlace { source: &partner.source, start: partner.start, id: partner.id.as_deref() };
                self.push(document, RemovalCause::Duplicate { kind: *kind, partner: place, similarity })
            }
            Removal::Contaminated { test_set, run } => {
                self.push(document, RemovalCause::Contamination { test_set, run })
            }
        }
    }

    fn push(&mut self, document: &DocumentRef<'_>, cause: RemovalCause<'_>) -> Result<()> {
        let DocumentRef { id, piece, ref range, .. } = *document;
        let source = self.part.pieces[piece].name.as_str();
        let lines = match &mut self.open {
            Some(lines) => lines,
            closed => closed.insert(LinesWriter::begin(self.store, self.name.clone())?),
        };
        lines.push(&RemovedLine { source, start: range.start, end: range.end, id, cause })
    }

    /// Completes the object. Returns it with its bytes, which are not committed, or `None` if there is no line.
    pub(super) fn finish(self) -> Result<Option<(FileEntry, ObjectWriter)>> {
        self.open.map(LinesWriter::finish).transpose()
    }
}

/// Sums over the lines of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RemovedTotals {
    pub(super) bytes: u64,
    pub(super) documents: u64,
}

/// Reads the lines of a segment, and compares their BLAKE3 with that of its record.
pub(super) fn totals(store: &Store, file: &FileEntry) -> Result<RemovedTotals> {
    let bytes = store.head(&file.path)?.map_or(0, |found| found.bytes);
    if !is_intact(store, &file.path, &file.blake3)? {
        let message = "missing or damaged: its BLAKE3 differs from its record; run `cloze verify --repair` to remake the \
                       part";
        return Err(Error::Shard { place: store.place(&file.path), group: None, message: message.to_owned() });
    }
    let mut lines = LinesReader::<IgnoredAny>::open(store, &file.path)?;
    let mut documents = 0;
    while lines.skip()? {
        documents += 1;
    }
    Ok(RemovedTotals { bytes, documents })
}

/// Returns the number of documents that a segment with these counts removed.
pub(super) fn count(report: &CorpusReport) -> u64 {
    let filtered: u64 = report.filters.iter().map(|filter| filter.removed_in_all().documents).sum();
    filtered + report.duplicates.exact_documents + report.duplicates.near_documents + report.contaminated.documents
}

/// Fields of a line that say why a document is not in the folder.
#[derive(Deserialize)]
struct ListedRemoval {
    id: String,
    partner: Option<ListedPartner>,
    filter: Option<String>,
}

#[derive(Deserialize)]
struct ListedPartner {
    source: String,
    id: Option<String>,
}

/// Returns the reason for which a document with that id is not in the folder, if a list has it.
pub(super) fn find_reason(store: &Store, id: &str) -> Result<Option<String>> {
    for entry in store.list(FOLDER)?.into_iter().filter(|entry| part_of(&entry.name).is_some()) {
        let mut lines = LinesReader::<ListedRemoval>::open(store, &entry.name)?;
        while let Some(line) = lines.read()? {
            if line.id == id {
                return Ok(Some(line.reason()));
            }
        }
    }
    Ok(None)
}

impl ListedRemoval {
    fn reason(&self) -> String {
        match (&self.partner, &self.filter) {
            (Some(ListedPartner { id: Some(id), .. }), _) => {
                format!("it was removed as a duplicate of `{}`; forget that one", id.escape_debug())
            }
            (Some(partner), _) => {
                format!("it was removed as a duplicate of a document of `{}`", partner.source.escape_debug())
            }
            (None, Some(filter)) => format!("the filter `{filter}` removed it"),
            (None, None) => "it was removed because it shares text with a test set".to_owned(),
        }
    }
}

/// Folder of the lists.
const FOLDER: &str = "removed";

/// Returns the object name of a segment with that common part of object names.
fn object_name(stem: &str) -> String {
    format!("{FOLDER}/{stem}{SUFFIX}")
}
