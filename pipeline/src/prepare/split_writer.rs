//! Writer of one split, and the document that is being packed into it.

use schemas::Shard;
use schemas::manifest::PackReport;
use store::ObjectWriter;

use super::progress::{Stage, Stopwatch};
use crate::Result;
use crate::pack::{Packed, Packer};
use crate::shard::ShardWriter;

/// Open sample and the shards before it.
pub(super) struct SplitWriter {
    packer: Packer,
    writer: Option<ShardWriter>,
    first_row: u32,
    rows: u64,
}

/// Result of packing a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedDocument {
    /// First row of the document, among the part's rows of its split.
    pub(super) row: u64,
    pub(super) tokens: u64,
    /// Number of its tokens that are the unknown token.
    pub(super) unknown: u64,
}

/// Output of a finished split.
#[derive(Debug)]
pub(super) struct FinishedSplit {
    pub(super) shards: Vec<Shard>,
    /// Object of the last shard, which is not committed.
    pub(super) last: Option<ObjectWriter>,
    /// Number of samples.
    pub(super) rows: u64,
    pub(super) report: PackReport,
}

/// Document whose tokens follow.
pub(super) struct OpenDocument<'a> {
    split: &'a mut SplitWriter,
    stopwatch: &'a Stopwatch,
    unknown_id: u32,
    counts: Option<&'a mut [u64]>,
    tokens: u64,
    unknown: u64,
}

impl SplitWriter {
    /// Creates a writer that starts after `first_row` rows. Without a shard writer, samples are only counted.
    pub(super) fn new(packer: Packer, writer: Option<ShardWriter>, first_row: u32) -> Self {
        Self { packer, writer, first_row, rows: 0 }
    }

    pub(super) fn first_row(&self) -> u32 {
        self.first_row
    }

    /// Begins a document with that name and source. `counts` receives the counts of its ids, if given.
    pub(super) fn begin<'a>(
        &'a mut self,
        hash: u64,
        source: u16,
        watch: &'a Stopwatch,
        unknown_id: Option<u32>,
        counts: Option<&'a mut [u64]>,
    ) -> OpenDocument<'a> {
        self.packer.begin(hash, source);
        // Without an unknown token, use an id that no token has.
        let unknown_id = unknown_id.unwrap_or(u32::MAX);
        OpenDocument { split: self, stopwatch: watch, unknown_id, counts, tokens: 0, unknown: 0 }
    }

    /// Ends the open sample and the last shard.
    pub(super) fn finish(self) -> Result<FinishedSplit> {
        let Self { packer, mut writer, mut rows, .. } = self;
        let report = packer.finish(&mut |sample| {
            rows += 1;
            writer.as_mut().map_or(Ok(()), |writer| writer.write(sample))
        })?;
        let (shards, last) = writer.map_or(Ok((Vec::new(), None)), ShardWriter::finish_uncommitted)?;
        Ok(FinishedSplit { shards, last, rows, report })
    }
}

impl OpenDocument<'_> {
    /// Packs some of its tokens. If sentences are kept, these are the tokens of one sentence.
    pub(super) fn append(&mut self, ids: &[u32]) -> Result<()> {
        self.tokens += ids.len() as u64;
        self.unknown += ids.iter().filter(|&&id| id == self.unknown_id).count() as u64;
        if let Some(counts) = self.counts.as_deref_mut() {
            for &id in ids {
                counts[id as usize] += 1;
            }
        }
        let SplitWriter { packer, writer, rows, .. } = &mut *self.split;
        packer.extend(ids, &mut |sample| put(writer, rows, self.stopwatch, sample))
    }

    /// Ends the document.
    pub(super) fn end(self) -> Result<PackedDocument> {
        let Self { split: side, stopwatch: watch, tokens, unknown, .. } = self;
        let SplitWriter { packer, writer, first_row, rows } = side;
        let row = u64::from(*first_row) + packer.began();
        packer.end(&mut |sample| put(writer, rows, watch, sample))?;
        Ok(PackedDocument { row, tokens, unknown })
    }
}

fn put(writer: &mut Option<ShardWriter>, rows: &mut u64, watch: &Stopwatch, sample: Packed<'_>) -> Result<()> {
    *rows += 1;
    writer.as_mut().map_or(Ok(()), |writer| watch.during(Stage::Write, || writer.write(sample)))
}
