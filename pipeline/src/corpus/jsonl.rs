//! JSONL: a line is a JSON object.
//!
//! # What
//! One field holds the text, and perhaps another one the document's name; all other fields are passed over unread.
//!
//! # Why
//! What most published corpora come in.
//!
//! # Definition
//! `prepare.text_field` is a string, `prepare.id_field` a string or a number. A line that is no object, or lacks one of
//! them, is passed over and counted. Plain files are cut behind line feeds, which JSON never has within a line.
//!
//! # Reference
//! JSON Lines, <https://jsonlines.org>; RFC 8259.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::Format;
use super::bytes::refuse_binary;
use super::inputs::InputFile;
use super::lines::{Border, Line, LineRecords, cut};
use super::piece::{PieceRange, PieceReader, Reading};
use super::record::{Reason, Record};
use crate::Result;

/// A line is a JSON object with a field of text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct JsonLines;

impl Format for JsonLines {
    fn extensions(&self) -> &'static [&'static str] {
        &["jsonl", "ndjson", "json"]
    }

    fn has_fields(&self) -> bool {
        true
    }

    fn check(&self, file: &InputFile, _reading: &Reading) -> Result<()> {
        refuse_binary(&file.path, file.bytes)
    }

    fn pieces(&self, file: &InputFile, stride: u64, _reading: &Reading) -> Result<Vec<PieceRange>> {
        cut(file, stride, Border::Line)
    }

    fn open(&self, file: &InputFile, range: &Range<u64>, reading: &Reading) -> Result<Box<dyn PieceReader>> {
        let fields = Fields { text: reading.text_field.clone(), id: reading.id_field.clone() };
        let records = LineRecords::open(file, range, reading, move |line| parse(&fields, line))?;
        Ok(Box::new(records))
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

/// Where an object keeps what we need.
#[derive(Clone, Debug)]
struct Fields {
    text: String,
    id: Option<String>,
}

fn parse(fields: &Fields, line: &Line<'_>) -> Record {
    let json = String::from_utf8_lossy(line.bytes);
    let repaired = matches!(json, std::borrow::Cow::Owned(_));
    let mut record = match read(fields, &json) {
        Err(_) => rejected(Reason::BrokenJson, line),
        Ok((text, id)) => assemble(fields, text, id, line),
    };
    if repaired {
        record.complaints.insert(0, (Reason::InvalidUtf8, line.number));
    }
    record
}

fn rejected(reason: Reason, line: &Line<'_>) -> Record {
    Record::rejected(reason, line.range.clone(), line.number)
}

fn read(fields: &Fields, json: &str) -> serde_json::Result<(Field, Field)> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = fields.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(found)
}

fn assemble(fields: &Fields, text: Field, id: Field, line: &Line<'_>) -> Record {
    let id = match (&fields.id, id) {
        (None, _) => None,
        (Some(_), Field::Text(id) | Field::Number(id)) => Some(id),
        (Some(_), Field::Missing) => return rejected(Reason::MissingField, line),
        (Some(_), Field::Other) => return rejected(Reason::NonStringField, line),
    };
    match text {
        Field::Text(text) => Record::of_text(id, text, line.range.clone(), line.number),
        Field::Missing => rejected(Reason::MissingField, line),
        Field::Number(_) | Field::Other => rejected(Reason::NonStringField, line),
    }
}

/// What a field of a line holds.
#[derive(Debug, Default, PartialEq)]
enum Field {
    #[default]
    Missing,
    Text(String),
    Number(String),
    Other,
}

impl From<serde_json::Value> for Field {
    fn from(value: serde_json::Value) -> Self {
        match value {
            serde_json::Value::String(text) => Self::Text(text),
            serde_json::Value::Number(number) => Self::Number(number.to_string()),
            _ => Self::Other,
        }
    }
}

/// Reads the two fields of an object and skips the others without building them.
impl<'de> DeserializeSeed<'de> for &Fields {
    type Value = (Field, Field);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for &Fields {
    type Value = (Field, Field);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object with a field `{}`", self.text)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut text, mut id) = (Field::Missing, Field::Missing);
        while let Some(key) = map.next_key::<std::borrow::Cow<'de, str>>()? {
            let is_id = self.id.as_deref() == Some(&*key);
            if *key == self.text {
                let value = Field::from(map.next_value::<serde_json::Value>()?);
                if let (true, Field::Text(value)) = (is_id, &value) {
                    id = Field::Text(value.clone());
                }
                text = value;
            } else if is_id {
                id = Field::from(map.next_value::<serde_json::Value>()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((text, id))
    }
}
