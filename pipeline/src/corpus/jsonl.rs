//! JSONL format: each line is a JSON object.
//!
//! # What
//! One field contains the text, and an optional second one the document id. All other fields are skipped unread. A file
//! `*.json` may also be one array of such objects, or of texts ([`json_array`](super::json_array)).
//!
//! # Why
//! Most published corpora use this format.
//!
//! # Definition
//! `prepare.text_field` is a string, `prepare.id_field` a string or a number. A line that is not an object, or lacks
//! one of them, is skipped and counted. Plain files are cut after line feeds, which JSON never has within a line. Some
//! invalid JSON that Python writes is accepted: `NaN` and infinities in other fields, and unpaired surrogates. An
//! unpaired surrogate in the text is replaced and counted.
//!
//! # Reference
//! JSON Lines, <https://jsonlines.org>; RFC 8259.

use std::ops::Range;

use serde::de::IgnoredAny;

use super::Format;
use super::discover::plain_extension;
use super::input_split::{PieceRange, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::json_array::ArrayRecords;
use super::json_object::{Fields, parse};
use super::lines::{BYTE_ORDER_MARK, Border, LineRecords, cut};
use super::piece_ranges::whole;
use super::sniff::{FileCheck, HEAD_BYTES, Head, head, of_lines, of_records, of_text};
use crate::Result;

/// JSONL: each line is a JSON object with a text field.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonLines;

impl Format for JsonLines {
    fn extensions(&self) -> &'static [&'static str] {
        &["jsonl", "ndjson", "json"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, reading: &ReadOptions) -> Result<FileCheck> {
        let head = head(file, reading)?;
        let fields = Fields::new(reading);
        if may_be_array(file) && begins_array(&head) {
            let FileCheck { unfit, .. } = of_text(&head);
            let head = check_elements(file, &fields, reading)?;
            // An array without a whole element is damaged, and of this format.
            let is_doubted = unfit.is_none() && head.records > 0 && head.with_fields == 0;
            let unfit = if is_doubted {
                of_records(reading, |reading| self.open(file, &(0..file.bytes), reading))?
            } else {
                unfit
            };
            return Ok(FileCheck { unfit, head });
        }
        let FileCheck { unfit, .. } = of_lines(file, &head, reading)?;
        let unfit = unfit.or_else(|| not_lines(&head).map(str::to_owned));
        let unfit = if unfit.is_none() {
            of_records(reading, |reading| self.open(file, &(0..file.bytes), reading))?
        } else {
            unfit
        };
        Ok(FileCheck { unfit, head: parse_head(&head, &fields) })
    }

    fn pieces(&self, file: &InputFile, stride: u64, reading: &ReadOptions) -> Result<Vec<PieceRange>> {
        if is_array(file, reading)? {
            return Ok(whole(file));
        }
        cut(file, stride, Border::Line, reading)
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &ReadOptions) -> Result<Box<dyn PieceReader>> {
        let fields = Fields::new(reading);
        // A file that is cut is no array.
        if *range == (0..file.bytes) && is_array(file, reading)? {
            return Ok(Box::new(ArrayRecords::open(file, reading)?));
        }
        let records = LineRecords::open(file, range, reading, move |line, spare| parse(&fields, line, spare))?;
        Ok(Box::new(records.with_text_field(&reading.text_field)))
    }

    #[cfg(test)]
    fn example(&self) -> super::contract::Example {
        super::contract::Example {
            write: |texts| {
                let line = |(number, text)| format!("{{\"key\": {number}, \"text\": \"{text}\"}}\n");
                texts.iter().enumerate().map(line).collect::<String>().into_bytes()
            },
            dirty: b"{\"text\": \"a\"}\n[1]\n{\"text\": \"b\"} x\n\n{\"text\": \" \"}\n{\"text\": \"\xff\"}".to_vec(),
            texts: &["a", "\u{fffd}"],
            complaints: &["broken_json:2", "broken_json:3", "empty_document:5", "invalid_utf8:6"],
        }
    }
}

/// Whether a file may be one JSON array. The other extensions promise lines.
fn may_be_array(file: &InputFile) -> bool {
    plain_extension(&file.name) == "json"
}

fn is_array(file: &InputFile, reading: &ReadOptions) -> Result<bool> {
    Ok(may_be_array(file) && begins_array(&head(file, reading)?))
}

/// Returns the first line of a text, and whether it is the only one.
fn first_line(head: &[u8]) -> (&[u8], bool) {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head).trim_ascii();
    let end = memchr::memchr(b'\n', head);
    (head[..end.unwrap_or(head.len())].trim_ascii(), end.is_none())
}

/// Whether JSON with this beginning is one array of objects or texts.
fn begins_array(head: &[u8]) -> bool {
    let (first, is_only_line) = first_line(head);
    let begins = first
        .strip_prefix(b"[")
        .is_some_and(|rest| matches!(rest.trim_ascii_start().first(), None | Some(b'{' | b'"' | b']')));
    // An array that ends on its line may be a broken line of JSONL.
    begins && (is_only_line || serde_json::from_slice::<IgnoredAny>(first).is_err())
}

/// Returns the reason why JSON with this beginning is not JSONL, with a hint; `None` if it may be.
fn not_lines(head: &[u8]) -> Option<&'static str> {
    if begins_array(head) {
        Some(
            "a JSON array, not JSONL: each line must be one object; rename it to `.json`, or convert it with \
             `jq -c '.[]' OLD.json > NEW.jsonl`",
        )
    } else if first_line(head).0 == b"{" {
        Some(
            "JSON over several lines, not JSONL: each line must be one object; convert it with `jq -c . OLD.json > NEW.jsonl`",
        )
    } else {
        None
    }
}

/// Maximum number of elements of an array that are checked.
const CHECKED_ELEMENTS: u64 = 20;

/// Checks the first elements of an array.
fn check_elements(file: &InputFile, fields: &Fields, reading: &ReadOptions) -> Result<Head> {
    let mut found = Head::default();
    let mut elements = ArrayRecords::open(file, &reading.uncounted())?;
    let mut is_at_end = false;
    for number in 1..=CHECKED_ELEMENTS {
        let next = elements.each(|element| {
            // An element that does not fit comes empty.
            found.is_cut |= element.is_empty();
            add_value(&mut found, element, fields, number);
        });
        // An error here is ignored: the part of the file reports it.
        let Ok(true) = next else {
            is_at_end = next.is_ok();
            break;
        };
    }
    found.is_cut |= !is_at_end;
    reading.memory_budget.release();
    Ok(found)
}

/// Checks the complete lines in the beginning of a file.
fn parse_head(head: &[u8], fields: &Fields) -> Head {
    let mut found = Head { is_cut: head.len() as u64 >= HEAD_BYTES, ..Head::default() };
    let lines = head.split_inclusive(|byte| *byte == b'\n').filter(|line| line.ends_with(b"\n"));
    for (number, line) in (1_u64..).zip(lines) {
        add_value(&mut found, line, fields, number);
    }
    found
}

/// Adds the object of a line, or the text of an element, to the summary.
fn add_value(found: &mut Head, json: &[u8], fields: &Fields, number: u64) {
    let object = match serde_json::from_slice(json) {
        Ok(serde_json::Value::Object(object)) => object,
        Ok(serde_json::Value::String(_)) if fields.id.is_none() => {
            found.records += 1;
            found.with_fields += 1;
            return;
        }
        _ => return,
    };
    found.records += 1;
    let mut is_usable = true;
    let id = fields.id.as_ref().map(|name| (name, true));
    for (name, is_id) in [(&fields.text, false)].into_iter().chain(id) {
        let value = object.get(name);
        let reason = value.and_then(|value| unusable_value(value, is_id, number));
        is_usable &= value.is_some() && reason.is_none();
        if let Some(reason) = reason {
            found.unusable.entry(name.clone()).or_insert(reason);
        }
    }
    found.with_fields += u64::from(is_usable);
    found.fields.extend(object.into_iter().map(|(name, _)| name));
}

/// Returns the reason why a value of that line is neither a text nor, if `is_id`, an id.
fn unusable_value(value: &serde_json::Value, is_id: bool, line: u64) -> Option<String> {
    // serde_json reads `-0` as a floating-point number.
    if is_id && value.as_f64().is_some_and(|number| number == 0.0 && number.is_sign_negative()) {
        return Some(format!("is -0 in line {line}, but an id has one spelling; write 0, or a string"));
    }
    let (is_usable, wanted) = match value {
        serde_json::Value::String(_) => (true, ""),
        serde_json::Value::Number(number) if is_id => {
            (number.is_u64() || number.is_i64(), "an id is a string or a whole number below 2^64; write it as a string")
        }
        _ if is_id => (false, "an id is a string or a whole number"),
        _ => (false, "a text is a string"),
    };
    let shown: String = value.to_string().chars().take(40).collect();
    (!is_usable).then(|| format!("is {} in line {line}, but {wanted}", schemas::printable(&shown)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_detected_from_the_start_of_a_file() {
        let fields = Fields { text: "text".into(), id: Some("key".into()) };
        let lines =
            b"{\"text\": \"a\", \"key\": 2}\n[]\n{\"text\": \"a\", \"a\": 0}\n{\"text\": 1, \"key\": 2.5}\n{\"cut\": 1";
        let head = parse_head(lines, &fields);
        assert_eq!((head.records, head.with_fields), (3, 1));
        assert_eq!(head.unusable["text"], "is 1 in line 4, but a text is a string");
        assert_eq!(
            head.unusable["key"],
            "is 2.5 in line 4, but an id is a string or a whole number below 2^64; write it as a string"
        );
        assert_eq!(head.fields.into_iter().collect::<Vec<_>>(), ["a", "key", "text"]);
    }

    #[test]
    fn an_id_of_minus_zero_is_named_as_written() {
        let fields = Fields { text: "text".into(), id: Some("key".into()) };
        let head = parse_head(b"{\"text\": \"a\", \"key\": -0}\n", &fields);
        assert_eq!(head.unusable["key"], "is -0 in line 1, but an id has one spelling; write 0, or a string");
    }
}
