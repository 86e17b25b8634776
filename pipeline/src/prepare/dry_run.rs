//! State of a dry run: a store in memory for what is discarded, and the counts for the estimate.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use schemas::PartId;
use schemas::manifest::CorpusReport;
use store::{FaultConfig, Store};

use super::config::PrepareConfig;
use super::estimate::{CorpusEstimate, SegmentSample};
use crate::pack::Packed;
use crate::shard::{ShardOptions, ShardWriter};
use crate::{Error, Result};

/// Share of `prepare.max_memory_bytes` for signatures.
const SIGNATURES_SHARE: u64 = 4;

/// State of a dry run.
pub(super) struct DryRun {
    /// Store of signatures, verdicts and the first rows of shards.
    pub(super) scratch: Store,
    signature_bytes: AtomicU64,
    max_signature_bytes: u64,
    /// Counts by part and segment.
    samples: Mutex<BTreeMap<(PartId, u32), SegmentSample>>,
}

impl DryRun {
    pub(super) fn new(config: &PrepareConfig) -> Self {
        Self {
            scratch: Store::in_memory(FaultConfig::none()),
            signature_bytes: AtomicU64::new(0),
            max_signature_bytes: config.max_memory_bytes / SIGNATURES_SHARE,
            samples: Mutex::default(),
        }
    }

    /// Counts a signature of that size, which stays in memory.
    ///
    /// # Errors
    /// If all signatures need too much memory.
    pub(super) fn count_signature(&self, bytes: u64) -> Result<()> {
        let most = self.max_signature_bytes;
        if self.signature_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes <= most {
            return Ok(());
        }
        Err(Error::Config(format!(
            "the comparison of the sampled documents needs more than {most} bytes of memory, a quarter of \
             `prepare.max_memory_bytes`; lower `--sample`, or raise the key"
        )))
    }

    /// Adds the counts of a segment.
    pub(super) fn add(&self, part: PartId, segment: u32, sample: SegmentSample) {
        self.samples.lock().unwrap_or_else(PoisonError::into_inner).insert((part, segment), sample);
    }

    /// Returns the estimate for the whole corpus. `options` are those of shards.
    pub(super) fn estimate(
        &self,
        report: &CorpusReport,
        config: &PrepareConfig,
        options: ShardOptions,
    ) -> Result<CorpusEstimate> {
        let samples = self.samples.lock().unwrap_or_else(PoisonError::into_inner);
        let segments: Vec<SegmentSample> = samples.values().copied().collect();
        let mut parts = BTreeMap::<PartId, SegmentSample>::new();
        for ((part, _), segment) in &*samples {
            parts.entry(*part).or_default().add_text(segment);
        }
        let parts: Vec<SegmentSample> = parts.into_values().collect();
        Ok(CorpusEstimate::new(&segments, &parts, report, config, self.shard_overhead(options)?))
    }

    /// Returns the size of a shard with one row.
    fn shard_overhead(&self, options: ShardOptions) -> Result<u64> {
        let mut writer = ShardWriter::new(&self.scratch, options);
        writer.write(Packed {
            input_ids: &[0],
            document_starts: &[0],
            documents: &[0],
            sentence_starts: &[],
            targets: &[],
            source: 0,
        })?;
        Ok(writer.finish()?.iter().map(|shard| shard.bytes).sum())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_in_memory_are_bounded() {
        let config = PrepareConfig { max_memory_bytes: 400, ..PrepareConfig::default() };
        let dry_run = DryRun::new(&config);
        dry_run.count_signature(60).expect("60 of 100 bytes");
        dry_run.count_signature(40).expect("100 of 100 bytes");
        let error = dry_run.count_signature(1).expect_err("one too many").to_string();
        assert!(error.contains("more than 100 bytes") && error.contains("lower `--sample`"), "{error}");
    }
}
