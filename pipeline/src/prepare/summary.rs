//! What a run found and did.

use std::time::Duration;

use runtime::WorkerStats;
use schemas::DatasetVersion;
use schemas::manifest::CorpusReport;
use telemetry::preparation::{PrepareEnd, SplitFigures, StageSeconds};

use super::change::DatasetChange;
use super::progress::Stages;

/// A share of unknown tokens above which the tokenizer does not fit the corpus.
const UNKNOWN_RATE_MAX: f64 = 0.05;

/// What a run found and did.
#[derive(Clone, Debug, PartialEq)]
pub struct PrepareSummary {
    /// The newest dataset version.
    pub dataset_version: DatasetVersion,
    /// What had changed since the one before, if this run began it.
    pub change: Option<DatasetChange>,
    /// How documents became samples.
    pub pack: &'static str,
    /// Documents, words, tokens, what packing cut, and rejected lines by reason: of what is in effect.
    pub corpus: CorpusReport,
    /// Lines or documents looked at.
    pub lines: u64,
    /// Parts made by this run.
    pub parts_made: u64,
    /// Parts that were there already.
    pub parts_skipped: u64,
    /// Whether nothing at all was left to do.
    pub nothing_to_do: bool,
    /// Bytes of input files that were read, to make parts or to see that they are what they were.
    pub bytes_read: u64,
    /// Bytes of text tokenized by this run.
    pub text_bytes_made: u64,
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
    /// Busy time by stage, summed over the workers.
    pub stages: Stages,
    /// Where the time of each worker went.
    pub workers: Vec<WorkerStats>,
    /// The same of whoever takes what the workers make.
    pub fold: WorkerStats,
    /// Wall time.
    pub elapsed: Duration,
}

impl PrepareSummary {
    /// What is said of it.
    pub(super) fn end(&self, place: String) -> PrepareEnd {
        let (corpus, packing, stages) = (&self.corpus, &self.corpus.packing, &self.stages);
        let split = |(samples, tokens)| SplitFigures { samples, tokens };
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
            rejected: corpus.rejected.clone(),
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

    /// What the operator should know: a sentence each.
    fn warnings(&self) -> Vec<String> {
        let unmeasured = (self.valid.0 == 0).then(|| {
            "no document fell into the validation split; raise `prepare.valid_fraction` to validate".to_owned()
        });
        let rate = self.corpus.unknown as f64 / self.corpus.tokens.max(1) as f64;
        let unknown = (rate > UNKNOWN_RATE_MAX).then(|| {
            format!("{:.1} % of the tokens are unknown; the tokenizer does not fit this corpus: check `lowercase` and the language, or train one with `cloze tokenizer train`", rate * 100.0)
        });
        unmeasured.into_iter().chain(unknown).collect()
    }
}
