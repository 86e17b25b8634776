//! Aggregation of commit records into the manifest, independent of the order in which parts finish.
//!
//! The manifest has an entry for each part list. The newest is computed. The others stay as published, because runs
//! depend on them. If the manifest is lost, dataset versions whose parts all exist are computed again. For the others,
//! only their part numbers are known.

use std::collections::{BTreeMap, BTreeSet};

use schemas::manifest::{CorpusReport, DatasetVersionEntry, FileEntry, PartEntry};
use schemas::{DatasetVersion, Manifest, PartId, Shard, Split, manifest};
use tracing::{info, warn};

use super::commit_record::{CommitRecord, ContaminatedExample, FilteredText};
use super::job::PrepareJob;
use super::part::PartOutcome;
use super::part_list::{PartList, VersionLists};
use super::progress::Stages;
use super::provisional_manifest;
use super::reject_stats::{has_reason, reasons, too_many_bad_lines, usual_max};
use super::text_rules::{self, FilteredDocument};
use crate::corpus::{Corpus, Piece, RejectReason};
use crate::tokenize::{TOKENIZER_CONFIG, prepared_config};
use crate::{Error, Result};

/// Maximum number of logged rejects of a corpus.
const EXAMPLES: usize = 5;

/// Maximum number of removed documents that are kept of a filter.
const FILTERED: usize = 3;

/// Sums over the parts of one list that are in effect.
#[derive(Clone, Debug)]
pub(super) struct ListSum {
    pub(super) corpus: CorpusReport,
    /// Occurrences of each id.
    pub(super) counts: Vec<u64>,
}

/// State of the aggregation.
pub(super) struct Aggregate<'a> {
    corpus: &'a Corpus,
    max_bad_lines: Option<u64>,
    vocab_size: usize,
    pub(super) parts: BTreeMap<PartId, PartEntry>,
    /// All objects that records in effect refer to, and the records.
    pub(super) objects: Vec<String>,
    pub(super) lists: BTreeMap<DatasetVersion, ListSum>,
    pub(super) lines: u64,
    pub(super) made: u64,
    pub(super) skipped: u64,
    pub(super) rows_made: u64,
    pub(super) stages: Stages,
    /// First rejects of each part, and the number of lines of each piece. Together they locate a reject.
    complaints: BTreeMap<PartId, Vec<ListedReject>>,
    /// First documents of each part that share text with a test set.
    contaminated: BTreeMap<PartId, Vec<(Piece, ContaminatedExample)>>,
    lengths: BTreeMap<Piece, u64>,
    /// First documents that each filter removed, by filter and part.
    filtered: BTreeMap<String, BTreeMap<PartId, Vec<ListedText>>>,
}

/// Reject with its piece and its line within the piece.
struct ListedReject {
    reason: String,
    piece: Piece,
    line: u64,
}

/// Removed document with its piece.
struct ListedText {
    piece: Piece,
    text: FilteredText,
}

impl<'a> Aggregate<'a> {
    pub(super) fn new(corpus: &'a Corpus, max_bad_lines: Option<u64>, vocab_size: usize) -> Self {
        Self {
            corpus,
            max_bad_lines,
            vocab_size,
            parts: BTreeMap::new(),
            objects: Vec::new(),
            lists: BTreeMap::new(),
            lines: 0,
            made: 0,
            skipped: 0,
            rows_made: 0,
            stages: Stages::default(),
            complaints: BTreeMap::new(),
            contaminated: BTreeMap::new(),
            lengths: BTreeMap::new(),
            filtered: BTreeMap::new(),
        }
    }

    pub(super) fn add(&mut self, outcome: PartOutcome) -> Result<()> {
        let PartOutcome { dataset_version, records, made, stages, rows } = outcome;
        self.rows_made += rows;
        self.stages.add(&stages);
        *(if made { &mut self.made } else { &mut self.skipped }) += 1;
        let id = records.first().expect("a part has a segment").part.id;
        assert!(!self.parts.contains_key(&id), "part {id} was dealt twice");
        let mut entry = PartEntry { id, train: Vec::new(), valid: Vec::new() };
        for record in records {
            self.add_record(dataset_version, &record);
            self.objects.push(record.file_name());
            self.objects.extend(record.objects().map(|object| object.name.to_owned()));
            entry.train.extend(record.train);
            entry.valid.extend(record.valid);
        }
        self.parts.insert(id, entry);
        match self.max_bad_lines {
            // A configured limit is known from the start, so reading on is unnecessary.
            Some(max) => self.check_bad_lines(max),
            None => Ok(()),
        }
    }

    fn add_record(&mut self, dataset_version: DatasetVersion, record: &CommitRecord) {
        let empty = || ListSum { corpus: CorpusReport::default(), counts: vec![0; self.vocab_size] };
        let sum = self.lists.entry(dataset_version).or_insert_with(empty);
        sum.corpus.add(&record.report);
        record.add_counts(&mut sum.counts);
        self.lines += record.lines;
        self.add_filtered(record);
        for (index, reached) in &record.read {
            self.lengths.insert(record.part.pieces[*index].clone(), reached.lines);
        }
        let contaminated = self.contaminated.entry(record.part.id).or_default();
        for example in record.contaminated.iter().take(EXAMPLES - contaminated.len().min(EXAMPLES)) {
            contaminated.push((record.part.pieces[example.piece].clone(), example.clone()));
        }
        let complaints = self.complaints.entry(record.part.id).or_default();
        for example in record.examples.iter().take(EXAMPLES - complaints.len().min(EXAMPLES)) {
            let piece = record.part.pieces[example.piece].clone();
            complaints.push(ListedReject { reason: example.reason.clone(), piece, line: example.line });
        }
    }

    /// Keeps the removed documents of the first parts only.
    fn add_filtered(&mut self, record: &CommitRecord) {
        for text in &record.filtered {
            let parts = self.filtered.entry(text.filter.clone()).or_default();
            let texts = parts.entry(record.part.id).or_default();
            if texts.len() < FILTERED {
                let piece = record.part.pieces[text.piece].clone();
                texts.push(ListedText { piece, text: text.clone() });
            }
            while parts.len() > FILTERED {
                parts.pop_last();
            }
        }
    }

    /// Returns the first documents that each filter removed, in the order of the filters.
    pub(super) fn filtered(&self) -> Vec<FilteredDocument> {
        let report = self.report();
        let of_filter = report.filters.iter().filter_map(|filter| self.filtered.get(&filter.name));
        let first = of_filter.flat_map(|parts| parts.values().flatten().take(FILTERED));
        let shown = first.map(|ListedText { piece, text }| FilteredDocument {
            filter: text.filter.clone(),
            rule: text.rule.clone(),
            place: self.place(piece, text.line),
            text: text.text.clone(),
        });
        shown.collect()
    }

    /// Whether no document was kept, rejected or removed.
    pub(super) fn is_without_documents(&self) -> bool {
        let report = self.report();
        report.documents == 0
            && report.rejected.is_empty()
            && report.filters.iter().all(|filter| filter.read.documents == 0)
            && report.contaminated.documents == 0
    }

    /// Returns the counts over all part lists.
    pub(super) fn report(&self) -> CorpusReport {
        let mut report = CorpusReport::default();
        self.lists.values().for_each(|sum| report.add(&sum.corpus));
        report
    }

    /// Returns the number of occurrences of an id in the training texts of all part lists.
    pub(super) fn occurrences(&self, id: u32) -> u64 {
        self.lists.values().filter_map(|sum| sum.counts.get(id as usize)).sum()
    }

    /// Returns the training or validation shards of all parts, in order.
    pub(super) fn shards(&self, split: fn(&PartEntry) -> &[Shard]) -> impl Iterator<Item = &Shard> {
        self.parts.values().flat_map(split)
    }

    /// Rejects a corpus without documents, unless only a part of it was sampled, or with too many bad lines. Logs the
    /// first bad lines.
    pub(super) fn check_rejects(&self, inputs: &[String], is_part: bool) -> Result<()> {
        let report = self.report();
        if report.documents == 0 && !is_part {
            if let Some(error) = text_rules::all_removed(&report, inputs) {
                return Err(error);
            }
            let found = if report.rejected.is_empty() { "only empty text".into() } else { reasons(&report.rejected) };
            let inputs = inputs.join("`, `");
            let key = if has_reason(&report.rejected, RejectReason::TooLong) {
                "max_document_bytes"
            } else if has_reason(&report.rejected, RejectReason::MissingField) {
                "text_field"
            } else {
                "format"
            };
            return Err(Error::UnusableCorpus(format!(
                "`{inputs}`: no valid document ({found}); check `prepare.{key}`"
            )));
        }
        self.check_bad_lines(self.max_bad_lines.unwrap_or_else(|| usual_max(self.lines)))?;
        for (reason, place) in self.examples() {
            warn!(reason, place, "prepare: rejected or repaired text");
        }
        for (piece, ContaminatedExample { test_set, run, line, .. }) in
            self.contaminated.values().flatten().take(EXAMPLES)
        {
            let place = self.place(piece, *line);
            info!(test_set, run, place, "prepare: removed a document that shares text with a test set");
        }
        Ok(())
    }

    fn check_bad_lines(&self, max: u64) -> Result<()> {
        let report = self.report();
        let bad: u64 = report.rejected.values().sum();
        if bad <= max {
            return Ok(());
        }
        let first: Vec<String> = self.examples().map(|(reason, place)| format!("{place} ({reason})")).collect();
        let first = first.iter().map(String::as_str);
        Err(Error::UnusableCorpus(too_many_bad_lines(&self.lines.to_string(), &report.rejected, max, first)))
    }

    /// Returns reason and place of the first rejects, in the order of the parts.
    fn examples(&self) -> impl Iterator<Item = (&str, String)> {
        let all = self.complaints.values().flatten().take(EXAMPLES);
        all.map(|complaint| (complaint.reason.as_str(), self.place(&complaint.piece, complaint.line)))
    }

    /// Returns `file:line` if all earlier pieces of the file are read. Otherwise the line is relative to the start of
    /// the piece.
    fn place(&self, piece: &Piece, line: u64) -> String {
        let path = self.corpus.path(piece).display();
        let first = Piece { range: 0..0, ..piece.clone() };
        let mut lines = 0;
        let mut end = 0;
        for (before, length) in self.lengths.range(first..piece.clone()) {
            if before.range.start != end {
                break;
            }
            (lines, end) = (lines + length, before.range.end);
        }
        if end == piece.range.start { format!("{path}:{}", lines + line + 1) } else { piece.describe(&path, line) }
    }
}

/// Writes the objects in addition to the parts, the manifest last, unless they exist. Returns whether anything was
/// written.
pub(super) fn publish(work: &PrepareJob, lists: &VersionLists, fold: &Aggregate<'_>) -> Result<bool> {
    let Some(store) = work.store() else { return Ok(false) };
    let mut written = false;
    let mut write = |name: &str, bytes: &[u8]| -> Result<()> {
        written |= store.put_if_changed(name, bytes)?;
        Ok(())
    };
    let before = store.get_with_stat(manifest::NAME)?.and_then(|(bytes, _)| Manifest::from_json(&bytes).ok());
    let facts = work.tools.tokenizer.facts();
    write(manifest::TOKENIZER, &facts.json)?;
    if !work.config.has_tokenizer_in_folder() {
        write(TOKENIZER_CONFIG, prepared_config(facts, work.config.max_seq_len).as_bytes())?;
    }
    let mut dataset_versions = Vec::new();
    let newest = lists.iter().count() - 1;
    for (number, list) in lists.iter().enumerate() {
        let known = before.as_ref().filter(|_| number < newest).and_then(|before| before.dataset_versions.get(number));
        let known = known.filter(|entry| list.is_published_as(entry)).filter(|entry| !entry.content.is_empty());
        let mut entry = bare(fold, list);
        let sums = whole(lists, fold, list.dataset_version);
        assert!(sums.is_some() || number < newest, "a dataset version is published after the last of its parts");
        if let Some((corpus, counts)) = sums {
            let path = format!("vocab/{number:05}.parquet");
            let bytes = provisional_manifest::vocab_to_parquet(&facts.vocab(counts));
            write(&path, &bytes)?;
            let blake3 = blake3::hash(&bytes).to_hex().to_string();
            let content = content(lists, fold, list.dataset_version);
            entry = DatasetVersionEntry { vocab: FileEntry { path, blake3 }, corpus, content, ..entry };
        }
        dataset_versions.push(known.cloned().unwrap_or(entry));
    }
    let manifest = Manifest {
        tokenizer: facts.manifest.clone(),
        max_seq_len: work.config.max_seq_len,
        pack: work.config.packing.facts(work.config.max_seq_len),
        files: [(manifest::TOKENIZER.to_owned(), blake3::hash(&facts.json).to_hex().to_string())].into(),
        dataset_versions,
    };
    write(manifest::NAME, &manifest.to_json())?;
    Ok(written)
}

/// Returns the entry of a list with the shards of its existing parts.
fn bare(fold: &Aggregate<'_>, list: &PartList) -> DatasetVersionEntry {
    let entry =
        |id: PartId| fold.parts.get(&id).cloned().unwrap_or(PartEntry { id, train: Vec::new(), valid: Vec::new() });
    DatasetVersionEntry {
        dropped: list.dropped.clone(),
        parts: list.parts.iter().map(|part| entry(part.id)).collect(),
        vocab: FileEntry::default(),
        corpus: CorpusReport::default(),
        content: String::new(),
    }
}

/// Returns the parts in effect in a dataset version, in order.
fn in_effect(lists: &VersionLists, dataset_version: DatasetVersion) -> impl Iterator<Item = PartId> {
    let dropped: BTreeSet<PartId> = lists.dropped(dataset_version);
    let parts = lists.iter().take(dataset_version.0 as usize + 1).flat_map(|list| &list.parts).map(|part| part.id);
    parts.filter(move |id| !dropped.contains(id))
}

/// Returns the sums over a dataset version, if all of its parts exist.
fn whole(
    lists: &VersionLists,
    fold: &Aggregate<'_>,
    dataset_version: DatasetVersion,
) -> Option<(CorpusReport, Vec<u64>)> {
    if !in_effect(lists, dataset_version).all(|id| fold.parts.contains_key(&id)) {
        return None;
    }
    let mut sums = fold.lists.range(..=dataset_version).map(|(_, sum)| sum);
    let ListSum { mut corpus, mut counts } = sums.next()?.clone();
    for sum in sums {
        corpus.add(&sum.corpus);
        counts.iter_mut().zip(&sum.counts).for_each(|(count, more)| *count += more);
    }
    Some((corpus, counts))
}

fn content(lists: &VersionLists, fold: &Aggregate<'_>, dataset_version: DatasetVersion) -> String {
    let shards = in_effect(lists, dataset_version).flat_map(|id| fold.parts[&id].train.clone());
    Split { shards: shards.collect() }.content()
}
