//! Writer of one side of the split, and the document that is being packed on it.

use schemas::Shard;
use schemas::manifest::PackReport;

use super::progress::{Stage, Stopwatch};
use crate::Result;
use crate::pack::{Packed, Packer};
use crate::shard::ShardWriter;

/// An open sample, and the shards before it.
pub(super) struct SplitWriter {
    packer: Packer,
    writer: Option<ShardWriter>,
    first_row: u32,
    rows: u64,
}

/// What a document came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PackedDocument {
    /// The row in which it begins, among the part's rows of its side.
    pub(super) row: u64,
    pub(super) tokens: u64,
    /// How many of them stand for what the tokenizer does not know.
    pub(super) unknown: u64,
}

/// A document whose tokens follow.
pub(super) struct OpenDocument<'a> {
    side: &'a mut SplitWriter,
    watch: &'a Stopwatch,
    unknown_id: u32,
    counts: Option<&'a mut [u64]>,
    tokens: u64,
    unknown: u64,
}

impl SplitWriter {
    /// One behind so many rows. Without a writer samples are only counted.
    pub(super) fn new(packer: Packer, writer: Option<ShardWriter>, first_row: u32) -> Self {
        Self { packer, writer, first_row, rows: 0 }
    }

    pub(super) fn first_row(&self) -> u32 {
        self.first_row
    }

    /// Begins a document of that name and source. `counts` are those of ids, where they are asked for.
    pub(super) fn begin<'a>(
        &'a mut self,
        (hash, source): (u64, u16),
        watch: &'a Stopwatch,
        unknown_id: Option<u32>,
        counts: Option<&'a mut [u64]>,
    ) -> OpenDocument<'a> {
        self.packer.begin(hash, source);
        // No token has the id that stands for none.
        let unknown_id = unknown_id.unwrap_or(u32::MAX);
        OpenDocument { side: self, watch, unknown_id, counts, tokens: 0, unknown: 0 }
    }

    /// Ends the open sample and the last shard. Returns the shards, the samples handed over and what packing cut.
    pub(super) fn finish(self) -> Result<(Vec<Shard>, u64, PackReport)> {
        let Self { packer, mut writer, mut rows, .. } = self;
        let report = packer.finish(&mut |sample| {
            rows += 1;
            writer.as_mut().map_or(Ok(()), |writer| writer.write(sample))
        })?;
        Ok((writer.map_or(Ok(Vec::new()), ShardWriter::finish)?, rows, report))
    }
}

impl OpenDocument<'_> {
    /// Packs some of its tokens; of one whose sentences are kept, those of one sentence.
    pub(super) fn take(&mut self, ids: &[u32]) -> Result<()> {
        self.tokens += ids.len() as u64;
        self.unknown += ids.iter().filter(|&&id| id == self.unknown_id).count() as u64;
        if let Some(counts) = self.counts.as_deref_mut() {
            for &id in ids {
                counts[id as usize] += 1;
            }
        }
        let SplitWriter { packer, writer, rows, .. } = &mut *self.side;
        packer.extend(ids, &mut |sample| put(writer, rows, self.watch, sample))
    }

    /// Ends it.
    pub(super) fn end(self) -> Result<PackedDocument> {
        let Self { side, watch, tokens, unknown, .. } = self;
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
