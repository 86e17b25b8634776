//! Encapsulated messages of Arrow IPC: metadata and body, with bounded memory.

use std::fmt::Display;
use std::io::{self, Read as _};
use std::ops::Range;

use arrow_buffer::Buffer;
use arrow_ipc::{MessageHeader, RecordBatch, root_as_message};
use arrow_schema::ArrowError;

use crate::corpus::bytes::{Bytes, ReadHash, open, read_error};
use crate::corpus::columns::damage;
use crate::corpus::input_split::ReadOptions;
use crate::corpus::inputs::InputFile;
use crate::corpus::memory_budget::{Reservation, ResourcesExhausted};
use crate::{Error, Result};

/// First bytes of a file, padded to 8 bytes.
pub(super) const MAGIC: &[u8] = b"ARROW1";

/// Maximum bytes of the metadata of a message: of a schema of ten thousands of columns.
const MAX_METADATA_BYTES: u32 = 64 << 20;

/// Maximum words after the first bytes of a file that some writers fill with zeros.
const MAX_PADDING_WORDS: u32 = 16;

/// Message with its body.
pub(super) struct Message {
    metadata: Vec<u8>,
    pub(super) body: Buffer,
}

impl Message {
    pub(super) fn header(&self) -> std::result::Result<arrow_ipc::Message<'_>, ArrowError> {
        root_as_message(&self.metadata).map_err(|error| ArrowError::IpcError(error.to_string()))
    }

    pub(super) fn kind(&self, file: &InputFile) -> Result<MessageHeader> {
        self.header().map(|header| header.header_type()).map_err(|error| damaged(file, &error))
    }

    /// Returns the bytes of its buffers after decompression, as they claim; 0 if they are plain.
    fn decompressed_bytes(&self) -> u64 {
        let Ok(header) = self.header() else { return 0 };
        let dictionary = header.header_as_dictionary_batch().and_then(|dictionary| dictionary.data());
        let batch: Option<RecordBatch<'_>> = header.header_as_record_batch().or(dictionary);
        let Some(buffers) = batch.filter(|batch| batch.compression().is_some()).and_then(|batch| batch.buffers())
        else {
            return 0;
        };
        let claim = |buffer: &arrow_ipc::Buffer| {
            let start = usize::try_from(buffer.offset()).ok()?;
            let length = self.body.get(start..start.checked_add(8)?)?;
            u64::try_from(i64::from_le_bytes(length.try_into().ok()?)).ok()
        };
        buffers.iter().filter_map(claim).fold(0, u64::saturating_add)
    }
}

/// Returns an error for a file that is damaged.
pub(super) fn damaged(file: &InputFile, reason: &dyn Display) -> Error {
    file.unfit_error(damage("Arrow", reason))
}

/// Reader of messages, one after another.
pub(super) struct Messages {
    file: InputFile,
    reading: ReadOptions,
    source: Bytes,
    read: ReadHash,
    /// Memory of the current message, and of the dictionaries.
    hold: Option<Reservation>,
    dictionary_bytes: u64,
    /// Maximum words of zeros before the next message: some writers pad the first bytes of a file.
    padding: u32,
    /// Whether the messages are those of a file, which has a footer after them.
    is_file: bool,
    /// Whether the end mark was read.
    is_finished: bool,
}

impl Messages {
    /// Opens the messages in that range from the beginning of the file on.
    pub(super) fn open(file: &InputFile, range: Range<u64>, reading: &ReadOptions) -> Result<Self> {
        let source = open(file, &range, reading)?;
        let mut messages = Self {
            file: file.clone(),
            reading: reading.clone(),
            source,
            read: ReadHash::default(),
            hold: None,
            dictionary_bytes: 0,
            padding: 0,
            is_file: false,
            is_finished: false,
        };
        messages.pass_magic()?;
        Ok(messages)
    }

    /// Continues with the messages in another range of the file.
    pub(super) fn continue_at(&mut self, range: Range<u64>) -> Result<()> {
        self.source = open(&self.file, &range, &self.reading)?;
        Ok(())
    }

    pub(super) fn file(&self) -> &InputFile {
        &self.file
    }

    /// Whether the messages are those of a stream that ended without its mark.
    pub(super) fn is_unfinished(&self) -> bool {
        !self.is_file && !self.is_finished
    }

    pub(super) fn hash(&self) -> String {
        self.read.hex()
    }

    fn pass_magic(&mut self) -> Result<()> {
        let ready = self.source.fill_buf().map_err(|error| read_error(&self.file.path, &error))?;
        if ready.starts_with(b"FEA1") {
            let fix = "write it again with `pyarrow.feather.write_feather(table, path)`";
            return Err(self.file.unfit_error(format!("a Feather file of version 1, which cannot be read; {fix}")));
        }
        if ready.starts_with(MAGIC) {
            self.exactly(8)?;
            self.padding = MAX_PADDING_WORDS;
            self.is_file = true;
        }
        Ok(())
    }

    /// Reads `length` bytes. Memory grows with the bytes that are there, not with `length`.
    fn exactly(&mut self, length: u64) -> Result<Vec<u8>> {
        let refused = |error: io::Error| read_error(&self.file.path, &error);
        let mut bytes = Vec::new();
        self.source.by_ref().take(length).read_to_end(&mut bytes).map_err(refused)?;
        self.read.push(&bytes);
        if (bytes.len() as u64) < length {
            return Err(damaged(&self.file, &"it is truncated"));
        }
        Ok(bytes)
    }

    /// Reads the metadata of the next message; `None` at the end.
    fn metadata(&mut self) -> Result<Option<Vec<u8>>> {
        let ready = self.source.fill_buf().map_err(|error| read_error(&self.file.path, &error))?;
        if ready.is_empty() {
            return Ok(None);
        }
        let number = |bytes: Vec<u8>| u32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let mut length = number(self.exactly(4)?);
        // Writers before version 0.15 have no such mark.
        if length == u32::MAX {
            length = number(self.exactly(4)?);
        }
        if length == 0 && self.padding > 0 {
            self.padding -= 1;
            return self.metadata();
        }
        self.padding = 0;
        if length == 0 {
            self.is_finished = true;
            return Ok(None);
        }
        if length > MAX_METADATA_BYTES {
            return Err(damaged(&self.file, &"a message begins with other bytes than its length"));
        }
        self.exactly(u64::from(length)).map(Some)
    }

    /// Returns the next message; `None` at the end. The previous one is no longer used.
    pub(super) fn next(&mut self) -> Result<Option<Message>> {
        self.hold = None;
        let Some(metadata) = self.metadata()? else { return Ok(None) };
        let mut message = Message { metadata, body: Buffer::from_vec(Vec::<u8>::new()) };
        let is_dictionary = message.kind(&self.file)? == MessageHeader::DictionaryBatch;
        let length = message.header().ok().and_then(|header| u64::try_from(header.bodyLength()).ok());
        let length = length.ok_or_else(|| damaged(&self.file, &"a message with a body of less than no bytes"))?;
        self.hold = self.reserve(length)?;
        message.body = Buffer::from_vec(self.exactly(length)?);
        let decompressed = message.decompressed_bytes();
        if decompressed > 0 {
            // Waiting for more memory while holding some could deadlock.
            self.hold = None;
            self.hold = self.reserve(length.saturating_add(decompressed))?;
        }
        if is_dictionary {
            self.dictionary_bytes = self.dictionary_bytes.saturating_add(length).saturating_add(decompressed);
        }
        Ok(Some(message))
    }

    /// Reserves memory for a message with `bytes` bytes, and for the dictionaries so far.
    fn reserve(&self, bytes: u64) -> Result<Option<Reservation>> {
        let wanted = bytes.saturating_add(self.dictionary_bytes);
        self.reading.memory_budget.file(wanted).map_err(|ResourcesExhausted { wanted, most }| {
            let limit = "half of `prepare.max_memory_bytes`";
            let fix = "raise it, or write the file again with smaller record batches";
            self.file.unfit_error(format!("a record batch of {wanted} bytes, {most} are allowed, {limit}; {fix}"))
        })
    }

    /// Returns the rows of the first record batch, without reading the batch; 0 if there is none.
    pub(super) fn rows_of_first_batch(&mut self) -> Result<u64> {
        while let Some(metadata) = self.metadata()? {
            let message = Message { metadata, body: Buffer::from_vec(Vec::<u8>::new()) };
            let header = message.header().map_err(|error| damaged(&self.file, &error))?;
            if let Some(batch) = header.header_as_record_batch() {
                return Ok(u64::try_from(batch.length()).unwrap_or(0));
            }
            let body = u64::try_from(header.bodyLength()).unwrap_or(u64::MAX);
            let refused = |error: io::Error| read_error(&self.file.path, &error);
            io::copy(&mut self.source.by_ref().take(body), &mut io::sink()).map_err(refused)?;
        }
        Ok(0)
    }
}
