//! Whether a file can be used at all: judged by its beginning, before anything is written.

use std::collections::BTreeSet;
use std::io::Read as _;

use super::bytes::open;
use super::input_split::{BytesRead, Reading};
use super::inputs::InputFile;
use crate::Result;

/// What is looked at of a file of text.
pub(super) const HEAD_BYTES: u64 = 8 << 10;

/// What a file is good for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Fitness {
    /// Why it cannot be used, and what to do about it.
    pub unfit: Option<String>,
    /// What its first records are like, where these have fields and say so themselves.
    pub head: Head,
}

/// The first records of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Head {
    /// Records.
    pub records: u64,
    /// Those of them that have the fields which are asked for.
    pub with_fields: u64,
    /// The names of all their fields.
    pub fields: BTreeSet<String>,
    /// Whether there are more records, which were not looked at.
    pub is_cut: bool,
}

impl Fitness {
    /// That of a file which cannot be used.
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
        self.is_cut |= other.is_cut;
    }
}

/// The beginning of a file of text, decompressed and as UTF-8.
pub(super) fn head(file: &InputFile, reading: &Reading) -> Result<Vec<u8>> {
    beginning(file, HEAD_BYTES, reading)
}

/// The same, of so many bytes.
pub(super) fn beginning(file: &InputFile, bytes: u64, reading: &Reading) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    let uncounted = Reading { bytes_read: BytesRead::default(), ..reading.clone() };
    // A file that cannot be read to here is reported by the part that it belongs to.
    let _ = open(&file.path, &(0..file.bytes), &uncounted)?.take(bytes).read_to_end(&mut head);
    Ok(head)
}

/// Whether that is the beginning of a text: not if there is a NUL in it, or the mark of UTF-16.
pub(super) fn of_text(head: &[u8]) -> Fitness {
    let is_marked = head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]);
    if memchr::memchr(0, head).is_none() && !is_marked {
        return Fitness::default();
    }
    match guess(head) {
        Some((name, label)) => Fitness::unfit(format!(
            "{name}; set `prepare.encoding = \"{label}\"` if all files are, or convert it to UTF-8 (`iconv -f {name} -t UTF-8`)"
        )),
        None => Fitness::unfit(
            "a binary file (a NUL in its first 8 KiB); take it out of `prepare.inputs`, convert it to text, or set \
             `prepare.on_invalid_file = \"skip\"`",
        ),
    }
}

/// What a text with NULs is, if it can be told: by its mark, or since its letters are ASCII, each next to a NUL.
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
    let (count, letter) = (pairs.len(), |byte: u8| byte.is_ascii_graphic() || byte.is_ascii_whitespace());
    let little = pairs.clone().filter(|pair| letter(pair[0]) && pair[1] == 0).count();
    let big = pairs.filter(|pair| pair[0] == 0 && letter(pair[1])).count();
    // Half of them is more than any other kind of file has.
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
    fn what_cannot_be_used_says_what_it_is_where_that_can_be_told() {
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
        let marked = of_text(b"\xff\xfe\x2d\x4e\x87\x65").unfit.expect("letters without a NUL, after a mark");
        assert!(marked.contains("\"utf-16le\""), "{marked}");
        assert_eq!(of_text("Grüße\n".as_bytes()), Fitness::default());
    }
}
