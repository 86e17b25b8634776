//! Document boundaries within packed rows.
//!
//! # What
//! Computes the document of each token within its row, and the token's position in that document. Encoders with
//! `encoder.attention_scope = "document"` read both.
//!
//! # Definition
//! A new document begins where the column `document` changes. Frame tokens and padding belong to no document: they
//! count towards the preceding one, or, at the beginning of a row, towards the first. Positions start at 0 in every
//! document, so that the encoding of a document does not depend on its place in a row.

use schemas::columns::DOCUMENT;

use crate::model::host_batch::HostBatch;

/// Document and position of each token of a view, `[rows, width]`, in row-major order.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct DocumentPositions {
    /// Index of the document, counted from 0 in each row.
    pub documents: Vec<i64>,
    /// Position within the document.
    pub places: Vec<i64>,
}

impl DocumentPositions {
    /// Computes both for a view. Returns `None` if no row has more than one document.
    pub(crate) fn new(batch: &HostBatch<'_>, view: &str) -> Option<Self> {
        let names = batch.column(view, DOCUMENT);
        Self::of_names(names.values(), names.width())
    }

    fn of_names(names: &[i32], width: usize) -> Option<Self> {
        let mut packed = Self { documents: Vec::with_capacity(names.len()), places: Vec::with_capacity(names.len()) };
        let mut most = 0;
        for row in names.chunks_exact(width.max(1)) {
            let mut document = 0;
            let mut place = 0;
            let mut name = None;
            for &found in row {
                if found >= 0 {
                    if name.is_some_and(|name| name != found) {
                        (document, place) = (document + 1, 0);
                    }
                    name = Some(found);
                }
                packed.documents.push(document);
                packed.places.push(place);
                place += 1;
            }
            most = most.max(document);
        }
        (most > 0).then_some(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_and_padding_go_with_the_document_before_them() {
        let names = [-1, 7, 7, 9, 9, 9, -1, -1, /* the next row */ 4, 4, -1, 4, 5, 4, -1, -1];
        let packed = DocumentPositions::of_names(&names, 8).expect("two documents in a row");
        assert_eq!(packed.documents, [0, 0, 0, 1, 1, 1, 1, 1, 0, 0, 0, 0, 1, 2, 2, 2]);
        assert_eq!(packed.places, [0, 1, 2, 0, 1, 2, 3, 4, 0, 1, 2, 3, 0, 0, 1, 2]);
        assert_eq!(DocumentPositions::of_names(&[-1, 7, 7, -1, -1, 8, 8, -1], 4), None, "one in each row");
        assert_eq!(DocumentPositions::of_names(&[], 0), None);
    }
}
