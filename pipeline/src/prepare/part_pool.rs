//! Worker pool over the parts of a job, and the aggregation of its results.

use std::mem::take;
use std::sync::Arc;
use std::time::{Duration, Instant};

use runtime::{CancelToken, Poll, PoolOptions, PoolStats, WorkPool, WorkerStats};
use schemas::manifest::PartEntry;
use schemas::{PartId, Shard, SpecialIds};
use telemetry::EventKind;
use telemetry::training::Warning;

use super::aggregate::{self, Aggregate};
use super::change::DatasetChange;
use super::commit_memory::remote_commits;
use super::job::{PartAccess, PrepareJob};
use super::part::{self, PartResult, ProcessedPart};
use super::part_list::VersionLists;
use super::progress::{EventSink, Progress};
use super::summary::PrepareSummary;
use super::{duplicate_ids, gc, leases, planned_inputs};
use crate::unusable_files::UnusableFiles;
use crate::{Error, Result};

/// Finished parts in the queue before aggregation, per worker. Reports are small, so workers do not wait for the
/// aggregation.
pub(super) const DEPTH: usize = 4;

/// Interval of progress events while no part is finished.
pub(super) const PULSE: Duration = Duration::from_millis(500);

/// Calls `hear` with each item of a pool, and with `None` while none is finished, so that progress can be shown.
///
/// # Errors
/// The first error of an item or of `hear`; [`Error::Stopped`] if `stop` is cancelled.
pub(super) fn drain<T: Send + 'static>(
    results: &mut WorkPool<T, Error>,
    stop: &CancelToken,
    mut hear: impl FnMut(Option<T>) -> Result<()>,
) -> Result<()> {
    loop {
        if stop.is_cancelled() {
            return Err(Error::Stopped);
        }
        match results.next_timeout(PULSE)? {
            Poll::Item(item) => hear(Some(item))?,
            Poll::Pending => hear(None)?,
            Poll::End => return Ok(()),
        }
    }
}

/// Callback that receives the worker statistics when the workers start.
pub type PoolStatsCallback = Box<dyn FnOnce(PoolStats) + Send>;

/// Parts of a job while they are made.
pub(super) struct PartPool<'a> {
    work: &'a Arc<PrepareJob>,
    progress: Arc<Progress>,
    fold: Aggregate<'a>,
    /// Tasks without a result, by index.
    left: Vec<usize>,
    /// Parts that are missing, if this process makes none.
    missing: Vec<PartId>,
    /// Files for which a part was not made.
    unusable: UnusableFiles,
    stats: Option<PoolStats>,
    began: Instant,
}

impl<'a> PartPool<'a> {
    pub(super) fn new(work: &'a Arc<PrepareJob>) -> Self {
        Self {
            work,
            progress: Arc::new(Progress::new(work.tasks.iter().map(|task| &task.part))),
            fold: Aggregate::new(&work.corpus, work.config.max_bad_lines, work.tools.tokenizer.facts().tokens.len()),
            left: (0..work.tasks.len()).collect(),
            missing: Vec::new(),
            unusable: UnusableFiles::default(),
            stats: None,
            began: Instant::now(),
        }
    }

    /// Parts without a result: those that other processes have leased.
    pub(super) fn left(&self) -> usize {
        self.left.len()
    }

    /// Parts made by this process.
    pub(super) fn made(&self) -> u64 {
        self.fold.made
    }

    /// Tries every part without a result once.
    pub(super) fn run(
        &mut self,
        stop: &CancelToken,
        voice: &mut EventSink<'_>,
        hears: Option<PoolStatsCallback>,
    ) -> Result<()> {
        let indices = take(&mut self.left);
        let count = indices.len() as u64;
        let workers = self.work.config.workers();
        let options = PoolOptions { name: "prepare", item: "part", workers, queue_depth: DEPTH * workers };
        let job = Arc::clone(self.work);
        let progress = Arc::clone(&self.progress);
        let make = move |index, stop: &CancelToken| {
            let index = indices[usize::try_from(index).expect("parts are in memory")];
            let processed = part::process(&job, &job.tasks[index], &progress, stop)?;
            Ok::<_, Error>(processed.map(|processed| (index, processed)))
        };
        let job = Arc::clone(self.work);
        let progress = Arc::clone(&self.progress);
        let finish = move |(index, processed): (usize, ProcessedPart)| {
            processed.finish(&job.tasks[index], &progress).map(|result| (index, result))
        };
        let is_remote = self.work.store().is_some_and(|store| store.local().is_none());
        let finishers = if is_remote { workers * remote_commits(&self.work.config) } else { workers };
        let mut results = WorkPool::with_finishers(count, options, finishers, make, finish);
        let stats = results.stats();
        if let Some(hears) = hears {
            hears(stats.clone());
        }
        self.stats = Some(stats);
        drain(&mut results, stop, |item| {
            if let Some((index, result)) = item {
                self.add(index, result, voice)?;
            }
            voice.emit(EventKind::PrepareProgress(self.progress.at(self.began.elapsed())));
            // Checked before a part is complete, so that an invalid corpus is rejected early. The default limit depends on
            // all lines, and a share may have the worst of them.
            let max_bad_lines = self.work.config.max_bad_lines;
            let is_known = max_bad_lines.is_some() || !matches!(self.work.access, PartAccess::MakeShare);
            if is_known { self.progress.check_rejects(max_bad_lines) } else { Ok(()) }
        })?;
        self.left.sort_unstable();
        Ok(())
    }

    fn add(&mut self, index: usize, result: PartResult, voice: &mut EventSink<'_>) -> Result<()> {
        match result {
            PartResult::Done(outcome) => {
                let done = outcome.done();
                self.fold.add(outcome)?;
                voice.emit(EventKind::PartDone(done));
            }
            PartResult::Leased => self.left.push(index),
            PartResult::Missing => self.missing.push(self.work.tasks[index].part.id),
            PartResult::Unusable(files) => self.unusable.append(files),
        }
        Ok(())
    }

    /// Refuses to continue if files cannot be used. The error names all of them.
    pub(super) fn refuse_unusable(&mut self) -> Result<()> {
        take(&mut self.unusable).refuse()
    }

    /// Refuses to continue if parts are missing.
    pub(super) fn refuse_missing(&mut self) -> Result<()> {
        const NAMED: usize = 10;
        if self.missing.is_empty() {
            return Ok(());
        }
        self.missing.sort_unstable();
        let named: Vec<String> = self.missing.iter().take(NAMED).map(ToString::to_string).collect();
        let dots = if self.missing.len() > NAMED { ", …" } else { "" };
        Err(Error::Unfinished {
            place: self.work.place(),
            message: format!(
                "{} of {} parts are missing ({}{dots}); run `cloze prepare run` until it exits with 0, then finalize",
                self.missing.len(),
                self.work.tasks.len(),
                named.join(", ")
            ),
        })
    }

    /// Publishes all parts in effect, and removes what is no longer needed. Returns a summary.
    pub(super) fn publish(
        self,
        lists: &VersionLists,
        change: Option<DatasetChange>,
        announced: bool,
        voice: &mut EventSink<'_>,
    ) -> Result<PrepareSummary> {
        let Self { work, fold, .. } = &self;
        assert_eq!(fold.parts.len(), work.tasks.len(), "every part in effect is folded");
        if work.options.sample.is_some() && fold.is_without_documents() {
            return Err(Error::Config("the sample has no document; raise `--sample`".to_owned()));
        }
        let is_part = work.options.sample.is_some_and(|share| share < 1.0);
        if let Err(error) = fold.check_rejects(&work.config.inputs, is_part) {
            // A corpus that never had a document leaves nothing behind. Published dataset versions stay.
            let never = fold.report().documents == 0 && lists.iter().count() == 1;
            if let Some(store) = work.store().filter(|_| never) {
                gc::remove(store, lists, work.config.has_tokenizer_in_folder())?;
            }
            return Err(error);
        }
        let published = aggregate::publish(work, lists, fold)?;
        if published {
            find_duplicate_ids(work, fold)?.into_iter().for_each(|warning| voice.emit(EventKind::Warning(warning)));
        }
        let removed = match work.store() {
            Some(store) => {
                store.delete(planned_inputs::NAME)?;
                let kept = [&*fold.objects, &*gc::comparison_objects(lists)].concat();
                leases::remove_all(store)? + gc::remove_others(store, &work.listing, lists, &kept)?
            }
            None => 0,
        };
        let written = announced || published || removed > 0;
        let nothing_to_do = work.store().is_some() && fold.made == 0 && !written;
        let summary = self.summary(lists, change, nothing_to_do)?;
        voice.emit(EventKind::PrepareEnd(summary.end(self.work.place())));
        Ok(summary)
    }

    fn summary(
        &self,
        lists: &VersionLists,
        change: Option<DatasetChange>,
        nothing_to_do: bool,
    ) -> Result<PrepareSummary> {
        let Self { work, fold, progress, stats, began, .. } = self;
        let sum = |split: fn(&PartEntry) -> &[Shard]| {
            fold.shards(split).fold((0, 0), |(rows, tokens), shard| (rows + shard.rows, tokens + shard.tokens))
        };
        let train = sum(|part| &part.train);
        let valid = sum(|part| &part.valid);
        let content = u64::from(work.config.packing.content(work.config.max_seq_len));
        let shards = fold.shards(|part| &part.train).chain(fold.shards(|part| &part.valid));
        let stats = stats.as_ref().expect("the pool ran before");
        let corpus = fold.report();
        Ok(PrepareSummary {
            dataset_version: lists.newest(),
            change,
            pack: work.config.packing.kind(),
            estimate: work.estimate(&corpus)?,
            corpus,
            special_tokens: spelled_special_tokens(work, fold),
            filtered: fold.filtered(),
            lines: fold.lines,
            parts_made: fold.made,
            parts_skipped: fold.skipped,
            nothing_to_do,
            bytes_read: progress.bytes_read() + work.corpus.reading().bytes_read.get(),
            text_bytes_made: progress.text_bytes(),
            rows: if work.store().is_some() { train.0 + valid.0 } else { fold.rows_made },
            stored_tokens: train.1 + valid.1,
            shard_bytes: shards.map(|shard| shard.bytes).sum(),
            train,
            valid,
            tokens_capacity: (train.0 + valid.0) * content,
            stages: fold.stages,
            workers: stats.workers(),
            fold: WorkerStats { name: "fold".to_owned(), ..stats.reader() },
            elapsed: began.elapsed(),
        })
    }
}

/// Returns the special tokens that training texts spell, with their numbers. Tokenizers convert them to the special ids.
fn spelled_special_tokens(work: &PrepareJob, fold: &Aggregate<'_>) -> Vec<(String, u64)> {
    let facts = work.tools.tokenizer.facts();
    let SpecialIds { pad, unk: _, cls, sep, mask } = facts.special();
    let counted = [mask, sep, cls, pad].map(|id| (facts.tokens[id as usize].clone(), fold.occurrences(id)));
    counted.into_iter().filter(|(_, count)| *count > 0).collect()
}

/// Returns a warning if documents share their id. Equal texts share it if no field has the ids.
fn find_duplicate_ids(work: &PrepareJob, fold: &Aggregate<'_>) -> Result<Option<Warning>> {
    let config = &work.config;
    let Some((store, id_field)) = work.store().zip(config.id_field.as_ref()) else { return Ok(None) };
    if !config.format.has_fields() {
        return Ok(None);
    }
    let found = duplicate_ids::find(store, &fold.parts.keys().copied().collect())?;
    Ok(found.map(|found| found.warning(id_field, &config.format)))
}
