//! An object on its way into a store.

use std::io::{self, Write};

use crate::backend::{Stat, Upload};
use crate::error::at;
use crate::retry::{After, Retries};

/// Bytes that are gathered before they are handed on: one system call per quarter of a megabyte.
const BUFFER_BYTES: usize = 1 << 18;

/// A streamed put: visible under its name only after [`commit`](ObjectWriter::commit).
///
/// Dropped without commit, it leaves nothing. `flush` promises nothing: only a commit does.
#[derive(Debug)]
pub struct ObjectWriter {
    upload: Box<dyn Upload>,
    place: String,
    retries: Retries,
    buffer: Vec<u8>,
    /// What the upload has.
    offset: u64,
    failed: bool,
}

impl ObjectWriter {
    pub(crate) fn new(upload: Box<dyn Upload>, place: String, retries: Retries) -> Self {
        Self { upload, place, retries, buffer: Vec::new(), offset: 0, failed: false }
    }

    /// Makes the object durable, then visible.
    pub fn commit(mut self) -> io::Result<Stat> {
        self.hand_on()?;
        let Self { upload, place, retries, .. } = &mut self;
        retries.until_answered(After::Passing, |_| upload.commit()).map_err(|error| at(place, &error))
    }

    /// Hands the buffer on. Nobody may commit what lost a piece.
    fn hand_on(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(at(&self.place, &io::Error::other("an earlier write failed, so there is nothing to commit")));
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Self { upload, buffer, offset, retries, .. } = self;
        let outcome = retries.until_answered(After::Passing, |_| upload.write_at(*offset, buffer));
        self.failed = outcome.is_err();
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        outcome.map_err(|error| at(&self.place, &error))
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.hand_on()?;
        }
        let count = bytes.len().min(BUFFER_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
