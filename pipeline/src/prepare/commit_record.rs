//! Commit records: `parts/part-00000-00.json`, sealed. Each segment of a part has one, written after its shards, its
//! table of documents and its removed documents. Objects without a record are ignored.
//!
//! A record contains the inputs of the manifest. It is bound to the settings, the part with its files, the segment, its
//! start and the text that was read. A record of anything else is ignored. A recorded segment is not made again if the
//! record is intact and its objects have the recorded lengths; for tables of documents and lists of removed documents, which have
//! no recorded length, they only need to be there. Objects that were written after their record are hashed
//! too; `cloze verify` hashes all. Unreadable objects do not count as damaged: if the store does not answer, the run ends
//! and no part is lost.

use schemas::manifest::{CorpusReport, FileEntry};
use schemas::{Sealed, Shard};
use serde::{Deserialize, Serialize};
use store::Store;

use super::json_lines::SUFFIX;
use super::listing::ObjectListing;
use crate::corpus::{DocumentPlace, Part, PieceEnd};
use crate::{Error, Result};

/// Result of one segment of a part.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommitRecord {
    /// BLAKE3 of the settings of the segment.
    pub(super) settings: String,
    /// Part, as in its list.
    pub(super) part: Part,
    /// Number within the part.
    pub(super) segment: u32,
    /// BLAKE3 of the omitted document ids, joined: those of the part's list.
    pub(super) forgotten: String,
    /// BLAKE3 of the verdicts on duplicates of the part. Absent if duplicates stay.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub(super) verdicts: String,
    /// Start of the segment, and rows of the part before it: of the training split, of the validation split.
    pub(super) from: DocumentPlace,
    pub(super) first_rows: [u32; 2],
    /// Pieces that were read to their ends in this segment, by index.
    pub(super) read: Vec<(usize, PieceEnd)>,
    /// Start of the next segment. Absent from the last one.
    pub(super) next: Option<DocumentPlace>,
    /// Training shards.
    pub(super) train: Vec<Shard>,
    /// Validation shards.
    pub(super) valid: Vec<Shard>,
    /// Table of documents. Absent if there are no documents.
    pub(super) documents: Option<FileEntry>,
    /// Lines of removed documents. Absent if there are none, or if they are not listed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) removed: Option<FileEntry>,
    /// Counts of read and rejected text.
    pub(super) report: CorpusReport,
    /// Number of lines or documents, including rejected ones.
    pub(super) lines: u64,
    /// First rejected or repaired lines.
    pub(super) examples: Vec<Example>,
    /// First documents that each filter removed. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) filtered: Vec<FilteredText>,
    /// First documents that share a run of words with a test set. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) contaminated: Vec<ContaminatedExample>,
    /// Most frequent words that became the unknown token, among the examined ones. Absent if there are none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown_words: Vec<(String, u64)>,
    /// Occurrences in training documents. Ids ascend; each is its difference from the previous id, followed by its
    /// count.
    pub(super) counts: Vec<u64>,
}

/// Place of the corpus where a line was rejected or repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    /// Reason.
    pub(super) reason: String,
    /// Index of the piece within the part.
    pub(super) piece: usize,
    /// 0-based line within the piece.
    pub(super) line: u64,
}

/// Document that a filter removed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FilteredText {
    /// Name of the filter, as in the report.
    pub(super) filter: String,
    /// Name of the rule.
    pub(super) rule: String,
    /// Index of the piece within the part.
    pub(super) piece: usize,
    /// 0-based line within the piece.
    pub(super) line: u64,
    /// Beginning of the text, as it reached the filter.
    pub(super) text: String,
}

/// Place of the corpus with a document that shares a run of words with a test set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ContaminatedExample {
    /// Test set.
    pub(super) test_set: String,
    /// First shared run.
    pub(super) run: String,
    /// Index of the piece within the part.
    pub(super) piece: usize,
    /// 0-based line within the piece.
    pub(super) line: u64,
}

impl Sealed for CommitRecord {
    const FORMAT: &'static str = "cloze commit record";
    const VERSION: u32 = 3;
    const PRETTY: bool = false;
}

/// Required identity of the records of a part.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartBinding<'a> {
    pub(super) settings: &'a str,
    pub(super) forgotten: &'a str,
    /// Empty if duplicates stay.
    pub(super) verdicts: &'a str,
    pub(super) part: &'a Part,
}

/// Existing records of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundPart {
    /// First segments of the part, in order.
    pub(super) records: Vec<CommitRecord>,
    /// Reason why later segments are missing, unless they were never written.
    pub(super) damage: Option<String>,
}

impl FoundPart {
    /// Whether all segments exist.
    pub(super) fn is_whole(&self) -> bool {
        self.records.last().is_some_and(|record| record.next.is_none())
    }

    /// Rows before the missing segments: of the training split, of the validation split.
    pub(super) fn rows(&self) -> [u64; 2] {
        let rows =
            |split: fn(&CommitRecord) -> &[Shard]| self.records.iter().flat_map(split).map(|shard| shard.rows).sum();
        [rows(|record| &record.train), rows(|record| &record.valid)]
    }

    /// Start of the missing segments.
    pub(super) fn next(&self) -> DocumentPlace {
        self.records.last().and_then(|record| record.next.clone()).unwrap_or_default()
    }

    /// Reads the valid records of a part, up to the first missing one. Checks their bytes, not their objects. A record
    /// with settings other than those of its list belongs to another folder, and is an error: other objects may be
    /// foreign too.
    pub(super) fn read(store: &Store, bound: PartBinding<'_>) -> Result<Self> {
        let mut found = Self::default();
        while found.read_next(store, bound)? {}
        Ok(found)
    }

    /// Reads the records like [`read`](Self::read), up to the first one that was not listed.
    pub(super) fn read_listed(store: &Store, bound: PartBinding<'_>, listing: &ObjectListing) -> Result<Self> {
        let mut found = Self::default();
        while listing.has(&file_name(bound.part, found.records.len())) && found.read_next(store, bound)? {}
        Ok(found)
    }

    /// Reads the record of the next segment. Returns false if there is no valid one.
    pub(super) fn read_next(&mut self, store: &Store, bound: PartBinding<'_>) -> Result<bool> {
        self.damage = None;
        if self.is_whole() {
            return Ok(false);
        }
        let name = file_name(bound.part, self.records.len());
        let Some((bytes, _)) = store.get_with_stat(&name)? else { return Ok(false) };
        let record = CommitRecord::unseal(&bytes).map_err(|error| error.to_string());
        if let Some(other) = record.as_ref().ok().filter(|record| record.settings != bound.settings) {
            return Err(strange(store, &name, other));
        }
        match record.and_then(|record| self.check(bound, &record).map(|()| record)) {
            Ok(record) => self.records.push(record),
            Err(message) => self.damage = Some(format!("{}: {message}", store.place(&name))),
        }
        Ok(self.damage.is_none())
    }

    /// Checks that a record is the next one of this part.
    fn check(&self, bound: PartBinding<'_>, record: &CommitRecord) -> std::result::Result<(), String> {
        let rows = record.first_rows.map(u64::from);
        let wrong = [
            (record.part != *bound.part, "of another part"),
            (record.segment as usize != self.records.len(), "of another segment"),
            (record.forgotten != bound.forgotten, "made with another list of forgotten documents"),
            (record.verdicts != bound.verdicts, "made with other verdicts on duplicates"),
            (record.from != self.next() || rows != self.rows(), "it does not start where the previous one ends"),
            (!record.names_its_own(), "it names objects of other segments"),
            (!record.counts_what_is_there(), "it counts unknown pieces or ids"),
        ];
        wrong.into_iter().find(|(is, _)| *is).map_or(Ok(()), |(_, message)| Err(message.to_owned()))
    }

    /// Removes the records from the first one on whose objects are missing or have changed.
    pub(super) fn verify(&mut self, store: &Store, listing: &ObjectListing) -> Result<()> {
        for index in 0..self.records.len() {
            if let Some(message) = self.records[index].damage(store, listing)? {
                self.damage = Some(message);
                self.records.truncate(index);
                break;
            }
        }
        Ok(())
    }
}

/// Returns BLAKE3 of the verdicts on duplicates that a part was made with, if its first record was listed.
pub(super) fn recorded_verdicts(
    store: &Store,
    settings: &str,
    part: &Part,
    listing: &ObjectListing,
) -> Result<Option<String>> {
    let name = file_name(part, 0);
    let bytes = if listing.has(&name) { store.get_with_stat(&name)? } else { None };
    let record = bytes.and_then(|(bytes, _)| CommitRecord::unseal(&bytes).ok());
    Ok(record.filter(|record| record.settings == settings && record.part == *part).map(|record| record.verdicts))
}

/// Object that a commit record refers to.
#[derive(Clone, Copy, Debug)]
pub(super) struct RecordedObject<'a> {
    pub(super) name: &'a str,
    pub(super) blake3: &'a str,
    /// Size, if the record has it.
    pub(super) bytes: Option<u64>,
}

impl CommitRecord {
    /// Returns the object name of the record.
    pub(super) fn file_name(&self) -> String {
        file_name(&self.part, self.segment as usize)
    }

    /// Returns every object that the record refers to.
    pub(super) fn objects(&self) -> impl Iterator<Item = RecordedObject<'_>> {
        let shards = self.train.iter().chain(&self.valid);
        let shards =
            shards.map(|shard| RecordedObject { name: &shard.path, blake3: &shard.blake3, bytes: Some(shard.bytes) });
        let files = self.documents.iter().chain(&self.removed);
        shards.chain(files.map(|file| RecordedObject { name: &file.path, blake3: &file.blake3, bytes: None }))
    }

    /// Whether all objects have names of this segment, not of another part or outside the folder.
    fn names_its_own(&self) -> bool {
        let stem = stem(&self.part, self.segment as usize);
        let rest = |name: &str, folder: &str| {
            name.strip_prefix(folder).and_then(|rest| rest.strip_prefix(&stem)).map(str::to_owned)
        };
        let own = |name: &str, folder: &str| {
            rest(name, folder).is_some_and(|rest| rest.strip_suffix(".parquet").is_some_and(is_number_or_nothing))
        };
        self.train.iter().all(|shard| own(&shard.path, "train/") && shard.part == self.part.id)
            && self.valid.iter().all(|shard| own(&shard.path, "valid/") && shard.part == self.part.id)
            && self.documents.iter().all(|file| own(&file.path, "documents/"))
            && self.removed.iter().all(|file| rest(&file.path, "removed/").as_deref() == Some(SUFFIX))
    }

    /// Whether its lists are plausible: pieces of its part, and ids with a count each.
    fn counts_what_is_there(&self) -> bool {
        let pieces = self.part.pieces.len();
        let ids = self.counts.chunks(2).try_fold(0_u64, |id, pair| id.checked_add(pair[0]).filter(|_| pair.len() == 2));
        self.read.iter().all(|(piece, _)| *piece < pieces)
            && self.examples.iter().all(|example| example.piece < pieces)
            && self.filtered.iter().all(|filtered| filtered.piece < pieces)
            && self.contaminated.iter().all(|example| example.piece < pieces)
            && ids.is_some_and(|largest| u32::try_from(largest).is_ok())
    }

    /// Returns the first missing or changed object with the problem, if any.
    fn damage(&self, store: &Store, listing: &ObjectListing) -> Result<Option<String>> {
        let record = listing.find(store, &self.file_name())?;
        for RecordedObject { name, blake3, bytes } in self.objects() {
            let damaged = |what: &str| Ok(Some(format!("{}: {what}", store.place(name))));
            let Some(found) = listing.find(store, name)? else { return damaged("it is missing") };
            if let Some(bytes) = bytes.filter(|bytes| *bytes != found.bytes) {
                return damaged(&format!("{} bytes, {bytes} were written", found.bytes));
            }
            // The record of a segment is written last.
            let is_later = record.is_none_or(|record| found.modified > record.modified);
            if is_later && store.hash(name, found.bytes)?.to_hex().as_str() != blake3 {
                return damaged("its content has changed");
            }
        }
        Ok(None)
    }

    /// Adds the counts to those of the other segments. Counts of ids outside the vocabulary are ignored.
    pub(super) fn add_counts(&self, sums: &mut [u64]) {
        let mut id = 0;
        for pair in self.counts.chunks_exact(2) {
            id += usize::try_from(pair[0]).expect("ids are 32-bit");
            if let Some(sum) = sums.get_mut(id) {
                *sum = sum.saturating_add(pair[1]);
            }
        }
    }
}

fn strange(store: &Store, name: &str, record: &CommitRecord) -> Error {
    let part = record.part.id;
    let place = store.place(name);
    Error::Config(format!(
        "{place}: made with other settings than those of its part list, for part {part} of another folder; restore the \
         original, or move it elsewhere and run `cloze prepare` to remake the segment"
    ))
}

/// Returns the compact form of `counts`.
pub(super) fn sparse(counts: &[u64]) -> Vec<u64> {
    let mut last = 0;
    let present = (0_u64..).zip(counts).filter(|&(_, &count)| count > 0);
    present.flat_map(|(id, &count)| [id - std::mem::replace(&mut last, id), count]).collect()
}

/// Returns the common part of a segment's object names.
pub(super) fn stem(part: &Part, segment: usize) -> String {
    format!("part-{:05}-{segment:02}", part.id.0)
}

fn file_name(part: &Part, segment: usize) -> String {
    format!("parts/{}.json", stem(part, segment))
}

/// Whether the rest of a name is valid: `-07` for a shard, empty for a table.
fn is_number_or_nothing(rest: &str) -> bool {
    rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
