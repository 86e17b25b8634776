//! Writer of a streamed object.

use std::io::{self, Write};

use crate::backend::{Stat, Upload};
use crate::error::with_place;
use crate::retry::{Retries, RetryOn};

/// Buffer size: one system call per quarter of a megabyte.
const BUFFER_BYTES: usize = 1 << 18;

/// Streamed put: visible under its name only after [`commit`](Self::commit).
///
/// Dropped without a commit, it leaves nothing. `flush` gives no guarantee: only a commit does.
#[derive(Debug)]
pub struct ObjectWriter {
    upload: Box<dyn Upload>,
    place: String,
    retries: Retries,
    buffer: Vec<u8>,
    /// Bytes that the upload has received.
    offset: u64,
    failed: bool,
}

impl ObjectWriter {
    pub(crate) fn new(upload: Box<dyn Upload>, place: String, retries: Retries) -> Self {
        Self { upload, place, retries, buffer: Vec::new(), offset: 0, failed: false }
    }

    /// Returns the number of bytes written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.offset + self.buffer.len() as u64
    }

    /// Makes the object durable, then visible.
    pub fn commit(mut self) -> io::Result<Stat> {
        self.send_buffer()?;
        let Self { upload, place, retries, .. } = &mut self;
        retries.retry_request(RetryOn::Transient, |_| upload.commit()).map_err(|error| with_place(place, &error))
    }

    /// Passes the buffer to the upload. After an error the object cannot be committed, because a piece is missing.
    fn send_buffer(&mut self) -> io::Result<()> {
        if self.failed {
            return Err(with_place(
                &self.place,
                &io::Error::other("an earlier write failed, so there is nothing to commit"),
            ));
        }
        if self.buffer.is_empty() {
            return Ok(());
        }
        let Self { upload, buffer, offset, retries, .. } = self;
        let outcome = retries.retry_request(RetryOn::Transient, |_| upload.write_at(*offset, buffer));
        self.failed = outcome.is_err();
        self.offset += self.buffer.len() as u64;
        self.buffer.clear();
        outcome.map_err(|error| with_place(&self.place, &error))
    }
}

impl Write for ObjectWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.buffer.len() >= BUFFER_BYTES {
            self.send_buffer()?;
        }
        let count = bytes.len().min(BUFFER_BYTES - self.buffer.len());
        self.buffer.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
