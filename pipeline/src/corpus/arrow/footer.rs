//! Places of the record batches of an Arrow file, from its footer.

use std::ops::Range;

use arrow_ipc::root_as_footer;
use runtime::catch_decoder;

use super::messages::{MAGIC, damaged};
use crate::Result;
use crate::corpus::bytes::{open, read_error, read_whole};
use crate::corpus::compression::Compression;
use crate::corpus::input_split::ReadOptions;
use crate::corpus::inputs::InputFile;

/// Maximum bytes of a footer.
const MAX_FOOTER_BYTES: u64 = 256 << 20;

/// Byte ranges of the messages in a plain Arrow file.
pub(super) struct FooterBlocks {
    pub(super) batches: Vec<Range<u64>>,
    dictionaries: Vec<Range<u64>>,
    /// Beginning of the footer.
    footer: u64,
}

impl FooterBlocks {
    /// Reads the footer; `None` for a stream, and for a file that is compressed as a whole.
    pub(super) fn read(file: &InputFile, reading: &ReadOptions) -> Result<Option<Self>> {
        if Compression::from_path(&file.path) != Compression::Plain {
            return Ok(None);
        }
        let uncounted = reading.uncounted();
        let mut beginning = open(file, &(0..file.bytes.min(8)), &uncounted)?;
        let ready = beginning.fill_buf().map_err(|error| read_error(&file.path, &error))?;
        if !ready.starts_with(MAGIC) {
            return Ok(None);
        }
        let bytes = |range: Range<u64>| read_whole(file, &range, &uncounted, |_| Ok(()));
        let no_footer = || damaged(file, &"it has no footer: it is truncated, or its writer was not closed");
        let end = file.bytes.checked_sub(10).filter(|&end| end >= 8).ok_or_else(no_footer)?;
        let tail = bytes(end..file.bytes)?;
        let length = tail.get(..4).and_then(|length| length.try_into().ok()).map(i32::from_le_bytes);
        let length = length.and_then(|length| u64::try_from(length).ok()).filter(|_| tail[4..] == *MAGIC);
        let length = length.filter(|&length| length <= end - 8 && length <= MAX_FOOTER_BYTES).ok_or_else(no_footer)?;
        let footer = end - length;
        let blocks = Self::parse(&bytes(footer..end)?, footer);
        blocks.map(Some).ok_or_else(|| damaged(file, &"its footer names places that are not in the file"))
    }

    fn parse(bytes: &[u8], footer: u64) -> Option<Self> {
        let parsed = catch_decoder(|| root_as_footer(bytes));
        let parsed = parsed.ok()?;
        let range = |block: &arrow_ipc::Block| {
            let start = u64::try_from(block.offset()).ok()?;
            let metadata = u64::try_from(block.metaDataLength()).ok()?;
            let end = start.checked_add(metadata)?.checked_add(u64::try_from(block.bodyLength()).ok()?)?;
            (start >= 8 && start < end && end <= footer).then_some(start..end)
        };
        let batches: Vec<_> = parsed.recordBatches().into_iter().flatten().map(range).collect::<Option<_>>()?;
        let dictionaries = parsed.dictionaries().into_iter().flatten().map(range).collect::<Option<_>>()?;
        let ascend = batches.windows(2).all(|pair| pair[0].end <= pair[1].start);
        ascend.then_some(Self { batches, dictionaries, footer })
    }

    /// Whether all dictionaries are before the first batch.
    pub(super) fn can_be_cut(&self) -> bool {
        self.dictionaries.iter().all(|block| block.end <= self.head_end())
    }

    /// End of the schema and of the dictionaries before the first batch.
    pub(super) fn head_end(&self) -> u64 {
        self.batches.first().map_or(self.footer, |block| block.start)
    }

    /// Returns the bytes of these batches.
    pub(super) fn bytes_of(&self, file: &InputFile, range: &Range<u64>) -> Result<Range<u64>> {
        let index = |number: u64| usize::try_from(number).ok();
        let batches = index(range.start).zip(index(range.end)).and_then(|(start, end)| self.batches.get(start..end));
        let batches = batches.ok_or_else(|| damaged(file, &"it has fewer record batches than it had"))?;
        Ok(match batches {
            [] => 0..0,
            [first, .., last] => first.start..last.end,
            [only] => only.clone(),
        })
    }
}
