//! What the records of a folder remember of its corpus, for those who look at it.

use std::collections::{BTreeMap, BTreeSet};

use schemas::{PartId, Sealed as _};
use store::Store;

use super::record::CommitRecord;
use super::unknowns::most_frequent;
use crate::corpus::Piece;
use crate::{Error, Result};

/// What was noted while parts were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Something that was rejected or repaired, the first few of each segment, in the order of the parts.
    pub complaints: Vec<Complained>,
    /// What became the unknown token, with how often, the most frequent first: of the words of each segment that were
    /// looked at, and of those the most frequent.
    pub unknown_words: Vec<(String, u64)>,
}

/// A place of the corpus where something was rejected or repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complained {
    /// What is wrong there.
    pub reason: String,
    /// The piece of a file.
    pub piece: Piece,
    /// 0-based line within it.
    pub line: u64,
}

/// What was noted of these parts.
///
/// # Errors
/// If a record cannot be read.
pub fn noted(store: &Store, parts: &BTreeSet<PartId>, most: usize) -> Result<Noted> {
    let (mut complaints, mut unknown) = (Vec::new(), BTreeMap::<String, u64>::new());
    for entry in store.list("parts")? {
        let damaged = |message: &dyn std::fmt::Display| {
            let place = store.place(&entry.name);
            Error::Config(format!("{place}: {message}; run `cloze prepare` again, it makes the segment anew"))
        };
        let record = CommitRecord::unseal(&store.read(&entry.name)?).map_err(|error| damaged(&error))?;
        if !parts.contains(&record.part.id) {
            continue;
        }
        for (word, count) in record.unknown_words {
            *unknown.entry(word).or_default() += count;
        }
        for example in record.examples {
            let piece =
                record.part.pieces.get(example.piece).ok_or_else(|| damaged(&"it names no piece of its part"))?;
            if complaints.len() < most {
                complaints.push(Complained { reason: example.reason, piece: piece.clone(), line: example.line });
            }
        }
    }
    Ok(Noted { complaints, unknown_words: most_frequent(unknown, most) })
}
