//! Record of a file: a document, complaints, or both.
//!
//! Invalid text is data, not an error: it is repaired or skipped, and counted by [`RejectReason`].

use std::fmt;
use std::ops::Range;

use schemas::Document;

/// Record at one position of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Document, if it is usable.
    pub document: Option<RawDocument>,
    /// Position: bytes of the decompressed file, or rows of a Parquet file.
    pub range: Range<u64>,
    /// Line on which it begins, counted from the start of the piece, 0-based.
    pub line: u64,
    /// Repairs and rejections, with lines counted from the start of the piece, 0-based.
    pub complaints: Vec<(RejectReason, u64)>,
}

/// Document as read from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawDocument {
    /// Document id of the file, if `prepare.id_field` is set.
    pub id: Option<String>,
    /// Cleaned text.
    pub text: String,
}

/// Memory of a finished document, for the next one. It avoids allocations for documents of usual length that need no
/// repair and have no JSON escapes.
#[derive(Debug, Default)]
pub struct RecordBuffers {
    /// Memory for the text.
    pub text: Vec<u8>,
    /// Memory for the id.
    pub id: String,
}

/// Maximum memory kept from a longer document.
pub(super) const KEPT_BYTES: usize = 1 << 20;

impl RecordBuffers {
    /// Takes back the memory of a document.
    pub(super) fn take_back(&mut self, document: Document) {
        let mut text = document.text.into_bytes();
        let mut id = document.id;
        text.clear();
        id.clear();
        if text.capacity() <= KEPT_BYTES {
            self.text = text;
        }
        if id.capacity() <= KEPT_BYTES {
            self.id = id;
        }
    }
}

/// Maximum number of complaints of one record, for a bound of their memory.
const MAX_COMPLAINTS: u64 = 100_000;

impl Record {
    /// Creates a record without a usable document.
    #[must_use]
    pub fn rejected(reason: RejectReason, range: Range<u64>, line: u64) -> Self {
        Self { document: None, range, line, complaints: vec![(reason, line)] }
    }

    /// Creates a record that takes several lines without a usable document, with a complaint for each of them.
    #[must_use]
    pub fn rejected_lines(reason: RejectReason, range: Range<u64>, lines: Range<u64>) -> Self {
        let most = lines.start.saturating_add(MAX_COMPLAINTS);
        let complaints = (lines.start..lines.end.min(most)).map(|line| (reason, line)).collect();
        Self { document: None, range, line: lines.start, complaints }
    }

    /// Creates a document from bytes: replaces invalid UTF-8, then continues as [`of_text`](Self::of_text).
    #[must_use]
    pub fn of_bytes(bytes: Vec<u8>, range: Range<u64>, line: u64) -> Self {
        match String::from_utf8(bytes) {
            Ok(text) => Self::of_text(None, text, range, line),
            Err(error) => {
                let valid = error.utf8_error().valid_up_to();
                let at = line + count_newlines(&error.as_bytes()[..valid]);
                let text = String::from_utf8_lossy(error.as_bytes()).into_owned();
                let mut record = Self::of_text(None, text, range, line);
                record.complaints.insert(0, (RejectReason::InvalidUtf8, at));
                record
            }
        }
    }

    /// Creates a document from text: removes a byte-order mark at its beginning and NULs, converts line ends to line
    /// feeds, rejects empty text.
    #[must_use]
    pub fn of_text(id: Option<String>, mut text: String, range: Range<u64>, line: u64) -> Self {
        let mut complaints = Vec::new();
        if text.starts_with('\u{feff}') {
            text.remove(0);
        }
        // Nearly all texts have neither: one scan suffices.
        if memchr::memchr2(b'\0', b'\r', text.as_bytes()).is_some() {
            if let Some(at) = memchr::memchr(b'\0', text.as_bytes()) {
                complaints.push((RejectReason::Nul, line + count_newlines(&text.as_bytes()[..at])));
                text.retain(|character| character != '\0');
            }
            text = with_line_feeds(text);
        }
        if text.trim().is_empty() {
            complaints.push((RejectReason::EmptyDocument, line));
            return Self { document: None, range, line, complaints };
        }
        Self { document: Some(RawDocument { id, text }), range, line, complaints }
    }
}

/// Reason for the repair or rejection of a line or a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RejectReason {
    /// Bytes that are not UTF-8, or not of `prepare.encoding`, replaced by U+FFFD.
    InvalidUtf8,
    /// NUL characters, removed.
    Nul,
    /// Line that is not a JSON object; skipped.
    BrokenJson,
    /// Row, page or record that breaks the rules of its format; skipped.
    BrokenRecord,
    /// Content of a type that is not read, such as HTML; skipped.
    UnsupportedType,
    /// Missing text or id; skipped.
    MissingField,
    /// Text that is not a string, or an id that is neither a string nor a number; skipped.
    NonStringField,
    /// No text, or none that the tokenizer keeps; skipped.
    EmptyDocument,
    /// More text than `prepare.max_document_bytes`; skipped.
    TooLong,
    /// Stream of rows without its end mark: it may have been cut short.
    UnfinishedStream,
}

impl fmt::Display for RejectReason {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::InvalidUtf8 => "invalid_utf8",
            Self::Nul => "nul",
            Self::BrokenJson => "broken_json",
            Self::BrokenRecord => "broken_record",
            Self::UnsupportedType => "unsupported_type",
            Self::MissingField => "missing_field",
            Self::NonStringField => "non_string_field",
            Self::EmptyDocument => "empty_document",
            Self::TooLong => "too_long",
            Self::UnfinishedStream => "unfinished_stream",
        })
    }
}

/// Returns the text with CRLF converted to line feeds, in the same memory.
fn with_line_feeds(text: String) -> String {
    let mut bytes = text.into_bytes();
    let mut kept = 0;
    for at in 0..bytes.len() {
        bytes[kept] = bytes[at];
        kept += usize::from(!bytes[at..].starts_with(b"\r\n"));
    }
    bytes.truncate(kept);
    String::from_utf8(bytes).expect("only ASCII was taken out")
}

pub(super) fn count_newlines(bytes: &[u8]) -> u64 {
    memchr::memchr_iter(b'\n', bytes).count() as u64
}
