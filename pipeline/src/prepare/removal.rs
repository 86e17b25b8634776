//! Removal of duplicates and of documents that share text with test sets, while a segment is made.

use duplicates::Normalizer;
use schemas::manifest::CorpusReport;

use super::test_sets::TestSets;
use super::verdicts::{DuplicateKind, FoundVerdict, PartVerdicts};

/// Outcome for one document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Removal {
    /// The document stays.
    None,
    /// Duplicate of another document.
    Duplicate {
        kind: DuplicateKind,
        /// Index among the removed duplicates of the part.
        index: usize,
    },
    /// The document shares a run of words with a test set.
    Contaminated {
        /// First test set.
        test_set: String,
        /// First shared run.
        run: String,
    },
}

/// Finds and counts the documents to remove.
pub(super) struct Remover<'a> {
    /// Verdicts on the part, if duplicates are removed.
    pub(super) verdicts: Option<&'a PartVerdicts>,
    test_sets: Option<&'a TestSets>,
    normalizer: Normalizer,
}

impl<'a> Remover<'a> {
    pub(super) fn new(test_sets: Option<&'a TestSets>) -> Self {
        Self { verdicts: None, test_sets, normalizer: Normalizer::default() }
    }

    /// Checks the document that begins there, and counts it if it is removed.
    pub(super) fn find(&mut self, piece: usize, start: u64, text: &str, report: &mut CorpusReport) -> Removal {
        let bytes = text.len() as u64;
        if let Some(FoundVerdict { index, kind }) = self.verdicts.and_then(|verdicts| verdicts.find(piece, start)) {
            let counts = &mut report.duplicates;
            let (documents, text_bytes) = match kind {
                DuplicateKind::Exact => (&mut counts.exact_documents, &mut counts.exact_bytes),
                DuplicateKind::Near => (&mut counts.near_documents, &mut counts.near_bytes),
            };
            *documents += 1;
            *text_bytes += bytes;
            return Removal::Duplicate { kind, index };
        }
        let Some(test_sets) = self.test_sets else { return Removal::None };
        let mut first = None;
        let mut all = 0_u64;
        for shared in test_sets.index.find(self.normalizer.normalize(text)) {
            for name in test_sets.names(shared.sets) {
                first.get_or_insert_with(|| (name.to_owned(), shared.text.to_owned()));
                report.contaminated.test_sets.entry(name.to_owned()).or_default().runs += 1;
            }
            all |= shared.sets;
        }
        let Some((test_set, run)) = first else { return Removal::None };
        report.contaminated.documents += 1;
        report.contaminated.text_bytes += bytes;
        for name in test_sets.names(all) {
            let counts = report.contaminated.test_sets.get_mut(name).expect("counted above");
            counts.documents += 1;
            counts.text_bytes += bytes;
        }
        Removal::Contaminated { test_set, run }
    }
}
