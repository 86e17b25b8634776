//! Commit records ↦ manifest: the fold at the end, in order.

use std::fs;
use std::time::{Duration, Instant};

use schemas::atomic::Folder;
use schemas::manifest::{CorpusReport, FileEntry, GenerationEntry, Pack, PartEntry};
use schemas::{Manifest, PartId, Shard, Split};
use tracing::warn;

use super::part::{Outcome, Stages};
use super::record::Example;
use super::{Preparation, record, vocab};
use crate::pack::AnyPacking;
use crate::{Error, Result};

/// Complaints that are logged, over the whole corpus.
const EXAMPLES: usize = 5;

/// A share of unknown tokens above which the tokenizer does not fit the corpus.
const UNKNOWN_RATE_MAX: f64 = 0.05;

/// What a run found and did.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// How documents became samples.
    pub pack: &'static str,
    /// Documents, words, tokens, what packing cut, and rejected lines by reason.
    pub corpus: CorpusReport,
    /// Lines or documents looked at.
    pub lines: u64,
    /// Parts made by this run.
    pub parts_made: u64,
    /// Parts that were there already.
    pub parts_skipped: u64,
    /// Whether nothing at all was left to do.
    pub nothing_to_do: bool,
    /// Samples of both splits.
    pub rows: u64,
    /// Content tokens of both splits, separators among them.
    pub stored_tokens: u64,
    /// Bytes of all shards.
    pub shard_bytes: u64,
    /// Samples and content tokens of the training split.
    pub train: (u64, u64),
    /// Samples and content tokens of the validation split.
    pub valid: (u64, u64),
    /// Content tokens that the same samples could hold.
    pub tokens_capacity: u64,
    /// Busy time by stage, summed over the lanes.
    pub stages: Stages,
    /// Wall time.
    pub elapsed: Duration,
}

impl Summary {
    /// Tokens per word.
    #[must_use]
    pub fn tokens_per_word(&self) -> f64 {
        self.corpus.tokens as f64 / self.corpus.words.max(1) as f64
    }

    /// Share of unknown tokens.
    #[must_use]
    pub fn unknown_rate(&self) -> f64 {
        self.corpus.unknown as f64 / self.corpus.tokens.max(1) as f64
    }

    /// A sentence for the operator where the tokenizer does not fit the corpus.
    #[must_use]
    pub fn unknown_warning(&self) -> Option<String> {
        let rate = self.unknown_rate();
        (rate > UNKNOWN_RATE_MAX).then(|| {
            format!("{:.1} % of the tokens are unknown; the tokenizer does not fit this corpus: check `lowercase` and the language, or train one with `cloze tokenizer train`", rate * 100.0)
        })
    }

    /// Share of padding that rows of `tokens_max` would have.
    #[must_use]
    pub fn padding_share(&self) -> f64 {
        (self.tokens_capacity - self.stored_tokens) as f64 / self.tokens_capacity.max(1) as f64
    }

    /// Bytes on disk per stored token.
    #[must_use]
    pub fn bytes_per_token(&self) -> f64 {
        self.shard_bytes as f64 / self.stored_tokens.max(1) as f64
    }
}

/// The state of the fold.
pub(super) struct Fold<'a> {
    preparation: &'a Preparation,
    parts: Vec<PartEntry>,
    corpus: CorpusReport,
    counts: Vec<u64>,
    lines: u64,
    made: u64,
    skipped: u64,
    rows_thrown_away: u64,
    examples: Vec<String>,
    stages: Stages,
}

impl<'a> Fold<'a> {
    pub(super) fn new(preparation: &'a Preparation) -> Self {
        Self {
            preparation,
            parts: Vec::new(),
            corpus: CorpusReport::default(),
            counts: vec![0; preparation.tokenizer.facts().tokens.len()],
            lines: 0,
            made: 0,
            skipped: 0,
            rows_thrown_away: 0,
            examples: Vec::new(),
            stages: Stages::default(),
        }
    }

    pub(super) fn add(&mut self, outcome: Outcome) -> Result<()> {
        let Outcome { record, made, stages, rows } = outcome;
        for Example { reason, piece, line } in record.examples.iter().take(EXAMPLES - self.examples.len()) {
            let place = format!("{}:{line}", self.preparation.corpus.path(&record.part.pieces[*piece]).display());
            warn!(reason, place, "dirty text");
            self.examples.push(format!("{place} ({reason})"));
        }
        record.add_counts(&mut self.counts);
        if record.train.is_empty() && record.valid.is_empty() {
            self.rows_thrown_away += rows;
        }
        self.parts.push(PartEntry { id: PartId(record.part.index), train: record.train, valid: record.valid });
        self.corpus.add(&record.report);
        self.lines += record.lines;
        self.stages.add(&stages);
        *(if made { &mut self.made } else { &mut self.skipped }) += 1;
        match self.preparation.config.bad_lines_max {
            // A bound that was asked for is known from the start: no need to read on.
            Some(max) => self.refuse_dirt(max),
            None => Ok(()),
        }
    }

    fn refuse_dirt(&self, max: u64) -> Result<()> {
        let bad: u64 = self.corpus.rejected.values().sum();
        if bad <= max {
            return Ok(());
        }
        let reasons: Vec<_> = self.corpus.rejected.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let first =
            if self.examples.is_empty() { String::new() } else { format!("; first {}", self.examples.join(", ")) };
        Err(Error::Poison(format!(
            "{bad} of {} lines were rejected or repaired ({}), more than {max}{first}; mend the corpus, or raise `prepare.bad_lines_max`",
            self.lines,
            reasons.join(", ")
        )))
    }

    /// Writes what stands beside the shards, the manifest last, unless it is there already.
    pub(super) fn finish(mut self, folder: Option<&Folder>, began: Instant) -> Result<Summary> {
        if self.corpus.documents == 0 {
            folder.map_or(Ok(()), withdraw)?;
            return Err(self.no_documents());
        }
        let config = &self.preparation.config;
        self.refuse_dirt(config.bad_lines_max.unwrap_or_else(|| (self.lines / 1000).max(10)))?;
        let mut summary = self.summary(began);
        if let Some(folder) = folder {
            summary.nothing_to_do = !self.publish(folder)? && summary.parts_made == 0;
        }
        summary.elapsed = began.elapsed();
        Ok(summary)
    }

    fn no_documents(&self) -> Error {
        let reasons: Vec<_> = self.corpus.rejected.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
        let found = if reasons.is_empty() { "only emptiness".into() } else { reasons.join(", ") };
        let inputs = self.preparation.config.inputs.join("`, `");
        Error::Poison(format!("`{inputs}`: no valid document ({found}); check `prepare.format`"))
    }

    fn summary(&self, began: Instant) -> Summary {
        let content = u64::from(self.preparation.config.pack.content(self.preparation.config.tokens_max));
        let split = |shards: fn(&PartEntry) -> &[Shard]| Split {
            shards: self.parts.iter().flat_map(shards).cloned().collect(),
        };
        let splits = [split(|part| &part.train), split(|part| &part.valid)];
        let [train, valid] = splits.each_ref().map(|split| (split.rows(), split.tokens()));
        let rows = train.0 + valid.0 + self.rows_thrown_away;
        let shards = splits.iter().flat_map(|split| &split.shards);
        Summary {
            pack: self.preparation.config.pack.kind(),
            corpus: self.corpus.clone(),
            lines: self.lines,
            parts_made: self.made,
            parts_skipped: self.skipped,
            nothing_to_do: false,
            rows,
            stored_tokens: train.1 + valid.1,
            shard_bytes: shards.map(|shard| shard.bytes).sum(),
            train,
            valid,
            tokens_capacity: (train.0 + valid.0) * content,
            stages: self.stages,
            elapsed: began.elapsed(),
        }
    }

    /// Returns whether anything had to be written.
    fn publish(&mut self, folder: &Folder) -> Result<bool> {
        let facts = self.preparation.tokenizer.facts();
        let files = [
            ("tokenizer.json", facts.json.clone()),
            ("vocab/00000.parquet", vocab::to_parquet(&facts.vocab(std::mem::take(&mut self.counts)))),
        ];
        let [tokenizer, vocab] = files.each_ref().map(|(path, bytes)| FileEntry {
            path: (*path).to_owned(),
            blake3: blake3::hash(bytes).to_hex().to_string(),
        });
        let train = Split { shards: self.parts.iter().flat_map(|part| part.train.clone()).collect() };
        let generation = GenerationEntry {
            dropped: Vec::new(),
            parts: std::mem::take(&mut self.parts),
            vocab,
            corpus: std::mem::take(&mut self.corpus),
            content: train.content(),
        };
        let manifest = Manifest {
            tokenizer: facts.manifest.clone(),
            tokens_max: self.preparation.config.tokens_max,
            pack: pack_of(&self.preparation.config.pack),
            frame: self.preparation.config.pack.frame(),
            files: [(tokenizer.path, tokenizer.blake3)].into(),
            generations: vec![generation],
        };
        let mut written = false;
        for (name, bytes) in files.into_iter().chain([("manifest.json", manifest.to_json())]) {
            let there = fs::read(folder.path().join(name)).is_ok_and(|found| found == bytes);
            if !there {
                folder.write(name, &bytes)?;
                written = true;
            }
        }
        Ok(written)
    }
}

/// The manifest's word for a packing.
fn pack_of(packing: &AnyPacking) -> Pack {
    serde_json::from_value(packing.kind().into()).expect("the manifest knows every packing")
}

/// Removes the records of a corpus without documents: they are all that was written.
fn withdraw(folder: &Folder) -> Result<()> {
    for path in record::record_files(folder.path())? {
        fs::remove_file(path)?;
    }
    // What is not empty has something of somebody else in it, and stays.
    for path in [folder.path().join("parts"), folder.path().to_owned()] {
        let _ = fs::remove_dir(path);
    }
    Ok(())
}
