//! Check of a file's beginning, before any output is written, to detect unusable files.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;

use super::bytes::open;
use super::input_split::{PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::record::{RecordBuffers, RejectReason};
use crate::Result;

/// Bytes of a text file that are checked.
pub(super) const HEAD_BYTES: u64 = 8 << 10;

/// Bytes that are read in search of a line feed.
const LINE_BYTES: u64 = 1 << 20;

/// Bytes without a document after which a file counts as one of another format.
const RECORD_BYTES: u64 = 1 << 20;

/// Result of the check of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileCheck {
    /// Reason why the file is unusable, with a hint.
    pub unfit: Option<String>,
    /// Summary of the first records, for formats with fields.
    pub head: Head,
}

/// Summary of the first records of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Number of records.
    pub records: u64,
    /// Number of records that have the configured fields with usable values.
    pub with_fields: u64,
    /// Configured fields with unusable values, each with the first value and the reason.
    pub unusable: BTreeMap<String, String>,
    /// Names of all their fields.
    pub fields: BTreeSet<String>,
    /// True if there are more records, which were not checked.
    pub is_cut: bool,
}

impl FileCheck {
    /// Creates the result for an unusable file.
    #[must_use]
    pub fn unfit(why: impl Into<String>) -> Self {
        Self { unfit: Some(why.into()), head: Head::default() }
    }
}

impl Head {
    /// Adds the records of another file.
    pub fn add(&mut self, other: Self) {
        self.records += other.records;
        self.with_fields += other.with_fields;
        self.fields.extend(other.fields);
        for (field, reason) in other.unusable {
            self.unusable.entry(field).or_insert(reason);
        }
        self.is_cut |= other.is_cut;
    }
}

/// Reads the beginning of a text file, decompressed and as UTF-8.
pub(super) fn head(file: &InputFile, reading: &ReadOptions) -> Result<Vec<u8>> {
    beginning(file, HEAD_BYTES, reading)
}

/// Reads the first `bytes` bytes of a text file, decompressed and as UTF-8.
pub(super) fn beginning(file: &InputFile, bytes: u64, reading: &ReadOptions) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    // A read error here is ignored: the part of the file reports it.
    let _ = open(file, &(0..file.bytes), &reading.uncounted())?.take(bytes).read_to_end(&mut head);
    Ok(head)
}

/// First bytes of file formats that are often named as text, each with the format and the fix.
const MAGIC: [(&[u8], &str); 5] = [
    (b"PAR1", "a Parquet file; rename it to `.parquet`, and set `prepare.format = \"parquet\"`"),
    (b"ARROW1", "an Arrow file; rename it to `.arrow`, and set `prepare.format = \"arrow\"`"),
    (b"BZh", "bzip2-compressed; decompress it"),
    (b"\xfd7zXZ\0", "xz-compressed; decompress it"),
    (b"PK\x03\x04", "a ZIP archive; unpack it"),
];

/// Checks the beginning of a text: a NUL, the byte-order mark of UTF-16, or the first bytes of another format make
/// it unusable.
pub(super) fn of_text(head: &[u8]) -> FileCheck {
    let has_nul = memchr::memchr(0, head).is_some();
    // Text may begin with the letters of a magic number, but has no NUL and is UTF-8. Its last character may be cut.
    let utf8 = std::str::from_utf8(head).map_or_else(|error| error.valid_up_to(), str::len);
    let known = MAGIC.iter().find(|(magic, _)| head.starts_with(magic));
    if let Some((_, format)) = known.filter(|_| has_nul || utf8 + 3 < head.len()) {
        return FileCheck::unfit(*format);
    }
    let is_marked = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    if !has_nul && !is_marked {
        return FileCheck::default();
    }
    match guess(head) {
        Some((name, label)) => FileCheck::unfit(format!(
            "{name}; set `prepare.encoding = \"{label}\"` if all files are, or convert it to UTF-8 (`iconv -f {name} -t UTF-8`)"
        )),
        None => FileCheck::unfit(
            "a binary file (a NUL in its first 8 KiB); take it out of `prepare.inputs`, convert it to text, or set \
             `prepare.on_invalid_file = \"skip\"`",
        ),
    }
}

/// Checks the beginning of a text of lines: as [`of_text`], and for line feeds.
pub(super) fn of_lines(file: &InputFile, head: &[u8], reading: &ReadOptions) -> Result<FileCheck> {
    let mut check = of_text(head);
    // A first line may be longer than the head.
    if check.unfit.is_none() && has_bare_returns(head) && has_bare_returns(&beginning(file, LINE_BYTES, reading)?) {
        let why = "lines end with CR alone (line 1 has no line feed); convert it with `tr '\\r' '\\n' < OLD > NEW`";
        check.unfit = Some(why.to_owned());
    }
    Ok(check)
}

/// Returns the reason why a file is of another format: each record of its beginning is rejected. Returns `None` if one is
/// not, or if there is no record. `open` opens the records of the whole file.
///
/// `prepare.max_bad_lines` would accept such a file, and lose all of its text.
pub(super) fn of_records(
    reading: &ReadOptions,
    open: impl FnOnce(&ReadOptions) -> Result<Box<dyn PieceReader>>,
) -> Result<Option<String>> {
    let reading = ReadOptions { memory_budget: reading.memory_budget.part(), ..reading.uncounted() };
    let mut records = open(&reading)?;
    let mut spare = RecordBuffers::default();
    let mut count = 0_u64;
    let mut first = None;
    loop {
        // The part of the file reports an error.
        let Ok(next) = records.next(&mut spare) else { return Ok(None) };
        let Some(record) = next else { break };
        let reason = record.complaints.iter().map(|(reason, _)| *reason).find(|reason| is_of_other_format(*reason));
        let Some(reason) = reason else { return Ok(None) };
        first.get_or_insert(reason);
        count += 1;
        if record.range.end >= RECORD_BYTES {
            break;
        }
    }
    Ok(first.map(|reason| all_rejected(reason, count, &reading)))
}

/// Whether a record is rejected for that reason in each file of another format.
fn is_of_other_format(reason: RejectReason) -> bool {
    use RejectReason::{BrokenJson, BrokenRecord, MissingField, NonStringField};
    matches!(reason, BrokenJson | BrokenRecord | MissingField | NonStringField)
}

/// Returns the message for a file whose first `count` records are all rejected, the first for that reason.
fn all_rejected(reason: RejectReason, count: u64, reading: &ReadOptions) -> String {
    let text = schemas::printable(&reading.text_field);
    let id = match &reading.id_field {
        Some(id) => format!(" and an id in `{}`", schemas::printable(id)),
        None => String::new(),
    };
    let what = match reason {
        RejectReason::BrokenJson => "is a JSON object: it is of another format".to_owned(),
        RejectReason::BrokenRecord => {
            "has as many fields as the first row, or its quotes are not as in RFC 4180: it is of another format"
                .to_owned()
        }
        _ => format!("has a text in the field `{text}`{id}: it is of another format, or has other fields"),
    };
    format!(
        "none of its first {count} records {what}; take it out of `prepare.inputs` and prepare it as a separate source \
         (`[sources]`), or set `prepare.on_invalid_file = \"skip\"` to leave such files out"
    )
}

/// Whether a text has several carriage returns and no line feed.
fn has_bare_returns(text: &[u8]) -> bool {
    memchr::memchr(b'\n', text).is_none() && memchr::memchr_iter(b'\r', text).nth(1).is_some()
}

/// Guesses the encoding of a text with NULs: by its byte-order mark, or by ASCII letters that alternate with NULs.
fn guess(head: &[u8]) -> Option<(&'static str, &'static str)> {
    const LITTLE: (&str, &str) = ("UTF-16LE", "utf-16le");
    const BIG: (&str, &str) = ("UTF-16BE", "utf-16be");
    if head.starts_with(&[0xff, 0xfe, 0, 0]) || head.starts_with(&[0, 0, 0xfe, 0xff]) {
        return None;
    }
    if head.starts_with(&[0xff, 0xfe]) {
        return Some(LITTLE);
    }
    if head.starts_with(&[0xfe, 0xff]) {
        return Some(BIG);
    }
    let pairs = head.chunks_exact(2);
    let count = pairs.len();
    let letter = |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace();
    let little = pairs.clone().filter(|pair| letter(pair[0]) && pair[1] == 0).count();
    let big = pairs.filter(|pair| pair[0] == 0 && letter(pair[1])).count();
    // Other binary files have such pairs in less than half of the positions.
    if little * 2 > count && count >= 4 {
        Some(LITTLE)
    } else if big * 2 > count && count >= 4 {
        Some(BIG)
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsupported_formats_are_refused_by_name() {
        let utf16 = |big: bool, mark: &str| -> Vec<u8> {
            let units = format!("{mark}plain words").encode_utf16().collect::<Vec<_>>();
            units.iter().flat_map(|unit| if big { unit.to_be_bytes() } else { unit.to_le_bytes() }).collect()
        };
        for mark in ["", "\u{feff}"] {
            for (big, label) in [(false, "\"utf-16le\""), (true, "\"utf-16be\"")] {
                let why = of_text(&utf16(big, mark)).unfit.expect("it has NULs");
                assert!(why.contains(label) && why.contains("iconv"), "{why}");
            }
        }
        for binary in [&b"ELF\0\x01"[..], b"\xff\xfe\0\0a\0\0\0", b"a\0", b"\0"] {
            assert!(of_text(binary).unfit.expect("it has NULs").contains("a binary file"), "{binary:?}");
        }
        for (magic, format) in MAGIC {
            let why = of_text(&[magic, b"\x03\0\xff\xfe\x80\x80\x80\x80"].concat()).unfit;
            assert_eq!(why.as_deref(), Some(format));
        }
        for text in ["PAR1 of the course", "ARROW1", "BZh is a magic number"] {
            assert_eq!(of_text(text.as_bytes()), FileCheck::default(), "{text}");
        }
        let marked = of_text(b"\xff\xfe\x2d\x4e\x87\x65").unfit.expect("letters without a NUL, after a mark");
        assert!(marked.contains("\"utf-16le\""), "{marked}");
        assert_eq!(of_text("Grüße\n".as_bytes()), FileCheck::default());
    }

    #[test]
    fn carriage_returns_alone_do_not_end_lines() {
        for (text, expected) in [
            (&b"one\rtwo\rthree"[..], true),
            (b"one\r\ntwo\r\n", false),
            (b"one", false),
            (b"one\r", false),
            (b"a\rb\rc\n", false),
        ] {
            assert_eq!(has_bare_returns(text), expected);
        }
    }
}
