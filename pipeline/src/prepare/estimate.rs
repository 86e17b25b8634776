//! Estimate for a whole corpus from a sample of its documents, in a dry run.
//!
//! # What
//! Scales documents, tokens, rows, shards and bytes of a sample to the corpus.
//!
//! # Why
//! A dry run reads all lines, and filters, compares and tokenizes a sample only.
//!
//! # Definition
//! A dry run reads every document, so the documents and the bytes of text before the filters are known for the corpus and for
//! the sample. Documents are scaled by the ratio of documents; tokens, rows and bytes by that of text, because long
//! documents have more of them. The last row of a part counts with the part that it fills. Shards follow from the parts,
//! whose text is known. Bytes are those of the first rows of each part, which are encoded.
//!
//! If the sample has all documents, documents, tokens, rows and shards are exact.

use schemas::manifest::CorpusReport;

use super::config::PrepareConfig;
use super::split_writer::FinishedSplit;
use crate::shard::writer::ROWS_PER_SHARD;

/// Sample of one split of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SplitSample {
    /// Samples.
    pub(super) rows: u64,
    /// Samples that were complete before the end of the segment.
    pub(super) full_rows: u64,
    /// Content tokens of the sample that was open at the end of the segment.
    pub(super) open_tokens: u64,
    /// Content tokens of all samples.
    pub(super) tokens: u64,
    /// Content tokens of the samples that were encoded.
    pub(super) encoded_tokens: u64,
    /// Bytes of a shard with these samples.
    pub(super) encoded_bytes: u64,
}

/// Text of a segment, before the filters, and what became of its sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct SegmentSample {
    pub(super) documents: u64,
    pub(super) text_bytes: u64,
    pub(super) sampled_documents: u64,
    pub(super) sampled_bytes: u64,
    pub(super) splits: [SplitSample; 2],
}

impl SegmentSample {
    /// Adds the counts of text of another segment of the same part.
    pub(super) fn add_text(&mut self, other: &Self) {
        self.documents += other.documents;
        self.text_bytes += other.text_bytes;
    }

    /// Counts a document.
    pub(super) fn add(&mut self, text: &str, is_sampled: bool) {
        let bytes = text.len() as u64;
        self.documents += 1;
        self.text_bytes += bytes;
        self.sampled_documents += u64::from(is_sampled);
        self.sampled_bytes += if is_sampled { bytes } else { 0 };
    }
}

/// Estimate for a whole corpus.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct CorpusEstimate {
    /// Documents of the corpus before the filters.
    pub read_documents: u64,
    /// Bytes of their text.
    pub read_text_bytes: u64,
    /// Documents of the sample before the filters.
    pub sampled_documents: u64,
    /// Bytes of their text.
    pub sampled_text_bytes: u64,
    /// Documents that the whole corpus keeps.
    pub documents: f64,
    /// Tokens of these documents, without separators.
    pub tokens: f64,
    /// Samples of both splits.
    pub rows: f64,
    /// Shards of both splits.
    pub shards: f64,
    /// Bytes of all shards.
    pub shard_bytes: f64,
    /// Whether the bytes are those of all rows, not of the first ones.
    pub has_all_bytes: bool,
}

impl CorpusEstimate {
    /// Whether the sample has all documents.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        self.sampled_documents == self.read_documents
    }

    /// Computes the estimate from the segments, and from the sums of the segments of each part. `overhead` is the size of a
    /// shard with one row.
    pub(super) fn new(
        segments: &[SegmentSample],
        parts: &[SegmentSample],
        report: &CorpusReport,
        config: &PrepareConfig,
        overhead: u64,
    ) -> Self {
        let sum = |count: fn(&SegmentSample) -> u64| segments.iter().map(count).sum::<u64>();
        let mut estimate = Self {
            read_documents: sum(|segment| segment.documents),
            read_text_bytes: sum(|segment| segment.text_bytes),
            sampled_documents: sum(|segment| segment.sampled_documents),
            sampled_text_bytes: sum(|segment| segment.sampled_bytes),
            ..Self::default()
        };
        let of_documents = ratio(estimate.read_documents, estimate.sampled_documents);
        let of_text = ratio(estimate.read_text_bytes, estimate.sampled_text_bytes);
        let splits = segments.iter().flat_map(|segment| segment.splits);
        let sums = splits.fold(SplitSample::default(), |sum, split| sum.plus(&split));
        estimate.documents = report.documents as f64 * of_documents;
        estimate.tokens = report.tokens as f64 * of_text;
        if estimate.is_whole() {
            estimate.rows = sums.rows as f64;
            estimate.shards = segments.iter().flat_map(|segment| segment.splits).map(SplitSample::shards).sum();
        } else {
            let content = f64::from(config.packing.content(config.max_seq_len).max(1));
            estimate.rows = (sums.full_rows as f64 + sums.open_tokens as f64 / content) * of_text;
            let kept = ratio(report.documents, estimate.sampled_documents);
            let rows = ratio(1, estimate.read_text_bytes) * estimate.rows;
            estimate.shards = parts.iter().map(|part| part.shards(config, kept, rows)).sum();
        }
        let encoded = segments.iter().flat_map(|segment| segment.splits).filter(|split| split.encoded_tokens > 0);
        let headers = overhead * encoded.count() as u64;
        estimate.has_all_bytes = estimate.is_whole() && sums.encoded_tokens == sums.tokens;
        estimate.shard_bytes = if estimate.has_all_bytes {
            sums.encoded_bytes as f64
        } else {
            let bytes_of_token = ratio(sums.encoded_bytes.saturating_sub(headers), sums.encoded_tokens);
            sums.tokens as f64 * of_text * bytes_of_token + estimate.shards * overhead as f64
        };
        estimate
    }
}

impl SplitSample {
    /// Returns the counts of a finished split, and takes its shards.
    pub(super) fn measure(split: &mut FinishedSplit) -> Self {
        split.last = None;
        let shards = std::mem::take(&mut split.shards);
        Self {
            rows: split.rows,
            full_rows: split.full_rows,
            open_tokens: split.open_tokens,
            tokens: split.tokens,
            encoded_tokens: shards.iter().map(|shard| shard.tokens).sum(),
            encoded_bytes: shards.iter().map(|shard| shard.bytes).sum(),
        }
    }

    fn plus(self, other: &Self) -> Self {
        Self {
            rows: self.rows + other.rows,
            full_rows: self.full_rows + other.full_rows,
            open_tokens: self.open_tokens + other.open_tokens,
            tokens: self.tokens + other.tokens,
            encoded_tokens: self.encoded_tokens + other.encoded_tokens,
            encoded_bytes: self.encoded_bytes + other.encoded_bytes,
        }
    }

    fn shards(self) -> f64 {
        self.rows.div_ceil(ROWS_PER_SHARD) as f64
    }
}

impl SegmentSample {
    /// Expected number of shards of the whole text. `kept` is the share of documents that are kept, `rows_of_byte` the rows
    /// of a byte of text.
    fn shards(&self, config: &PrepareConfig, kept: f64, rows_of_byte: f64) -> f64 {
        let segments = self.text_bytes.div_ceil(config.segment_bytes.max(1)) as f64;
        let documents = self.documents as f64 * kept / segments.max(1.0);
        let rows = self.text_bytes as f64 * rows_of_byte / segments.max(1.0);
        let of_split = |share: f64| {
            // Probability that at least one document belongs to the split.
            let is_there = 1.0 - (1.0 - share).powf(documents);
            is_there * (rows * share / ROWS_PER_SHARD as f64).ceil().max(1.0)
        };
        segments * (of_split(1.0 - config.valid_fraction) + of_split(config.valid_fraction))
    }
}

/// Returns the quotient of two counts, 0 of nothing.
fn ratio(number: u64, of: u64) -> f64 {
    number as f64 / of.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn is(value: f64, expected: f64) {
        assert!((value - expected).abs() < 1e-9, "{value}, not {expected}");
    }

    fn estimate(segments: &[SegmentSample], report: &CorpusReport, valid_fraction: f64) -> CorpusEstimate {
        // Rows of 100 tokens.
        let config =
            PrepareConfig { max_seq_len: 102, segment_bytes: 4000, valid_fraction, ..PrepareConfig::default() };
        CorpusEstimate::new(segments, segments, report, &config, 400)
    }

    #[test]
    fn a_sample_is_scaled_by_documents_and_by_text() {
        let train = SplitSample {
            rows: 3,
            full_rows: 2,
            open_tokens: 50,
            tokens: 250,
            encoded_tokens: 200,
            encoded_bytes: 1000,
        };
        let one = SegmentSample {
            documents: 100,
            text_bytes: 9000,
            sampled_documents: 20,
            sampled_bytes: 900,
            splits: [train, SplitSample::default()],
        };
        let other = SegmentSample { documents: 100, text_bytes: 1000, ..SegmentSample::default() };
        let report = CorpusReport { documents: 16, tokens: 240, ..CorpusReport::default() };
        let found = estimate(&[one, other], &report, 0.0);
        assert_eq!((found.read_documents, found.read_text_bytes), (200, 10_000));
        assert_eq!((found.sampled_documents, found.sampled_text_bytes), (20, 900));
        assert!(!found.is_whole());
        let scale = 10_000.0 / 900.0;
        is(found.documents, 160.0);
        is(found.tokens, 240.0 * scale);
        is(found.rows, 2.5 * scale);
        // Three segments of at most 4000 bytes in the first part, one in the second.
        is(found.shards, 4.0);
        // 600 bytes for 200 tokens, and the headers of four shards.
        is(found.shard_bytes, 250.0 * scale * 3.0 + 4.0 * 400.0);
        // Half of the documents are in each split: 27 of each segment of the first part.
        let both = estimate(&[one, other], &report, 0.5).shards;
        is(both, 6.0 * (1.0 - 0.5_f64.powf(80.0 / 3.0)) + 2.0 * (1.0 - 0.5_f64.powf(80.0)));
    }

    #[test]
    fn a_whole_sample_is_counted() {
        let split = |rows, encoded_bytes| SplitSample {
            rows,
            tokens: rows * 90,
            encoded_tokens: rows * 90,
            encoded_bytes,
            ..SplitSample::default()
        };
        let segment = SegmentSample {
            documents: 7,
            text_bytes: 50,
            sampled_documents: 7,
            sampled_bytes: 50,
            splits: [split(ROWS_PER_SHARD + 1, 5000), split(1, 600)],
        };
        let report = CorpusReport { documents: 7, tokens: 9, ..CorpusReport::default() };
        let found = estimate(&[segment], &report, 0.5);
        let rows = ROWS_PER_SHARD as f64 + 2.0;
        is(found.documents, 7.0);
        is(found.tokens, 9.0);
        is(found.rows, rows);
        is(found.shards, 3.0);
        is(found.shard_bytes, 5600.0);
    }
}
