//! Commit records: `parts/part-00000-00.json`, sealed, one for each segment of a part, written after its shards and its
//! table of documents; what is not recorded does not exist.
//!
//! A record holds what the manifest is folded from, and what it is bound to: the settings, the part with its files, the
//! segment, the place where it begins and what was read. A record of anything else is no evidence, wherever it lies. A
//! segment that is recorded is not made again if the record is whole and its objects have the recorded BLAKE3: a gigabyte
//! a second and worker. What cannot be read now is not damaged: a store that does not answer ends the run, and costs no
//! part.

use schemas::manifest::{CorpusReport, FileEntry};
use schemas::{Sealed, Shard};
use serde::{Deserialize, Serialize};
use store::Store;

use crate::corpus::{Part, Place, Reached};
use crate::{Error, Result};

/// What one segment of a part came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CommitRecord {
    /// BLAKE3 of the settings that it was made with.
    pub(super) settings: String,
    /// The part, as in its list.
    pub(super) part: Part,
    /// Its number within the part.
    pub(super) segment: u32,
    /// BLAKE3 of the ids that were left out, joined: those of the part's list.
    pub(super) forgotten: String,
    /// Where it begins, and rows of the part before it: of the training split, of the validation split.
    pub(super) from: Place,
    pub(super) first_rows: [u32; 2],
    /// Pieces that were read to their ends in it, by index.
    pub(super) read: Vec<(usize, Reached)>,
    /// Where the next segment begins; absent from the last one.
    pub(super) next: Option<Place>,
    /// Its training shards.
    pub(super) train: Vec<Shard>,
    /// Its validation shards.
    pub(super) valid: Vec<Shard>,
    /// Its table of documents; absent where there are none.
    pub(super) documents: Option<FileEntry>,
    /// What was read and rejected.
    pub(super) report: CorpusReport,
    /// Lines or documents looked at, rejected ones among them.
    pub(super) lines: u64,
    /// The first few that were rejected or repaired.
    pub(super) examples: Vec<Example>,
    /// What of its text became the unknown token most often, as far as that was looked at; absent where nothing did.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) unknown_words: Vec<(String, u64)>,
    /// Occurrences in training documents: ids ascending, each as its distance from the one before, then its count.
    pub(super) counts: Vec<u64>,
}

/// A place of the corpus where something was rejected or repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Example {
    /// What is wrong there.
    pub(super) reason: String,
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

/// What a record of a part's segment must be of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bound<'a> {
    pub(super) settings: &'a str,
    pub(super) forgotten: &'a str,
    pub(super) part: &'a Part,
}

/// What was found of a part.
#[derive(Clone, Debug, Default)]
pub(super) struct FoundPart {
    /// Its first segments, in order.
    pub(super) records: Vec<CommitRecord>,
    /// Why there are not more, unless they were never written.
    pub(super) damage: Option<String>,
}

impl FoundPart {
    /// Whether nothing is missing.
    pub(super) fn is_whole(&self) -> bool {
        self.records.last().is_some_and(|record| record.next.is_none())
    }

    /// Rows before what is missing: of the training split, of the validation split.
    pub(super) fn rows(&self) -> [u64; 2] {
        let rows =
            |split: fn(&CommitRecord) -> &[Shard]| self.records.iter().flat_map(split).map(|shard| shard.rows).sum();
        [rows(|record| &record.train), rows(|record| &record.valid)]
    }

    /// Where what is missing begins.
    pub(super) fn next(&self) -> Place {
        self.records.last().and_then(|record| record.next.clone()).unwrap_or_default()
    }

    /// The records of a part that can be relied upon, as far as their own bytes say: up to the first that is not there. One
    /// that was made with other settings than its list says is of another folder: whoever put it here may have put more.
    pub(super) fn read(store: &Store, bound: Bound<'_>) -> Result<Self> {
        let mut found = Self::default();
        while found.read_next(store, bound)? {}
        Ok(found)
    }

    /// Reads the record of the next segment; false if there is none that can be relied upon.
    pub(super) fn read_next(&mut self, store: &Store, bound: Bound<'_>) -> Result<bool> {
        self.damage = None;
        if self.is_whole() {
            return Ok(false);
        }
        let name = file_name(bound.part, self.records.len());
        let Some((bytes, _)) = store.read_with_stat(&name)? else { return Ok(false) };
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

    /// That a record is the next one of this part.
    fn check(&self, bound: Bound<'_>, record: &CommitRecord) -> std::result::Result<(), String> {
        let rows = record.first_rows.map(u64::from);
        let wrong = [
            (record.part != *bound.part, "of another part"),
            (record.segment as usize != self.records.len(), "of another segment"),
            (record.forgotten != bound.forgotten, "made without other documents"),
            (record.from != self.next() || rows != self.rows(), "it does not go on where the one before it ends"),
            (!record.names_its_own(), "it names objects of others"),
            (!record.counts_what_is_there(), "it counts what is not there"),
        ];
        wrong.into_iter().find(|(is, _)| *is).map_or(Ok(()), |(_, message)| Err(message.to_owned()))
    }

    /// Drops the records from the first on whose objects are not what they were.
    pub(super) fn verify(&mut self, store: &Store) -> Result<()> {
        for index in 0..self.records.len() {
            if let Some(message) = self.records[index].damage(store)? {
                self.damage = Some(message);
                self.records.truncate(index);
                break;
            }
        }
        Ok(())
    }
}

impl CommitRecord {
    /// The name under which it is kept.
    pub(super) fn file_name(&self) -> String {
        file_name(&self.part, self.segment as usize)
    }

    /// Every object that it vouches for, with its BLAKE3 and its length, where that is known.
    pub(super) fn objects(&self) -> impl Iterator<Item = (&str, &str, Option<u64>)> {
        let shards = self.train.iter().chain(&self.valid);
        let shards = shards.map(|shard| (shard.path.as_str(), shard.blake3.as_str(), Some(shard.bytes)));
        shards.chain(self.documents.iter().map(|file| (file.path.as_str(), file.blake3.as_str(), None)))
    }

    /// Whether all that it vouches for has the names of this segment: nothing outside, nothing of another part.
    fn names_its_own(&self) -> bool {
        let stem = stem(&self.part, self.segment as usize);
        let own = |name: &str, folder: &str| {
            let rest = name.strip_prefix(folder).and_then(|rest| rest.strip_prefix(&stem));
            rest.is_some_and(|rest| rest.strip_suffix(".parquet").is_some_and(is_number_or_nothing))
        };
        self.train.iter().all(|shard| own(&shard.path, "train/") && shard.part == self.part.id)
            && self.valid.iter().all(|shard| own(&shard.path, "valid/") && shard.part == self.part.id)
            && self.documents.iter().all(|file| own(&file.path, "documents/"))
    }

    /// Whether its lists are lists that could be: pieces of its part, and ids, with a count each.
    fn counts_what_is_there(&self) -> bool {
        let pieces = self.part.pieces.len();
        let ids = self.counts.chunks(2).try_fold(0_u64, |id, pair| id.checked_add(pair[0]).filter(|_| pair.len() == 2));
        self.read.iter().all(|(piece, _)| *piece < pieces)
            && self.examples.iter().all(|example| example.piece < pieces)
            && ids.is_some_and(|largest| u32::try_from(largest).is_ok())
    }

    /// In which of its objects what was written is no longer there, and how.
    fn damage(&self, store: &Store) -> Result<Option<String>> {
        for (name, blake3, bytes) in self.objects() {
            let damaged = |what: &str| Ok(Some(format!("{}: {what}", store.place(name))));
            let Some(found) = store.stat(name)? else { return damaged("it is gone") };
            if let Some(bytes) = bytes.filter(|bytes| *bytes != found.bytes) {
                return damaged(&format!("{} bytes, {bytes} were written", found.bytes));
            }
            if store.hash(name, found.bytes)?.to_hex().as_str() != blake3 {
                return damaged("its content has changed");
            }
        }
        Ok(None)
    }

    /// Adds the counts to those of the other segments. What no id of the tokenizer has was counted by nobody.
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
        "{place}: made with other settings than its part list says, of part {part} of another folder; put back what was \
         here, or remove it, and what is missing is made again"
    ))
}

/// The compact form of `counts`.
pub(super) fn sparse(counts: &[u64]) -> Vec<u64> {
    let mut last = 0;
    let present = (0_u64..).zip(counts).filter(|&(_, &count)| count > 0);
    present.flat_map(|(id, &count)| [id - std::mem::replace(&mut last, id), count]).collect()
}

/// What the objects of a segment have in their names.
pub(super) fn stem(part: &Part, segment: usize) -> String {
    format!("part-{:05}-{segment:02}", part.id.0)
}

fn file_name(part: &Part, segment: usize) -> String {
    format!("parts/{}.json", stem(part, segment))
}

/// What follows the stem: `-07` of a shard, nothing of a table.
fn is_number_or_nothing(rest: &str) -> bool {
    rest.is_empty() || rest.strip_prefix('-').is_some_and(|number| number.bytes().all(|byte| byte.is_ascii_digit()))
}

#[cfg(test)]
mod tests;
