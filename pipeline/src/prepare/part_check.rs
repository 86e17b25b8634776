//! Full check of one part of a prepared folder.

use schemas::manifest::{Frame, Pack, PartEntry, TokenizerInfo};
use schemas::{Shard, TokenIds};
use store::Store;

use super::commit_record::{CommitRecord, FoundPart, PartBinding};
use super::document_table;
use super::job::Task;
use super::listing::{head_file, is_no_file, no_file};
use super::removed_documents;
use crate::shard::ContentHasher;
use crate::shard::reader::{ShardExpectation, ShardReader};
use crate::{Error, Result};

/// Expectation of the shards and tokens of a folder.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartExpectation {
    shard: ShardExpectation,
    /// Separator of documents, which no record counts.
    separator: u32,
}

impl PartExpectation {
    pub(super) fn new(tokenizer: &TokenizerInfo, pack: &Pack) -> Self {
        Self { shard: ShardExpectation::new(tokenizer.vocab_size, pack), separator: tokenizer.special.sep }
    }

    pub(super) fn vocab_size(&self) -> usize {
        self.shard.vocab_size as usize
    }
}

/// Result of the check of a part.
#[derive(Debug)]
pub(super) struct PartCheck {
    pub(super) entry: PartEntry,
    pub(super) records: Vec<CommitRecord>,
    pub(super) objects: u64,
    pub(super) bytes: u64,
    pub(super) rows: u64,
    pub(super) tokens: u64,
    pub(super) problems: Vec<String>,
}

/// Reads and decodes every object of a part.
///
/// # Errors
/// If the store does not answer.
pub(super) fn check_part(
    store: &Store,
    task: &Task,
    settings: &str,
    verdicts: Option<&str>,
    expectation: PartExpectation,
) -> Result<PartCheck> {
    let entry = PartEntry { id: task.part.id, train: Vec::new(), valid: Vec::new() };
    let mut check =
        PartCheck { entry, records: Vec::new(), objects: 0, bytes: 0, rows: 0, tokens: 0, problems: Vec::new() };
    // Missing verdicts on duplicates are a problem of the folder, not of this part.
    let found = match verdicts {
        Some(verdicts) => {
            let bound = PartBinding { settings, forgotten: task.forgotten.name(), verdicts, part: &task.part };
            match FoundPart::read(store, bound) {
                // A record of another folder.
                Err(error @ Error::Config(_)) => {
                    check.problems.push(error.to_string());
                    return Ok(check);
                }
                Err(Error::Io(error)) if is_no_file(&error) => {
                    check.problems.push(no_file(&error).to_string());
                    return Ok(check);
                }
                found => found?,
            }
        }
        None => return Ok(check),
    };
    if !found.is_whole() {
        let next = found.records.len();
        let missing = || format!("part {}: the record of segment {next} is missing", task.part.id);
        check.problems.push(found.damage.clone().unwrap_or_else(missing));
    }
    let mut counts = vec![0_u64; expectation.vocab_size()];
    for record in &found.records {
        for shard in &record.train {
            check.shard(store, shard, expectation, Some(&mut counts))?;
        }
        for shard in &record.valid {
            check.shard(store, shard, expectation, None)?;
        }
        check.table(store, record)?;
        check.removed(store, record)?;
        check.entry.train.extend_from_slice(&record.train);
        check.entry.valid.extend_from_slice(&record.valid);
    }
    check.records = found.records;
    check.token_counts(&counts, expectation);
    Ok(check)
}

impl PartCheck {
    /// Reads a shard, and adds the occurrences of its ids to `counts`.
    fn shard(
        &mut self,
        store: &Store,
        shard: &Shard,
        expectation: PartExpectation,
        mut counts: Option<&mut Vec<u64>>,
    ) -> Result<()> {
        self.objects += 1;
        self.bytes += shard.bytes;
        let reader = match ShardReader::open(store, shard, expectation.shard) {
            Ok(reader) => reader,
            Err(damage) => {
                self.problems.push(damaged_object(store, &shard.path, &damage.into())?);
                return Ok(());
            }
        };
        let mut content = ContentHasher::default();
        let mut rows = 0;
        let mut tokens = 0;
        for group in 0..shard.groups.len() {
            let group = match reader.read(group) {
                Ok(group) => group,
                Err(damage) => {
                    self.problems.push(Error::from(damage).to_string());
                    return Ok(());
                }
            };
            for row in 0..group.rows() {
                let sample = schemas::Sample { frame: Frame::default(), ..group.sample(row) };
                content.row(&sample);
                rows += 1;
                tokens += sample.input_ids.len() as u64;
                if let Some(counts) = &mut counts {
                    count_ids(sample.input_ids, counts);
                }
            }
        }
        (self.rows, self.tokens) = (self.rows + rows, self.tokens + tokens);
        let place = store.place(&shard.path);
        if (rows, tokens) != (shard.rows, shard.tokens) {
            let found = format!("{rows} rows of {tokens} tokens");
            let claimed = (shard.rows, shard.tokens);
            self.problems.push(format!("{place}: {found}, its record says {} of {}", claimed.0, claimed.1));
        }
        if content.finish() != shard.content {
            self.problems.push(format!("{place}: its content hash is not that of its record"));
        }
        Ok(())
    }

    /// Reads the table of documents of a segment.
    fn table(&mut self, store: &Store, record: &CommitRecord) -> Result<()> {
        let report = &record.report;
        let Some(table) = &record.documents else {
            if report.documents > 0 {
                self.problems.push(format!("{}: it names no table of documents", store.place(&record.file_name())));
            }
            return Ok(());
        };
        self.objects += 1;
        match document_table::totals(store, table) {
            Ok(totals) => {
                self.bytes += totals.bytes;
                if (totals.documents, totals.tokens) != (report.documents, report.tokens) {
                    self.problems.push(format!(
                        "{}: {} documents of {} tokens, its record says {} of {}",
                        store.place(&table.path),
                        totals.documents,
                        totals.tokens,
                        report.documents,
                        report.tokens
                    ));
                }
            }
            Err(error) => self.problems.push(damaged_object(store, &table.path, &error)?),
        }
        Ok(())
    }

    /// Reads the lines of the removed documents of a segment.
    fn removed(&mut self, store: &Store, record: &CommitRecord) -> Result<()> {
        let Some(file) = &record.removed else { return Ok(()) };
        self.objects += 1;
        match removed_documents::totals(store, file) {
            Ok(totals) => {
                self.bytes += totals.bytes;
                let expected = removed_documents::count(&record.report);
                if totals.documents != expected {
                    let place = store.place(&file.path);
                    let found = totals.documents;
                    self.problems.push(format!("{place}: {found} removed documents, its record says {expected}"));
                }
            }
            Err(error) => self.problems.push(damaged_object(store, &file.path, &error)?),
        }
        Ok(())
    }

    /// Compares the occurrences of ids in the training shards with the counts of the records.
    fn token_counts(&mut self, found: &[u64], expectation: PartExpectation) {
        // Packings that cut or drop tokens, or that add special ones to the content, have other counts by definition.
        let is_comparable = self.problems.is_empty()
            && self.records.iter().all(|record| record.report.packing.cut_tokens == 0)
            && expectation.shard.frame == Frame::ClsSep
            && !expectation.shard.optional.targets;
        if !is_comparable {
            return;
        }
        let mut recorded = vec![0; found.len()];
        self.records.iter().for_each(|record| record.add_counts(&mut recorded));
        let separator = expectation.separator as usize;
        let other = (0..found.len()).find(|&id| id != separator && found[id] != recorded[id]);
        if let Some(id) = other {
            self.problems.push(format!(
                "part {}: id {id} occurs {} times in its training shards, its records count {}",
                self.entry.id, found[id], recorded[id]
            ));
        }
    }
}

/// Returns the problem of an object that cannot be read.
///
/// # Errors
/// If the store does not answer, which is no damage.
fn damaged_object(store: &Store, name: &str, damage: &Error) -> Result<String> {
    match head_file(store, name) {
        Ok(_) => Ok(damage.to_string()),
        Err(Error::Io(error)) if is_no_file(&error) => Ok(error.to_string()),
        Err(error) => Err(error),
    }
}

fn count_ids(ids: TokenIds<'_>, counts: &mut [u64]) {
    match ids {
        TokenIds::U16(ids) => ids.iter().for_each(|&id| counts[usize::from(id)] += 1),
        TokenIds::U32(ids) => ids.iter().for_each(|&id| counts[id as usize] += 1),
    }
}
