//! Page sizes of a column chunk from the page headers, to know the memory for decoding before decoding.
//!
//! A page is decompressed as a whole, and its header contains the decompressed size. Headers are structs of Thrift's
//! compact protocol. Only the first three fields matter (`type`, `uncompressed_page_size`, `compressed_page_size`); the
//! others are skipped to find the end of the header.

use std::io;
use std::ops::Range;

use super::raw::Raw;

/// Initial and maximum bytes read of a header: statistics may contain whole values.
const HEAD_BYTES: u64 = 256;
const MAX_HEAD_BYTES: u64 = 64 << 20;

/// Maximum nesting depth of structs.
const MAX_DEPTH: u32 = 16;

/// Page sizes of a column chunk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Pages {
    /// Bytes of the largest page, compressed or not.
    pub(super) page_bytes_max: u64,
}

impl Pages {
    /// Reads the headers in that range of a file.
    pub(super) fn read(raw: &Raw, chunk: Range<u64>) -> io::Result<Self> {
        let mut pages = Self::default();
        let mut at = chunk.start;
        while at < chunk.end {
            let header = header(raw, at..chunk.end)?;
            pages.page_bytes_max = pages.page_bytes_max.max(header.decompressed).max(header.compressed);
            at = at.saturating_add(header.length).saturating_add(header.compressed);
        }
        Ok(pages)
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Header {
    length: u64,
    decompressed: u64,
    compressed: u64,
}

fn header(raw: &Raw, range: Range<u64>) -> io::Result<Header> {
    let most = range.end - range.start;
    let mut length = HEAD_BYTES;
    loop {
        let mut bytes = Vec::new();
        raw.each(range.start..range.start + length.min(most), |part| bytes.extend_from_slice(part))?;
        if let Some(header) = parse(&bytes) {
            return Ok(header);
        }
        if length >= most.min(MAX_HEAD_BYTES) {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "a page without a header"));
        }
        length *= 4;
    }
}

/// Parses the header at the beginning of `bytes`; `None` if it is malformed or incomplete.
fn parse(bytes: &[u8]) -> Option<Header> {
    let mut rest = Compact(bytes);
    let mut numbers = [0; 3];
    for number in &mut numbers {
        // Next field, a 32-bit number.
        (rest.byte()? == 0x15).then_some(())?;
        *number = rest.number()?;
    }
    rest.pass_struct(0)?;
    let size = |number: i64| u64::try_from(number).ok();
    let length = (bytes.len() - rest.0.len()) as u64;
    Some(Header { length, decompressed: size(numbers[1])?, compressed: size(numbers[2])? })
}

/// Reader of Thrift's compact protocol.
struct Compact<'a>(&'a [u8]);

impl Compact<'_> {
    fn byte(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    fn skip(&mut self, count: u64) -> Option<()> {
        self.0 = self.0.get(usize::try_from(count).ok()?..)?;
        Some(())
    }

    fn unsigned(&mut self) -> Option<u64> {
        let mut number = 0;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Some(number);
            }
        }
        None
    }

    fn number(&mut self) -> Option<i64> {
        let number = self.unsigned()?;
        Some((number >> 1).cast_signed() ^ -(number & 1).cast_signed())
    }

    /// Skips the remaining fields of a struct and its end.
    fn pass_struct(&mut self, depth: u32) -> Option<()> {
        loop {
            let field = self.byte()?;
            if field == 0 {
                return Some(());
            }
            if field >> 4 == 0 {
                self.number()?;
            }
            // A boolean has its value in the field type, without further bytes.
            if !matches!(field & 0xf, 1 | 2) {
                self.pass_value(field & 0xf, depth)?;
            }
        }
    }

    fn pass_value(&mut self, kind: u8, depth: u32) -> Option<()> {
        match kind {
            1..=3 => self.skip(1),
            4..=6 => self.number().map(drop),
            7 => self.skip(8),
            8 => self.unsigned().and_then(|length| self.skip(length)),
            9 | 10 => {
                let (head, length) = self.byte().map(|byte| (byte & 0xf, u64::from(byte >> 4)))?;
                let length = if length == 15 { self.unsigned()? } else { length };
                (depth < MAX_DEPTH && length <= self.0.len() as u64).then_some(())?;
                (0..length).try_for_each(|_| self.pass_value(head, depth + 1))
            }
            12 if depth < MAX_DEPTH => self.pass_struct(depth + 1),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::corpus::contract::parquet_file;

    #[test]
    fn pages_are_found_from_the_first_to_the_last() {
        use ::parquet::file::reader::{FileReader as _, SerializedFileReader};
        let long = "x".repeat(70_000);
        let texts: Vec<Option<&str>> = (0..40).map(|row| Some(if row == 31 { &long } else { "short" })).collect();
        let bytes = bytes::Bytes::from(parquet_file(&texts, 40));
        let reader = SerializedFileReader::new(bytes.clone()).expect("a file");
        let group = reader.get_row_group(0).expect("a group");
        let mut pages = group.get_column_page_reader(0).expect("a column");
        let mut largest = 0;
        while let Some(page) = pages.get_next_page().expect("readable") {
            largest = largest.max(page.buffer().len() as u64);
        }
        let (start, length) = reader.metadata().row_group(0).column(0).byte_range();
        let found = Pages::read(&Raw::Memory(bytes.clone()), start..start + length).expect("headers");
        assert!(largest > 70_000 && found.page_bytes_max >= largest, "{found:?}, {largest}");
        assert!(found.page_bytes_max < largest + 100, "{found:?}, {largest}");
        Pages::read(&Raw::Memory(bytes), start + 1..start + length).expect_err("not a header");
    }

    #[test]
    fn a_header_that_is_cut_or_absurd_is_none() {
        let header = [0x15, 0, 0x15, 20, 0x15, 8, 0x1c, 0x18, 2, b'a', b'b', 0x11, 0, 0, 9];
        assert_eq!(parse(&header), Some(Header { length: 14, decompressed: 10, compressed: 4 }));
        assert!((0..14).all(|length| parse(&header[..length]).is_none()));
        assert!(parse(&[0x15, 0, 0x15, 19, 0x15, 8, 0]).is_none(), "less than no bytes");
        assert!(parse(&[[0x15, 0, 0x15, 20, 0x15, 8].to_vec(), vec![0x1c; 100]].concat()).is_none(), "too deep");
        assert!(parse(&[0x15, 0, 0x15, 20, 0x15, 8, 0x19, 0xfc, 0xff, 0xff, 0xff, 0xff, 0xff, 0x7f]).is_none());
    }
}
