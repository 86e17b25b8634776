//! Commit records: `parts/part-00000-00.json`, sealed, one for each segment of a part, written after its shards and its
//! table of documents; what is not recorded does not exist.
//!
//! A record holds what the manifest is folded from, and what it is bound to: the settings, the part with its files, the
//! segment, the place where it begins and what was read. A record of anything else is no evidence, wherever it lies. A
//! segment that is recorded is not made again if the record is whole and its objects have the recorded BLAKE3: a gigabyte
//! a second and lane. What cannot be read just now is not damaged: a store that does not answer ends the run, and costs no
//! part.

use std::time::SystemTime;

use schemas::manifest::{CorpusReport, FileEntry};
use schemas::{Sealed, Shard};
use serde::{Deserialize, Serialize};
use store::Store;

use crate::Result;
use crate::corpus::{Part, Place, Reached};

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
    const VERSION: u32 = 2;
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
    /// When the oldest of them was written.
    pub(super) since: Option<SystemTime>,
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

    /// The records of a part that can be relied upon, as far as their own bytes say: up to the first that is not there.
    pub(super) fn read(store: &Store, bound: Bound<'_>) -> Result<Self> {
        let mut found = Self::default();
        while !found.is_whole() {
            let name = file_name(bound.part, found.records.len());
            let Some((bytes, stat)) = store.read_with_stat(&name)? else { break };
            let record = CommitRecord::unseal(&bytes).map_err(|error| error.to_string());
            match record.and_then(|record| found.check(bound, &record).map(|()| record)) {
                Ok(record) => found.records.push(record),
                Err(message) => {
                    found.damage = Some(format!("{}: {message}", store.place(&name)));
                    break;
                }
            }
            found.since = Some(found.since.map_or(stat.modified, |since| since.min(stat.modified)));
        }
        Ok(found)
    }

    /// That a record is the next one of this part.
    fn check(&self, bound: Bound<'_>, record: &CommitRecord) -> std::result::Result<(), String> {
        let rows = record.first_rows.map(u64::from);
        let wrong = [
            (record.part != *bound.part, "of another part"),
            (record.segment as usize != self.records.len(), "of another segment"),
            (record.settings != bound.settings, "made with other settings"),
            (record.forgotten != bound.forgotten, "made without other documents"),
            (record.from != self.next() || rows != self.rows(), "it does not go on where the one before it ends"),
            (!record.names_its_own(), "it names objects of others"),
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

    /// In which of its objects what was written is no longer there, and how.
    fn damage(&self, store: &Store) -> Result<Option<String>> {
        for (name, blake3, bytes) in self.objects() {
            let damaged = |what: &str| Ok(Some(format!("{}: {what}", store.place(name))));
            let Some(found) = store.stat(name)? else { return damaged("it is gone") };
            if let Some(bytes) = bytes.filter(|bytes| *bytes != found.bytes) {
                return damaged(&format!("{} bytes, {bytes} were written", found.bytes));
            }
            if hash_object(store, name, found.bytes)?.to_hex().as_str() != blake3 {
                return damaged("its content has changed");
            }
        }
        Ok(None)
    }

    /// Adds the counts to those of the other segments.
    pub(super) fn add_counts(&self, sums: &mut [u64]) {
        let mut id = 0;
        for pair in self.counts.chunks_exact(2) {
            id += usize::try_from(pair[0]).expect("ids are 32-bit");
            sums[id] += pair[1];
        }
    }
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

/// BLAKE3 of an object, read some megabytes at a time.
pub(super) fn hash_object(store: &Store, name: &str, bytes: u64) -> std::io::Result<blake3::Hash> {
    const CHUNK: u64 = 4 << 20;
    let mut hasher = blake3::Hasher::new();
    for start in (0..bytes).step_by(usize::try_from(CHUNK).expect("megabytes")) {
        hasher.update(&store.read_range(name, start..(start + CHUNK).min(bytes))?);
    }
    Ok(hasher.finalize())
}

#[cfg(test)]
mod tests {
    use store::Weather;

    use super::*;

    fn part(id: u32) -> Part {
        Part { id: schemas::PartId(id), bytes: 9, pieces: Vec::new() }
    }

    /// A record of a segment whose only shard has ten rows and is kept under its name.
    fn record(part: &Part, segment: u32, last: bool) -> CommitRecord {
        let path = format!("train/{}-00.parquet", stem(part, segment as usize));
        let shard = Shard {
            path,
            part: part.id,
            first_row: segment * 10,
            rows: 10,
            tokens: 10,
            groups: vec![10],
            bytes: 5,
            blake3: blake3::hash(b"shard").to_hex().to_string(),
            content: String::new(),
        };
        let place = |segment| Place { piece: segment, reached: None };
        CommitRecord {
            settings: "s".into(),
            part: part.clone(),
            segment,
            forgotten: "f".into(),
            from: place(segment as usize),
            first_rows: [segment * 10, 0],
            read: Vec::new(),
            next: (!last).then(|| place(segment as usize + 1)),
            train: vec![shard],
            valid: Vec::new(),
            documents: None,
            report: CorpusReport::default(),
            lines: 0,
            examples: Vec::new(),
            counts: Vec::new(),
        }
    }

    fn keep(store: &Store, record: &CommitRecord) {
        store.put(&record.train[0].path, b"shard").expect("kept");
        store.put(&record.file_name(), &record.seal()).expect("kept");
    }

    fn found(store: &Store, part: &Part) -> FoundPart {
        let mut found = FoundPart::read(store, Bound { settings: "s", forgotten: "f", part }).expect("answered");
        found.verify(store).expect("answered");
        found
    }

    #[test]
    fn segments_count_up_to_the_first_that_is_not_there() {
        let (store, part) = (Store::memory(Weather::calm()), part(3));
        for (segment, last) in [(0, false), (1, false), (2, true)] {
            let before = found(&store, &part);
            assert_eq!(
                (before.records.len(), before.is_whole(), before.rows()),
                (segment, false, [10 * segment as u64, 0])
            );
            keep(&store, &record(&part, u32::try_from(segment).expect("small"), last));
        }
        assert!(found(&store, &part).is_whole());
        store.remove("parts/part-00003-01.json").expect("gone");
        assert_eq!(found(&store, &part).records.len(), 1);
    }

    #[test]
    fn a_record_of_anything_else_is_no_evidence() {
        let (here, other) = (part(3), part(4));
        let alien = |change: fn(&mut CommitRecord)| {
            let mut record = record(&here, 0, true);
            change(&mut record);
            record
        };
        let cases = [
            (record(&other, 0, true), "another part"),
            (record(&here, 1, true), "another segment"),
            (alien(|record| record.settings.push('x')), "other settings"),
            (alien(|record| record.forgotten.push('x')), "other documents"),
            (alien(|record| record.first_rows[0] = 1), "go on"),
            (alien(|record| record.train[0].path = "../../etc/passwd".into()), "objects of others"),
            (alien(|record| record.train[0].path = "train/part-00004-00-00.parquet".into()), "objects of others"),
        ];
        for (record, word) in cases {
            let store = Store::memory(Weather::calm());
            store.put("parts/part-00003-00.json", &record.seal()).expect("kept");
            let found = found(&store, &here);
            assert!(found.records.is_empty() && found.damage.as_ref().expect("told").contains(word), "{found:?}");
        }
    }

    #[test]
    fn a_changed_object_is_noticed_and_what_comes_before_it_stays() {
        let part = part(3);
        for damage in [&b"shaRd"[..], b"shard."] {
            let store = Store::memory(Weather::calm());
            for (segment, last) in [(0, false), (1, true)] {
                keep(&store, &record(&part, segment, last));
            }
            store.put("train/part-00003-01-00.parquet", damage).expect("kept");
            let found = found(&store, &part);
            assert!(found.records.len() == 1 && found.damage.expect("told").contains("part-00003-01-00"));
        }
    }

    #[test]
    fn what_does_not_answer_is_an_error_and_no_damage() {
        let (memory, part) = (store::Memory::new(Weather::calm()), part(3));
        keep(&Store::of_memory(&memory), &record(&part, 0, true));
        let silent = Store::of_memory(&memory.under(Weather { failures: 1.0, ..Weather::calm() }));
        let bound = Bound { settings: "s", forgotten: "f", part: &part };
        let error = FoundPart::read(&silent, bound).expect_err("nobody answers").to_string();
        assert!(error.contains("memory:parts/part-00003-00.json"), "{error}");
        let mut found = FoundPart::read(&Store::of_memory(&memory), bound).expect("calm");
        let error = found.verify(&silent).expect_err("nobody answers").to_string();
        assert!(error.contains("memory:train/part-00003-00-00.parquet") && found.is_whole(), "{error}");
    }

    #[test]
    fn sparse_counts_come_back() {
        for counts in [vec![], vec![0, 0], vec![3], vec![0, 5, 0, 0, 7, 1]] {
            let record = CommitRecord { counts: sparse(&counts), ..record(&part(0), 0, true) };
            let mut sums = vec![1; counts.len()];
            record.add_counts(&mut sums);
            assert_eq!(sums, counts.iter().map(|count| count + 1).collect::<Vec<_>>());
        }
    }
}
