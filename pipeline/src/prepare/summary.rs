//! Summary of a run.

use std::time::Duration;

use runtime::WorkerStats;
use schemas::DatasetVersion;
use schemas::manifest::CorpusReport;
use telemetry::preparation::{PrepareEnd, SplitCounts, StageSeconds};

use super::change::DatasetChange;
use super::estimate::CorpusEstimate;
use super::progress::Stages;
use super::text_rules::FilteredDocument;

/// Maximum share of unknown tokens before a warning that the tokenizer does not fit the corpus.
const UNKNOWN_RATE_MAX: f64 = 0.05;

/// Results of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct PrepareSummary {
    /// Newest dataset version.
    pub dataset_version: DatasetVersion,
    /// Changes since the previous version, if this run created it.
    pub change: Option<DatasetChange>,
    /// Name of the packing.
    pub pack: &'static str,
    /// Counts of all data in effect: documents, words, tokens, packing losses, and rejected lines by reason.
    pub corpus: CorpusReport,
    /// Special tokens that training texts spell, with their numbers.
    pub special_tokens: Vec<(String, u64)>,
    /// First documents that each filter removed.
    pub filtered: Vec<FilteredDocument>,
    /// Estimate for the whole corpus, in a dry run.
    pub estimate: Option<CorpusEstimate>,
    /// Number of lines or documents that were read.
    pub lines: u64,
    /// Parts made by this run.
    pub parts_made: u64,
    /// Parts of earlier runs.
    pub parts_skipped: u64,
    /// Whether no work was left.
    pub nothing_to_do: bool,
    /// Bytes of input files that were read, to make parts or to detect changes.
    pub bytes_read: u64,
    /// Bytes of text tokenized by this run.
    pub text_bytes_made: u64,
    /// Samples of both splits.
    pub rows: u64,
    /// Content tokens of both splits, including separators.
    pub stored_tokens: u64,
    /// Bytes of all shards.
    pub shard_bytes: u64,
    /// Samples and content tokens of the training split.
    pub train: (u64, u64),
    /// Samples and content tokens of the validation split.
    pub valid: (u64, u64),
    /// Maximum number of content tokens in these samples.
    pub tokens_capacity: u64,
    /// Busy time by stage, summed over the workers.
    pub stages: Stages,
    /// Time statistics of each worker.
    pub workers: Vec<WorkerStats>,
    /// Time statistics of the aggregation.
    pub fold: WorkerStats,
    /// Wall time.
    pub elapsed: Duration,
}

impl PrepareSummary {
    /// Returns the end event of the run.
    pub(super) fn end(&self, place: String) -> PrepareEnd {
        let corpus = &self.corpus;
        let packing = &self.corpus.packing;
        let stages = &self.stages;
        let by_set = corpus.contaminated.test_sets.iter();
        let contaminated_by = by_set.map(|(name, counts)| (name.clone(), counts.documents));
        let split = |(samples, tokens)| SplitCounts { samples, tokens };
        PrepareEnd {
            place,
            dataset_version: self.dataset_version,
            change: self.change.map(|change| change.to_string()),
            pack: self.pack.to_owned(),
            parts_made: self.parts_made,
            parts_kept: self.parts_skipped,
            nothing_to_do: self.nothing_to_do,
            bytes_read: self.bytes_read,
            text_bytes_made: self.text_bytes_made,
            lines: self.lines,
            documents: corpus.documents,
            text_bytes: corpus.text_bytes,
            words: corpus.words,
            tokens: corpus.tokens,
            unknown: corpus.unknown,
            forgotten: corpus.forgotten,
            exact_duplicates: corpus.duplicates.exact_documents,
            near_duplicates: corpus.duplicates.near_documents,
            duplicate_bytes: corpus.duplicates.exact_bytes + corpus.duplicates.near_bytes,
            contaminated: corpus.contaminated.documents,
            contaminated_bytes: corpus.contaminated.text_bytes,
            contaminated_by: contaminated_by.collect(),
            rejected: corpus.rejected.clone(),
            filters: corpus.filters.clone(),
            sentences: packing.sentences,
            cut_sentences: packing.cut_sentences,
            cut_documents: packing.cut_documents,
            cut_tokens: packing.cut_tokens,
            train: split(self.train),
            valid: split(self.valid),
            samples: self.rows,
            stored_tokens: self.stored_tokens,
            tokens_capacity: self.tokens_capacity,
            shard_bytes: self.shard_bytes,
            stages: StageSeconds {
                read: stages.read.as_secs_f64(),
                tokenize: stages.tokenize.as_secs_f64(),
                pack: stages.pack.as_secs_f64(),
                write: stages.write.as_secs_f64(),
            },
            warnings: self.warnings(),
            seconds: self.elapsed.as_secs_f64(),
        }
    }

    /// Returns warnings for the user, one sentence each.
    fn warnings(&self) -> Vec<String> {
        let unmeasured = (self.valid.0 == 0).then(|| {
            "no document fell into the validation split; raise `prepare.valid_fraction` to validate".to_owned()
        });
        let rate = self.corpus.unknown as f64 / self.corpus.tokens.max(1) as f64;
        let unknown = (rate > UNKNOWN_RATE_MAX).then(|| {
            format!("{:.1} % of the tokens are unknown; the tokenizer does not fit this corpus: check `prepare.lowercase` and the language, or train one on this corpus with `cloze tokenizer train`, whose warnings name characters above `tokenizer.limit_alphabet`", rate * 100.0)
        });
        let named: Vec<String> =
            self.special_tokens.iter().map(|(token, count)| format!("{count} `{token}`")).collect();
        let special = (!named.is_empty()).then(|| {
            format!("the text spells special tokens, which become their ids and are never masked: {}; remove them from the text unless they are meant", named.join(", "))
        });
        unmeasured.into_iter().chain(unknown).chain(special).collect()
    }
}
