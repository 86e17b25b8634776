//! Loader of the pipeline: conversion of a batch index to a batch.
//!
//! A [`LoadPlan`] is a configuration checked against a manifest. [`LoadPlan::batch`] is a pure function of the batch
//! index. Arithmetic selects the rows ([`epoch_plan`](crate::epoch_plan), [`sampler`](crate::sampler)). Decoded row
//! groups contain the samples ([`groups`](crate::shard::groups)). Views render the columns
//! ([`collate`](crate::collate())). [`LoadPlan::stream`] is the same function, computed ahead by workers from any row,
//! for any [`RankShard`] of the rows. The batches do not depend on the number of workers.

mod bad_rows;
mod batch_builder;
mod batch_ranges;
mod folder;
mod folders;
mod latency_injection;
mod memory;
mod plan;
mod plan_summary;
mod read_ahead;
mod request;
mod row_facts;
mod source;
mod sources;
mod stream;
mod text_rows;
mod views;
mod windows;

use std::path::PathBuf;
use std::sync::Arc;

use runtime::PoolOptions;
use schemars::JsonSchema;
use schemas::{Batch, BatchIndex, RankShard, RowIndex, Sample, Vocab};
use serde::{Deserialize, Serialize};

pub use self::bad_rows::{BadRow, BadRows, ExcludedRows, ROW_ATTEMPTS, RowFaults, RowPolicy};
use self::batch_ranges::BatchRanges;
pub use self::folder::{find, open, read_tokenizer, read_vocab};
pub use self::latency_injection::{Contention, DelayedWorkers, LatencyInjection};
pub use self::plan_summary::{CacheFacts, LoadFacts, SourceFacts, StreamedFacts, ViewFacts};
pub use self::request::{LoadRequest, MissingParts, Rows, SourceRequest};
pub use self::row_facts::RowFacts;
use self::source::{HeldGroups, RowRefs, Source};
pub use self::stream::{BatchStream, StreamOptions};
use crate::audit::{Audit, AuditFacts};
use crate::collate::{Item, PlannedView};
use crate::epoch_plan::EpochSpan;
use crate::error::Result;
use crate::mixture::SourceAssignment;
use crate::rng::Key;
use crate::sampler::RowRef;
use crate::shard::cache::ShardCache;
use crate::shard::groups::{Groups, WorkerIndex};
use crate::shard::reader::ShardExpectation;

/// Order of the rows of a run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RowOrder {
    /// All epochs are shuffled over all data, which is prepared before the first step.
    #[default]
    Shuffled,
    /// The first epoch follows the part list, whose order depends on `prepare.seed`. A run can start with the first
    /// parts, and its batches do not depend on when the other parts are ready. Later epochs are shuffled over all
    /// data.
    Streamed,
}

/// The section `[data]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DataConfig {
    /// Prepared folder; a path, or a URL such as `s3://BUCKET/PREFIX`. Default: `prepare.folder`.
    pub folder: PathBuf,
    /// Tokens of a row, frame included. Default: `max_seq_len` of the manifest. A shorter row is a piece of a sample.
    pub seq_len: Option<u32>,
    /// Number of adjacent rows that are made of each sample (or piece).
    pub copies_per_sample: u32,
    /// Share of the training split that is used: the first samples of each row group. Above 0, at most 1.
    pub fraction: f64,
    /// Dataset version that the run reads when the prepared folder changes.
    pub version: VersionChoice,
    /// Order of the rows.
    pub order: RowOrder,
    /// Number of row groups whose rows are shuffled together; a minimum in a streamed epoch.
    pub shuffle_window_groups: usize,
    /// Number of threads that make batches. Default: the number of cores, at most 4. The batches do not depend on it.
    pub workers: Option<usize>,
    /// Number of finished batches in the queue of each worker.
    pub prefetch_batches: usize,
    /// Maximum memory of decoded row groups and batches of a split per process, in bytes. `prefetch_batches` is
    /// reduced to fit, then the number of workers. A run that does not fit with one worker and one batch is refused.
    pub max_memory_bytes: u64,
    /// Folder of the local copies of shards, if the prepared folder is in an object store. Runs and processes share it.
    /// Default: `cloze/shards` in `$XDG_CACHE_HOME` or `~/.cache`.
    pub cache_folder: PathBuf,
    /// Maximum bytes of these copies; those used least recently are removed. 0: no copies, each row group is read from
    /// the store.
    pub cache_bytes: u64,
    /// Number of rows that a run may replace by padding because making them panics twice. Each is logged and recorded
    /// in `bad_rows.json`. With one more, the run stops.
    pub max_bad_rows: u64,
}

/// Which dataset versions of a prepared folder a run reads.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum VersionChoice {
    /// The version that was the newest when the run began, in all epochs.
    #[default]
    Pinned,
    /// In each epoch the version that is the newest when the epoch begins. The run folder records it.
    Latest,
}

impl Default for DataConfig {
    fn default() -> Self {
        Self {
            folder: PathBuf::from("data"),
            seq_len: None,
            copies_per_sample: 1,
            fraction: 1.0,
            version: VersionChoice::Pinned,
            order: RowOrder::Shuffled,
            shuffle_window_groups: 16,
            workers: None,
            prefetch_batches: 2,
            max_memory_bytes: 4 << 30,
            cache_folder: PathBuf::new(),
            cache_bytes: 20 << 30,
            max_bad_rows: 0,
        }
    }
}

impl DataConfig {
    /// Returns the cache of the shards of remote folders; `None` if it is off, or without a folder for it.
    #[must_use]
    pub fn shard_cache(&self) -> Option<ShardCache> {
        let is_set = !self.cache_folder.as_os_str().is_empty();
        let folder = if is_set { Some(self.cache_folder.clone()) } else { ShardCache::default_folder() };
        folder.filter(|_| self.cache_bytes > 0).map(|folder| ShardCache::shared(&folder, self.cache_bytes))
    }

    /// Number of workers. Four workers are several times faster than an accelerator needs.
    #[must_use]
    pub fn workers(&self) -> usize {
        self.workers.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, std::num::NonZero::get).min(4))
    }
}

/// Number of draws of a partner before a row is made without one.
const PARTNER_DRAWS: usize = 10;

/// Seed of validation, independent of the run's seed: all runs on a folder use the same masks.
pub(crate) const VALIDATION_SEED: u64 = 0;

/// Checked configuration. Batches can only be made from it.
#[derive(Debug)]
pub struct LoadPlan {
    /// Sources of the stream, at least one.
    sources: Vec<Source>,
    assignment: SourceAssignment,
    expectation: ShardExpectation,
    vocab: Arc<Vocab>,
    views: Vec<PlannedView>,
    /// Whether a view combines two samples.
    pairs: bool,
    copies: u32,
    pieces: u32,
    piece_tokens: usize,
    rows_per_batch: u64,
    end: Option<u64>,
    workers: PoolOptions,
    shuffle_window_groups: usize,
    max_memory_bytes: u64,
    max_bad_rows: u64,
}

impl LoadPlan {
    /// Returns the batch at `index` of the stream from its first row. It depends on the plan and `index` only; `groups`
    /// is a cache of decoded row groups.
    ///
    /// # Errors
    /// [`Error::Shard`](crate::Error::Shard) if a row group does not match the manifest,
    /// [`Error::Row`](crate::Error::Row) for a row that cannot be made.
    pub fn batch(&self, groups: &Groups, index: BatchIndex) -> Result<Batch> {
        self.batch_with(groups, index, &RowPolicy::default())
    }

    /// Returns the batch at `index` under a row policy. New bad rows are not recorded: only a stream records them.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn batch_with(&self, groups: &Groups, index: BatchIndex, policy: &RowPolicy) -> Result<Batch> {
        Ok(self.make(groups, index, self.rows_of(index), WorkerIndex::ALONE, policy, None)?.batch)
    }

    /// Returns the origin of each row of a batch.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn explain(&self, groups: &Groups, index: BatchIndex) -> Result<Vec<RowFacts>> {
        self.explain_rows(groups, self.rows_of(index))
    }

    /// Returns the origin of any rows.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn explain_rows(&self, groups: &Groups, rows: std::ops::Range<u64>) -> Result<Vec<RowFacts>> {
        let refs = self.row_refs(rows.clone(), None)?;
        let held = self.load_groups(groups, &refs, WorkerIndex::ALONE)?;
        Ok(rows.zip(&refs.rows).map(|(number, row)| self.row_facts(RowIndex(number), row, &refs, &held)).collect())
    }

    /// Returns the origin of one row of the stream.
    ///
    /// # Errors
    /// As [`batch`](Self::batch).
    pub fn row(&self, groups: &Groups, row: RowIndex) -> Result<RowFacts> {
        let mut facts = self.explain_rows(groups, row.0..row.0 + 1)?;
        Ok(facts.pop().expect("one row was asked for"))
    }

    /// Creates an empty cache of decoded row groups.
    #[must_use]
    pub fn groups(&self) -> Groups {
        Groups::new(self.sources.iter().map(|source| Arc::clone(&source.shards)))
    }

    /// Creates an audit of the plan's batches, without counts.
    #[must_use]
    pub fn audit(&self) -> Audit {
        Audit::new(&self.views, &self.vocab, AuditFacts { copies: self.copies, frame: self.expectation.frame })
    }

    /// Number of batches. `None` for training, which has no end.
    #[must_use]
    pub fn batches(&self) -> Option<u64> {
        self.whole().count()
    }

    /// Returns the rows of a batch.
    #[must_use]
    pub fn rows_of(&self, index: BatchIndex) -> std::ops::Range<u64> {
        self.whole().rows(index.0)
    }

    /// Returns the ranges of the whole stream from its first row.
    fn whole(&self) -> BatchRanges {
        self.cut(RowIndex(0), RankShard::ALONE)
    }

    fn cut(&self, from: RowIndex, share: RankShard) -> BatchRanges {
        BatchRanges { from, end: self.end, rows_per_batch: self.rows_per_batch, share }
    }

    /// Rows of a batch (the last of a validation may differ).
    #[must_use]
    pub fn rows_per_batch(&self) -> u64 {
        self.rows_per_batch
    }

    /// The vocabulary.
    #[must_use]
    pub fn vocab(&self) -> &Arc<Vocab> {
        &self.vocab
    }

    fn item<'a>(&self, row: &RowRef, refs: &RowRefs, held: &'a HeldGroups) -> Item<'a> {
        let stored = held.group(row, row.block).sample(row.row);
        let sample = self.piece(stored, row.piece);
        let seed = self.sources[row.source].seed;
        let partner = if self.pairs { Self::partner(seed, row, refs.span(row), &stored, held) } else { None };
        let index = row.sample;
        let copy = row.copy * self.pieces + row.piece;
        let epoch = row.epoch;
        Item { sample, partner, index, seed, epoch, copy, copies: self.copies, pieces: self.pieces }
    }

    /// Draws a sample of another document from the same window, which is decoded anyway. All copies of a row share the
    /// draw. Prefers a partner that is at least as long, so that its segment can be as long as one of the sample.
    fn partner<'a>(
        seed: u64,
        row: &RowRef,
        span: &EpochSpan,
        sample: &Sample<'_>,
        held: &'a HeldGroups,
    ) -> Option<Sample<'a>> {
        let rng = Key::new(seed, row.epoch, "", "partner").row(row.sample, row.piece);
        let window = span.window_in_epoch(row.epoch, row.window);
        let drawn = span.sampler().draws(row.epoch, window, rng).take(PARTNER_DRAWS);
        let others = drawn.map(|(block, drawn)| held.group(row, block).sample(drawn));
        let mut longest: Option<Sample<'a>> = None;
        for other in others.filter(|other| other.documents != sample.documents) {
            if longest.is_none_or(|longest| other.input_ids.len() > longest.input_ids.len()) {
                longest = Some(other);
            }
            if other.input_ids.len() >= sample.input_ids.len() {
                break;
            }
        }
        longest
    }

    fn piece<'a>(&self, stored: Sample<'a>, piece: u32) -> Sample<'a> {
        let length = stored.input_ids.len();
        let start = piece as usize * self.piece_tokens;
        stored.slice(start.min(length)..(start + self.piece_tokens).min(length))
    }

    fn row_facts(&self, number: RowIndex, row: &RowRef, refs: &RowRefs, held: &HeldGroups) -> RowFacts {
        let span = refs.span(row);
        let snapshot = span.snapshot();
        let block = span.sampler().blocks()[row.block];
        let item = self.item(row, refs, held);
        RowFacts {
            row: number,
            of: self.sources[row.source].name.clone(),
            epoch: row.epoch,
            dataset_version: snapshot.dataset_version,
            sample: row.sample,
            piece: row.piece,
            copy: row.copy,
            shard: snapshot.split.shards[block.shard as usize].path.clone(),
            group: block.group,
            row_in_group: row.row,
            source: item.sample.source,
            documents: documents_of(&item.sample),
        }
    }
}

/// Returns the ids of a sample's documents, in order.
fn documents_of(sample: &Sample<'_>) -> Vec<u64> {
    let mut documents = sample.own_documents().to_vec();
    // A document that occurs twice in succession counts once.
    documents.dedup();
    documents
}

#[cfg(test)]
mod tests;
