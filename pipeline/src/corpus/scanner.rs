//! Bytes of a range of a file, in a buffer that grows until a whole record is in it.

use std::io::BufRead as _;
use std::ops::Range;
use std::path::PathBuf;

use super::bytes::{Bytes, ReadHash, open, read_error, require_skippable, reserve};
use super::input_split::{PieceEnd, ReadOptions};
use super::inputs::InputFile;
use super::lines::BYTE_ORDER_MARK;
use super::record::{KEPT_BYTES, count_newlines};
use crate::{Error, Result};

#[cfg(test)]
thread_local! {
    /// Bytes in which readers of this thread have searched the ends of records.
    pub(super) static SEARCHED_BYTES: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

/// Counts bytes in which the end of a record was searched, to test the cost of hostile files.
pub(super) fn count_searched(bytes: usize) {
    #[cfg(test)]
    SEARCHED_BYTES.set(SEARCHED_BYTES.get() + bytes);
    #[cfg(not(test))]
    let _ = bytes;
}

/// Scanner of a file range: records are searched in [`ahead`](Self::ahead), and [taken](Self::take) when they are
/// complete.
pub(super) struct ByteScanner {
    bytes: Bytes,
    path: PathBuf,
    reading: ReadOptions,
    buffer: Vec<u8>,
    /// Bytes of the buffer that are already taken.
    taken: usize,
    offset: u64,
    lines: u64,
    read: ReadHash,
}

impl ByteScanner {
    pub(super) fn open(file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Self> {
        Ok(Self {
            bytes: open(file, range, reading)?,
            path: file.path.clone(),
            reading: reading.clone(),
            buffer: Vec::new(),
            taken: 0,
            offset: range.start,
            lines: 0,
            read: ReadHash::default(),
        })
    }

    /// Returns the bytes that were read and are not taken.
    pub(super) fn ahead(&self) -> &[u8] {
        &self.buffer[self.taken..]
    }

    /// Reads more bytes into [`ahead`](Self::ahead). Returns false at the end.
    pub(super) fn more(&mut self) -> Result<bool> {
        let ready = self.bytes.fill_buf().map_err(|error| read_error(&self.path, &error))?;
        // Each byte is moved at most once, however small the records are.
        if self.taken > self.buffer.len() / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
        }
        self.buffer.extend_from_slice(ready);
        let count = ready.len();
        self.bytes.consume(count);
        Ok(count > 0)
    }

    /// Reads until `count` bytes are ahead. Returns false if the file ends before.
    pub(super) fn has(&mut self, count: usize) -> Result<bool> {
        while self.ahead().len() < count {
            if !self.more()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Takes bytes that are ahead: they are hashed, and their lines counted.
    pub(super) fn take(&mut self, count: usize) {
        let bytes = &self.buffer[self.taken..self.taken + count];
        self.read.push(bytes);
        self.lines += count_newlines(bytes);
        self.offset += count as u64;
        self.taken += count;
    }

    /// Takes bytes while they are of a kind. Returns the first other one, which is not taken; `None` at the end.
    pub(super) fn take_while(&mut self, is_taken: impl Fn(u8) -> bool) -> Result<Option<u8>> {
        loop {
            if let Some(at) = self.ahead().iter().position(|&byte| !is_taken(byte)) {
                self.take(at);
                return Ok(self.ahead().first().copied());
            }
            self.take(self.ahead().len());
            if !self.more()? {
                return Ok(None);
            }
        }
    }

    /// Takes a byte-order mark, if one is next.
    pub(super) fn take_byte_order_mark(&mut self) -> Result<()> {
        if self.has(BYTE_ORDER_MARK.len())? && self.ahead().starts_with(BYTE_ORDER_MARK) {
            self.take(BYTE_ORDER_MARK.len());
        }
        Ok(())
    }

    /// Takes up to `count` bytes and holds none of them. Returns false if the file ends before.
    pub(super) fn pass(&mut self, mut count: u64) -> Result<bool> {
        loop {
            let ready = usize::try_from(count).unwrap_or(usize::MAX).min(self.ahead().len());
            self.take(ready);
            count -= ready as u64;
            if count == 0 {
                return Ok(true);
            }
            if !self.more()? {
                return Ok(false);
            }
        }
    }

    /// Takes all bytes before the next `mark` and holds none of them. Returns false if there is none: all bytes up to the
    /// end are taken then.
    pub(super) fn pass_to(&mut self, mark: &[u8]) -> Result<bool> {
        let finder = memchr::memmem::Finder::new(mark);
        loop {
            if let Some(at) = finder.find(self.ahead()) {
                self.take(at);
                return Ok(true);
            }
            // A mark may begin in the last bytes.
            self.take(self.ahead().len().saturating_sub(mark.len() - 1));
            if !self.more()? {
                self.take(self.ahead().len());
                return Ok(false);
            }
        }
    }

    /// Position of the next byte to be taken.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// Line of the next byte to be taken, 0-based, within the piece.
    pub(super) fn line(&self) -> u64 {
        self.lines
    }

    /// Reserves memory for a document of `bytes` bytes so far. Returns false if it does not fit.
    pub(super) fn reserve(&self, bytes: usize) -> bool {
        reserve(bytes as u64, &self.reading)
    }

    /// Fails if a document of `bytes` bytes that begins at that line must not be skipped.
    pub(super) fn require_skippable(&self, line: u64, bytes: u64) -> Result<()> {
        require_skippable(&self.path, line, bytes, &self.reading)
    }

    /// Releases the memory of the previous document.
    pub(super) fn release(&mut self) {
        if self.buffer.capacity() > KEPT_BYTES && self.ahead().len() <= KEPT_BYTES / 2 {
            self.buffer.drain(..self.taken);
            self.taken = 0;
            self.buffer.shrink_to(KEPT_BYTES);
        }
        self.reading.memory_budget.release();
    }

    /// Takes all bytes up to the offset `to`.
    pub(super) fn skip(&mut self, to: u64) -> Result<()> {
        if self.pass(to.saturating_sub(self.offset))? {
            return Ok(());
        }
        let message = format!("it ends before byte {to}, which an earlier process has read: it changed in between");
        Err(Error::Corpus { path: self.path.clone(), line: None, message })
    }

    pub(super) fn reached(&self) -> PieceEnd {
        PieceEnd { to: self.offset, lines: self.lines, blake3: self.read.hex() }
    }
}
