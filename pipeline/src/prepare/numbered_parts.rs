//! Parts whose documents have the numbers by which a fold compares them, and the columns of their signatures.

use duplicates::Columns;
use store::Store;

use super::requests::request_all;
use super::signatures::SignatureRecord;
use crate::corpus::{Part, Piece};
use crate::{Error, Result};

/// Part with its signatures and the numbers of its documents.
pub(super) struct NumberedPart {
    pub(super) record: SignatureRecord,
    /// Number of the first document of each piece.
    pub(super) first: Vec<u32>,
}

/// Compared document of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberedDocument {
    pub(super) piece: u32,
    /// Number among the compared documents of the piece.
    pub(super) number: u32,
    /// Number among all documents.
    pub(super) document: u32,
}

impl NumberedPart {
    /// Returns the documents in order.
    pub(super) fn documents(&self) -> impl Iterator<Item = NumberedDocument> {
        let pieces = (0..).zip(self.first.iter().zip(&self.record.documents));
        pieces.flat_map(|(piece, (&first, &documents))| {
            let count = u32::try_from(documents).expect("checked when the documents were numbered");
            (0..count).map(move |number| NumberedDocument { piece, number, document: first + number })
        })
    }

    /// Returns the number of each document, in order.
    fn numbers(&self) -> impl Iterator<Item = u32> {
        self.documents().map(|document| document.document)
    }

    /// Whether one of these documents, in ascending order, belongs to the part.
    pub(super) fn has_any(&self, documents: &[u32]) -> bool {
        let mut pieces = self.first.iter().zip(&self.record.documents);
        pieces.any(|(&first, &count)| {
            let next = documents.get(documents.partition_point(|&document| document < first));
            next.is_some_and(|&next| u64::from(next) < u64::from(first) + count)
        })
    }
}

/// Signatures of all parts in a folder.
pub(super) struct StoredColumns<'a> {
    pub(super) store: &'a Store,
    pub(super) parts: &'a [NumberedPart],
    pub(super) exact: bool,
}

impl Columns for StoredColumns<'_> {
    type Error = Error;

    fn exact(&mut self, visit: &mut dyn FnMut(u32, u128)) -> Result<()> {
        for part in self.parts.iter().filter(|_| self.exact) {
            let mut numbers = part.numbers();
            part.record.exact(self.store, |hash| {
                visit(numbers.next().expect("as many as hashes"), hash);
            })?;
        }
        Ok(())
    }

    fn band(&mut self, band: usize, visit: &mut dyn FnMut(u32, u64)) -> Result<()> {
        for part in self.parts {
            let mut numbers = part.numbers();
            part.record.band(self.store, band, |hash| {
                visit(numbers.next().expect("as many as hashes"), hash);
            })?;
        }
        Ok(())
    }
}

/// Numbers the documents of these parts by file and position, from `next` on.
pub(super) fn number(settings: &str, store: &Store, parts: &[&Part], next: &mut u32) -> Result<Vec<NumberedPart>> {
    let settings = settings.to_owned();
    let parts = parts.iter().map(|part| (*part).clone()).collect();
    let mut numbered = request_all(store, parts, move |store, part: &Part| {
        let record = SignatureRecord::read(store, &settings, part)?;
        let record = record.ok_or_else(|| changed(store, &format!("signatures of part {}", part.id)))?;
        Ok(NumberedPart { first: vec![0; record.documents.len()], record })
    })?;
    let mut pieces: Vec<(Piece, usize, usize)> = Vec::new();
    for (part, NumberedPart { record, .. }) in numbered.iter().enumerate() {
        pieces.extend(record.part.pieces.iter().cloned().enumerate().map(|(index, piece)| (piece, part, index)));
    }
    pieces.sort_unstable();
    for (_, part, piece) in pieces {
        let NumberedPart { record, first } = &mut numbered[part];
        first[piece] = *next;
        let after = u32::try_from(record.documents[piece]).ok().and_then(|documents| next.checked_add(documents));
        *next = after.ok_or_else(too_many)?;
    }
    Ok(numbered)
}

/// Returns the error for an object that is not there as it was when the comparison began.
pub(super) fn changed(store: &Store, name: &str) -> Error {
    let message = "it changed during the comparison; run the same command again".to_owned();
    Error::Unfinished { place: store.place(name), message }
}

fn too_many() -> Error {
    Error::Config(
        "`prepare.duplicates` compares at most 4,294,967,295 documents; prepare the corpus into several folders"
            .to_owned(),
    )
}
