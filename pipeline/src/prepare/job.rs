//! Inputs that all workers of a preparation share: tasks, corpus, tokenizer, folder, and the text that is tokenized twice.

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use schemas::manifest::CorpusReport;
use schemas::sample::OptionalColumns;
use schemas::{DatasetVersion, Document, PartId};
use store::{LeaseContender, Store};

use super::commit_record::PartBinding;
use super::config::PrepareConfig;
use super::dry_run::DryRun;
use super::estimate::CorpusEstimate;
use super::listing::ObjectListing;
use super::part_list::VersionLists;
use super::partners::PartnerReader;
use super::text_rules::{FilterRemoval, RuleCounts, TextPlace};
use super::text_tools::TextTools;
use super::verdicts::{self, PartVerdicts, VerdictDigests};
use crate::corpus::{Corpus, Found, MemoryBudget, Part};
use crate::shard::ShardOptions;
use crate::tokenize::front;
use crate::{Error, Result};

/// Bytes of memory that filters need per byte of text: 12 for the longest compatible composition, or the tables of
/// n-grams of prose.
const TEXTS_FILTERED: u64 = 16;

/// Options of a run for profiling and streaming, which are not part of any configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrepareOptions {
    /// Processes the parts in the order of their list, for a reader that follows; otherwise longest first.
    pub in_order: bool,
    /// Discards samples instead of writing them, to measure the other stages.
    pub null_writer: bool,
    /// Makes the writer sleep this long for each segment, to test that a slow writer is detected.
    pub write_delay: Duration,
    /// Share of the documents that are processed, to estimate the result; `None` for all.
    pub sample: Option<f64>,
}

impl PrepareOptions {
    /// Whether a document is processed. The choice depends on the seed, the file and the place in it only, so that it is
    /// the same for any number of workers.
    pub(super) fn samples(&self, part: &Part, found: &Found, seed: u64) -> bool {
        let Some(share) = self.sample else { return true };
        let id = format!("{seed} {} {}", found.range.start, part.pieces[found.piece].name);
        Document::is_sampled(&id, share)
    }
}

/// Part in effect.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) dataset_version: DatasetVersion,
    pub(super) part: Part,
    pub(super) forgotten: Arc<ForgottenDocuments>,
}

/// Documents that a part must not contain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct ForgottenDocuments {
    /// BLAKE3 of their ids.
    digests: BTreeSet<String>,
    /// BLAKE3 over these digests.
    name: String,
}

impl ForgottenDocuments {
    /// Collects the documents that parts of that list omit.
    pub(super) fn new(lists: &VersionLists, dataset_version: DatasetVersion) -> Self {
        let digests: BTreeSet<String> = lists.forgotten(dataset_version).into_keys().map(str::to_owned).collect();
        let mut hasher = blake3::Hasher::new();
        for digest in &digests {
            hasher.update(digest.as_bytes());
        }
        Self { digests, name: hasher.finalize().to_hex().to_string() }
    }

    /// Whether a document with that id is omitted.
    pub(super) fn contains(&self, id: &str) -> bool {
        !self.digests.is_empty() && self.digests.contains(&schemas::Document::digest(id))
    }

    /// Returns the digest that commit records contain.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// Inputs that all workers share.
pub(super) struct PrepareJob {
    pub(super) config: PrepareConfig,
    pub(super) corpus: Corpus,
    pub(super) tools: TextTools,
    /// Text that is tokenized by both implementations.
    pub(super) sample: Sample,
    /// Verdicts on duplicates, as soon as all documents are compared.
    pub(super) verdicts: OnceLock<VerdictDigests>,
    /// BLAKE3 of the settings.
    pub(super) settings: String,
    /// Tasks in processing order.
    pub(super) tasks: Vec<Task>,
    pub(super) options: PrepareOptions,
    /// Target store. `None` if samples are discarded.
    pub(super) store: Option<Store>,
    pub(super) dry_run: Option<DryRun>,
    /// Objects of the target before this process.
    pub(super) listing: ObjectListing,
    pub(super) access: PartAccess,
}

/// Way in which a process gets the parts in effect.
#[derive(Debug)]
pub(super) enum PartAccess {
    /// Makes what is missing of all parts.
    Make,
    /// Makes what is missing of some of the parts. Other processes make the other parts.
    MakeShare,
    /// Makes what is missing and no other process has leased.
    Lease(LeaseContender),
    /// Reads the records only.
    Read,
}

impl PrepareJob {
    /// Creates a job, and lists the objects of its target.
    #[expect(clippy::too_many_arguments, reason = "a constructor with one argument per field")]
    pub(super) fn new(
        config: PrepareConfig,
        corpus: Corpus,
        tools: TextTools,
        settings: String,
        tasks: Vec<Task>,
        options: PrepareOptions,
        store: Option<Store>,
        access: PartAccess,
    ) -> Result<Arc<Self>> {
        let listing = store.as_ref().map(ObjectListing::read).transpose()?.unwrap_or_default();
        let dry_run = (store.is_none() && options.sample.is_some()).then(|| DryRun::new(&config));
        Ok(Arc::new(Self {
            config,
            corpus,
            tools,
            sample: Sample::default(),
            verdicts: OnceLock::new(),
            settings,
            tasks,
            options,
            store,
            dry_run,
            listing,
            access,
        }))
    }

    pub(super) fn store(&self) -> Option<&Store> {
        self.store.as_ref()
    }

    /// Returns the store of signatures and verdicts.
    pub(super) fn comparison_store(&self) -> Option<&Store> {
        self.store.as_ref().or(self.dry_run.as_ref().map(|dry_run| &dry_run.scratch))
    }

    /// Whether removed documents are listed.
    pub(super) fn lists_removed(&self) -> bool {
        self.config.write_removed && self.store.is_some()
    }

    /// Returns the estimate for the whole corpus in a dry run.
    pub(super) fn estimate(&self, report: &CorpusReport) -> Result<Option<CorpusEstimate>> {
        let options = || self.shard_options(PartId(0), 0, "overhead".to_owned());
        self.dry_run.as_ref().map(|dry_run| dry_run.estimate(report, &self.config, options())).transpose()
    }

    /// Returns the parameters of shards.
    pub(super) fn shard_options(&self, part: PartId, first_row: u32, prefix: String) -> ShardOptions {
        ShardOptions {
            part,
            first_row,
            prefix,
            vocab_size: self.tools.tokenizer.facts().manifest.vocab_size,
            optional: OptionalColumns { sentences: self.config.packing.keeps_sentences(), targets: false },
            zstd_level: self.config.zstd_level,
        }
    }

    /// Returns the text of a document for the tokenizer, or the reason if a filter removes it. Long documents are filtered
    /// one at a time, because of the tables of the filters.
    pub(super) fn filter<'t>(
        &self,
        text: &'t str,
        place: TextPlace,
        counts: &mut RuleCounts,
        room: &MemoryBudget,
    ) -> std::result::Result<Cow<'t, str>, FilterRemoval> {
        if self.tools.rules.is_empty() {
            return Ok(Cow::Borrowed(text));
        }
        let bytes = (text.len() as u64).saturating_mul(TEXTS_FILTERED).min(room.document_max());
        room.document(bytes).expect("it is not above the maximum");
        self.tools.rules.apply(text, place, counts)
    }

    /// Name of the actual or hypothetical target.
    pub(super) fn place(&self) -> String {
        match self.store().filter(|store| store.local().is_none()) {
            Some(store) => store.place(""),
            None => self.config.folder.display().to_string(),
        }
    }

    pub(super) fn bound<'a>(&'a self, task: &'a Task) -> PartBinding<'a> {
        let part = &task.part;
        let verdicts = self.verdict_digest(part.id);
        PartBinding { settings: &self.settings, forgotten: task.forgotten.name(), verdicts, part }
    }

    /// BLAKE3 of the verdicts on the documents of a part; empty if duplicates stay.
    pub(super) fn verdict_digest(&self, part: PartId) -> &str {
        self.verdicts.get().and_then(|verdicts| verdicts.get(part)).unwrap_or_default()
    }

    /// Reads the verdicts on the documents of a part.
    pub(super) fn read_verdicts(&self, part: PartId) -> Result<PartVerdicts> {
        let digest = self.verdict_digest(part);
        let Some(store) = self.comparison_store().filter(|_| !digest.is_empty()) else {
            return Ok(PartVerdicts::default());
        };
        PartVerdicts::read(store, part, digest)?.ok_or_else(|| lost(store, &verdicts::part_name(part)))
    }

    /// Opens the partners of the removed duplicates of a part, if removed documents are listed and there are some.
    pub(super) fn open_partners(&self, part: PartId) -> Result<Option<PartnerReader>> {
        let digest = self.verdicts.get().and_then(|verdicts| verdicts.partners(part));
        let (Some(digest), Some(store)) = (digest, self.store()) else { return Ok(None) };
        let partners = PartnerReader::open(store, part, digest)?;
        partners.map(Some).ok_or_else(|| lost(store, &verdicts::partners_name(part)))
    }

    /// Whether a document is not longer than `max_document_bytes`.
    pub(super) fn accepts_length(&self, text: &str) -> bool {
        self.config.max_document_bytes.is_none_or(|most| text.len() as u64 <= most)
    }
}

/// Returns the error for verdicts that are not there as they were written.
fn lost(store: &Store, name: &str) -> Error {
    let message = "damaged; run `cloze prepare`, or `cloze prepare signatures` and then the same command".to_owned();
    Error::Unfinished { place: store.place(name), message }
}

/// Returns the parts in effect, longest first, so that no long part starts last.
pub(super) fn long_ones_first(lists: &VersionLists, part_bytes: u64) -> Vec<Task> {
    let mut tasks = in_order(lists);
    let length = |task: &Task| if task.part.bytes > part_bytes { task.part.bytes } else { 0 };
    let order = |task: &Task| -> (std::cmp::Reverse<u64>, PartId) { (std::cmp::Reverse(length(task)), task.part.id) };
    tasks.sort_by_key(order);
    tasks
}

/// Returns the parts in effect, in the order of their lists.
pub(super) fn in_order(lists: &VersionLists) -> Vec<Task> {
    let omits: Vec<Arc<ForgottenDocuments>> =
        lists.iter().map(|list| Arc::new(ForgottenDocuments::new(lists, list.dataset_version))).collect();
    let task = |(dataset_version, part): (DatasetVersion, &Part)| {
        let forgotten = Arc::clone(&omits[dataset_version.0 as usize]);
        Task { dataset_version, part: part.clone(), forgotten }
    };
    lists.in_effect().into_values().map(task).collect()
}

/// Bytes of text that a run compares. The reference tokenizer takes 0.1 s for them.
const RUN_BYTES: u64 = 256 << 10;

/// Maximum compared bytes per document, so that several documents are compared.
const DOCUMENT_BYTES: usize = 16 << 10;

/// Remaining text to compare. The selection of documents depends on the workers; the resulting ids do not.
#[derive(Debug)]
pub(super) struct Sample {
    left: AtomicU64,
}

impl Default for Sample {
    fn default() -> Self {
        Self { left: AtomicU64::new(RUN_BYTES) }
    }
}

impl Sample {
    /// Returns the part of a document to compare, if more text is needed.
    pub(super) fn select<'a>(&self, text: &'a str) -> Option<&'a str> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taken = front(text, DOCUMENT_BYTES);
        let less = |left: u64| Some(left.saturating_sub(taken.len() as u64));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
        (left > 0).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_several_documents_and_ends() {
        let sample = Sample::default();
        let long = "é".repeat(DOCUMENT_BYTES);
        let taken: Vec<usize> = (0..100).map_while(|_| sample.select(&long)).map(str::len).collect();
        assert_eq!((taken.len() as u64, taken[0]), (RUN_BYTES / DOCUMENT_BYTES as u64, DOCUMENT_BYTES));
        assert_eq!(sample.select("a"), None);
    }
}
