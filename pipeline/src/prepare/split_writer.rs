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
    first_row: u32,
    output: SplitOutput,
}

/// Completed samples.
struct SplitOutput {
    writer: Option<ShardWriter>,
    /// Number of the first samples that are written.
    max_written_rows: u64,
    rows: u64,
    tokens: u64,
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
    /// Content tokens of all samples.
    pub(super) tokens: u64,
    /// Number of samples that were complete before the end.
    pub(super) full_rows: u64,
    /// Content tokens of the sample that was open at the end.
    pub(super) open_tokens: u64,
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
        Self { packer, first_row, output: SplitOutput { writer, max_written_rows: u64::MAX, rows: 0, tokens: 0 } }
    }

    /// Writes the first samples only, and counts the others.
    #[must_use]
    pub(super) fn writing_at_most(mut self, rows: u64) -> Self {
        self.output.max_written_rows = rows;
        self
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
    pub(super) fn finish(self, watch: &Stopwatch) -> Result<FinishedSplit> {
        let Self { packer, mut output, .. } = self;
        let full_rows = output.rows;
        let open_tokens = packer.open_tokens() as u64;
        let report = packer.finish(&mut |sample| output.put(watch, sample))?;
        let SplitOutput { writer, rows, tokens, .. } = output;
        let (shards, last) = writer.map_or(Ok((Vec::new(), None)), ShardWriter::finish_uncommitted)?;
        Ok(FinishedSplit { shards, last, rows, tokens, full_rows, open_tokens, report })
    }
}

impl SplitOutput {
    fn put(&mut self, watch: &Stopwatch, sample: Packed<'_>) -> Result<()> {
        self.rows += 1;
        self.tokens += sample.input_ids.len() as u64;
        match &mut self.writer {
            Some(writer) if self.rows <= self.max_written_rows => watch.during(Stage::Write, || writer.write(sample)),
            _ => Ok(()),
        }
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
        let SplitWriter { packer, output, .. } = &mut *self.split;
        packer.extend(ids, &mut |sample| output.put(self.stopwatch, sample))
    }

    /// Ends the document.
    pub(super) fn end(self) -> Result<PackedDocument> {
        let Self { split: side, stopwatch: watch, tokens, unknown, .. } = self;
        let SplitWriter { packer, first_row, output } = side;
        let row = u64::from(*first_row) + packer.began();
        packer.end(&mut |sample| output.put(watch, sample))?;
        Ok(PackedDocument { row, tokens, unknown })
    }
}
