//! JSONL: a line is a JSON object with a field of text, and perhaps one with a name.

use std::fmt;
use std::ops::Range;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};

use super::text::{self, Border, Line};
use super::{Fields, FileFormat, PieceRange, Reason, Record, Records, Source, from_text, open};
use crate::Result;

pub(super) struct Jsonl {
    pub(super) fields: Fields,
    pub(super) limit: u64,
}

impl FileFormat for Jsonl {
    fn extensions(&self) -> &'static [&'static str] {
        &["jsonl", "ndjson", "json"]
    }

    fn check(&self, source: &Source) -> Result<()> {
        open::refuse_binary(&source.path, source.bytes)
    }

    fn pieces(&self, source: &Source, stride: u64) -> Result<Vec<PieceRange>> {
        text::cut(source, stride, Border::Line)
    }

    fn records(&self, source: &Source, range: &Range<u64>) -> Result<Records> {
        let fields = self.fields.clone();
        text::line_records(source, range, self.limit, move |line| parse(&fields, line))
    }

    fn lines_before(&self, source: &Source, range: &Range<u64>) -> Result<u64> {
        text::newlines_before(source, range)
    }
}

fn parse(fields: &Fields, line: &Line<'_>) -> Record {
    let json = String::from_utf8_lossy(line.bytes);
    let repaired = matches!(json, std::borrow::Cow::Owned(_));
    let mut record = match read(fields, &json) {
        Err(_) => Record::rejected(Reason::BrokenJson, line.number),
        Ok((text, id)) => assemble(fields, text, id, line),
    };
    if repaired {
        record.complaints.insert(0, (Reason::InvalidUtf8, line.number));
    }
    record
}

fn read(fields: &Fields, json: &str) -> serde_json::Result<(Field, Field)> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = fields.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(found)
}

fn assemble(fields: &Fields, text: Field, id: Field, line: &Line<'_>) -> Record {
    let id = match (&fields.id, id) {
        (None, _) => line.offset.to_string(),
        (Some(_), Field::Text(id) | Field::Number(id)) => id,
        (Some(_), Field::Missing) => return Record::rejected(Reason::MissingField, line.number),
        (Some(_), Field::Other) => return Record::rejected(Reason::NonStringField, line.number),
    };
    match text {
        Field::Text(text) => from_text(id, text, line.number),
        Field::Missing => Record::rejected(Reason::MissingField, line.number),
        Field::Number(_) | Field::Other => Record::rejected(Reason::NonStringField, line.number),
    }
}

/// What a field of a line holds.
#[derive(Debug, Default, PartialEq)]
pub(super) enum Field {
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
