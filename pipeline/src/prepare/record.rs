//! Commit records: `parts/part-00000.json`, written after a part's shards; what is not recorded does not exist.
//!
//! A record holds what the manifest is folded from, and what the part was made of: its entry of the part list, the
//! settings, the corpus in outline and the tokenizer. It ends with a BLAKE3 of itself. A part that is recorded is not
//! made again if the record is whole and its shards have the recorded BLAKE3: a gigabyte a second and lane.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use schemas::Shard;
use schemas::atomic::Folder;
use schemas::manifest::{self, CorpusReport};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Format, PrepareConfig};
use crate::corpus::{Corpus, Part};
use crate::shard::reader::hash_file;
use crate::{Error, Result};

/// Everything besides the part itself that decides a part's bytes, by name.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Settings(BTreeMap<String, Value>);

impl Settings {
    pub(super) fn of(config: &PrepareConfig, corpus: &Corpus, tokenizer: &manifest::Tokenizer) -> Self {
        let structured = matches!(config.format, Format::Jsonl | Format::Parquet);
        let field = |name: Option<&str>| name.filter(|_| structured).map_or(Value::Null, Value::from);
        let entries = [
            ("version", Value::from(manifest::VERSION)),
            ("corpus", corpus.outline().into()),
            ("format", serde_json::to_value(config.format).expect("a name")),
            ("text_field", field(Some(&config.text_field))),
            ("id_field", field(config.id_field.as_deref())),
            ("tokenizer", tokenizer.fingerprint.as_str().into()),
            ("tokens_max", config.tokens_max.into()),
            ("pack", serde_json::to_value(config.pack).expect("a name")),
            ("valid_fraction", config.valid_fraction.into()),
            ("zstd_level", config.zstd_level.into()),
        ];
        Self(entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect())
    }

    /// `tokens_max = 128, now 512` for each that differs.
    fn differences(&self, now: &Self) -> Vec<String> {
        let absent = Value::Null;
        let changed = now.0.iter().map(|(name, value)| (name, self.0.get(name).unwrap_or(&absent), value));
        let shown = changed.filter(|(_, was, now)| was != now);
        shown.map(|(name, was, now)| format!("`{name}` = {was}, now {now}")).collect()
    }
}

/// What one part came to.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CommitRecord {
    /// The part, as in the part list.
    pub part: Part,
    /// What it was made with.
    pub settings: Settings,
    /// Its training shards.
    pub train: Vec<Shard>,
    /// Its validation shards.
    pub valid: Vec<Shard>,
    /// What was read and rejected.
    pub report: CorpusReport,
    /// Lines or documents looked at, rejected ones among them.
    pub lines: u64,
    /// The first few that were rejected or repaired.
    pub examples: Vec<Example>,
    /// Occurrences in training documents: ids ascending, each as its distance from the one before, then its count.
    pub counts: Vec<u64>,
    /// BLAKE3 of this record with this field empty.
    pub checksum: String,
}

/// A place of the corpus where something was rejected or repaired.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Example {
    /// What is wrong there.
    pub reason: String,
    /// Index of the piece within the part.
    pub piece: usize,
    /// 1-based line of the file.
    pub line: u64,
}

impl CommitRecord {
    pub(super) fn to_json(&self) -> Vec<u8> {
        let mut sealed = Self { checksum: String::new(), ..self.clone() };
        sealed.checksum = blake3::hash(&sealed.render()).to_hex().to_string();
        sealed.render()
    }

    fn render(&self) -> Vec<u8> {
        let mut bytes = serde_json::to_vec(self).expect("a record has string keys and finite numbers");
        bytes.push(b'\n');
        bytes
    }

    /// Writes the record: from here on the part is done.
    pub(super) fn write(&self, folder: &Folder) -> Result<()> {
        Ok(folder.write(&file_name(self.part.index), &self.to_json())?)
    }

    /// The record of a part, if there is one and it can be relied upon; else why it must be made (again).
    pub(super) fn read(folder: &Folder, part: &Part) -> Result<Self, Missing> {
        let path = folder.path().join(file_name(part.index));
        let damaged = || Missing::Damaged(format!("{}: damaged", path.display()));
        let bytes = fs::read(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => Missing::Never,
            _ => Missing::Damaged(format!("{}: {error}", path.display())),
        })?;
        let record: Self = serde_json::from_slice(&bytes).map_err(|_| damaged())?;
        if record.to_json() != bytes {
            return Err(damaged());
        }
        let mut shards = record.train.iter().chain(&record.valid);
        shards.try_for_each(|shard| check_shard(&folder.path().join(&shard.path), shard))?;
        Ok(record)
    }

    /// Adds the counts to those of the other parts.
    pub(super) fn add_counts(&self, sums: &mut [u64]) {
        let mut id = 0;
        for pair in self.counts.chunks_exact(2) {
            id += usize::try_from(pair[0]).expect("ids are 32-bit");
            sums[id] += pair[1];
        }
    }
}

/// Why a part must be made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    /// It has not been made yet.
    Never,
    /// It was, and something happened to it since.
    Damaged(String),
}

/// The compact form of `counts`.
pub(super) fn sparse(counts: &[u64]) -> Vec<u64> {
    let mut last = 0;
    let present = (0_u64..).zip(counts).filter(|&(_, &count)| count > 0);
    present.flat_map(|(id, &count)| [id - std::mem::replace(&mut last, id), count]).collect()
}

fn file_name(index: u32) -> String {
    format!("parts/part-{index:05}.json")
}

fn check_shard(path: &Path, shard: &Shard) -> Result<(), Missing> {
    let damaged = |what: String| Missing::Damaged(format!("{}: {what}", path.display()));
    let length = fs::metadata(path).map_err(|error| damaged(error.to_string()))?.len();
    if length != shard.bytes {
        return Err(damaged(format!("{length} bytes, {} were written", shard.bytes)));
    }
    let hash = hash_file(path).map_err(|error| damaged(error.to_string()))?;
    if hash.to_hex().as_str() == shard.blake3 { Ok(()) } else { Err(damaged("its content has changed".into())) }
}

/// What of a record tells folders apart; reading stops at nothing else.
#[derive(Deserialize)]
struct Identity {
    part: Part,
    settings: Settings,
}

/// Refuses a folder in which a part was made of another corpus, or with other settings. Damaged records are not
/// evidence of anything: their parts are made again.
pub(super) fn refuse_others(folder: &Path, settings: &Settings, parts: &[Part]) -> Result<()> {
    for path in record_files(folder)? {
        let Some(found) = fs::read(&path).ok().and_then(|bytes| serde_json::from_slice::<Identity>(&bytes).ok()) else {
            continue;
        };
        let mut differences = found.settings.differences(settings);
        match parts.get(found.part.index as usize) {
            None => differences.push(format!(
                "the corpus had a part {}, now it has {} parts",
                found.part.index,
                parts.len()
            )),
            Some(part) if *part != found.part => differences.push(corpus_difference(&found.part, part)),
            Some(_) => {}
        }
        if !differences.is_empty() {
            return Err(Error::Config(format!(
                "{}: prepared differently: {}; name another `prepare.folder`, or delete this one to prepare it anew",
                folder.display(),
                differences.join("; ")
            )));
        }
    }
    Ok(())
}

fn corpus_difference(was: &Part, now: &Part) -> String {
    let show = |piece: &crate::corpus::Piece| format!("{} {:?}", piece.name, piece.range);
    let pieces = was.pieces.iter().map(Some).chain(std::iter::repeat(None));
    let others = now.pieces.iter().map(Some).chain(std::iter::repeat(None));
    let first = pieces.zip(others).take(was.pieces.len().max(now.pieces.len())).find(|(was, now)| was != now);
    let (was, now) = first.map_or((None, None), |(was, now)| (was.map(show), now.map(show)));
    let text = |piece: Option<String>| piece.unwrap_or_else(|| "nothing".into());
    format!("the corpus (or `part_bytes`) changed: `{}`, now `{}`", text(was), text(now))
}

/// All commit records of a folder, sorted.
pub(super) fn record_files(folder: &Path) -> Result<Vec<std::path::PathBuf>> {
    let Ok(entries) = fs::read_dir(folder.join("parts")) else { return Ok(Vec::new()) };
    let mut paths = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "json") {
            paths.push(path);
        }
    }
    paths.sort();
    Ok(paths)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sparse_counts_come_back() {
        for counts in [vec![], vec![0, 0], vec![3], vec![0, 5, 0, 0, 7, 1]] {
            let part = Part { index: 0, bytes: 0, pieces: Vec::new() };
            let record = CommitRecord {
                part,
                settings: Settings(BTreeMap::new()),
                train: Vec::new(),
                valid: Vec::new(),
                report: CorpusReport::default(),
                lines: 0,
                examples: Vec::new(),
                counts: sparse(&counts),
                checksum: String::new(),
            };
            let mut sums = vec![1; counts.len()];
            record.add_counts(&mut sums);
            assert_eq!(sums, counts.iter().map(|count| count + 1).collect::<Vec<_>>());
        }
    }
}
