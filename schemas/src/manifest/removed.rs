//! Counts of documents that were removed on request: duplicates, and documents that share text with test sets.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// Removed duplicates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DuplicateCounts {
    /// Documents with the words of an earlier document.
    pub exact_documents: u64,
    /// Bytes of text in these documents.
    pub exact_bytes: u64,
    /// Other documents that are similar to an earlier one.
    pub near_documents: u64,
    /// Bytes of text in these documents.
    pub near_bytes: u64,
}

/// Removed documents that share a run of words with a test set.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ContaminationCounts {
    /// Documents.
    pub documents: u64,
    /// Bytes of text in these documents.
    pub text_bytes: u64,
    /// Counts of each test set, also without a document. A document can share runs with several test sets.
    pub test_sets: BTreeMap<String, TestSetCounts>,
}

/// Removed documents that share a run of words with one test set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TestSetCounts {
    /// Documents.
    pub documents: u64,
    /// Bytes of text in these documents.
    pub text_bytes: u64,
    /// Shared runs, repeated ones included.
    pub runs: u64,
}

impl DuplicateCounts {
    /// Adds another part's counts.
    pub fn add(&mut self, other: &Self) {
        self.exact_documents += other.exact_documents;
        self.exact_bytes += other.exact_bytes;
        self.near_documents += other.near_documents;
        self.near_bytes += other.near_bytes;
    }

    /// Whether nothing was removed.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl ContaminationCounts {
    /// Adds another part's counts.
    pub fn add(&mut self, other: &Self) {
        self.documents += other.documents;
        self.text_bytes += other.text_bytes;
        for (name, counts) in &other.test_sets {
            let sum = self.test_sets.entry(name.clone()).or_default();
            sum.documents += counts.documents;
            sum.text_bytes += counts.text_bytes;
            sum.runs += counts.runs;
        }
    }

    /// Whether no test set was looked for.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.documents == 0 && self.test_sets.is_empty()
    }
}
