//! Fields of one JSON object, or one string, as text and id of a document.
//!
//! Some invalid JSON that Python writes is accepted: `NaN` and infinities in other fields, and unpaired surrogates. An
//! unpaired surrogate in the text is replaced and counted.

use std::fmt;
use std::mem::take;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use super::input_split::ReadOptions;
use super::lines::Line;
use super::record::{Record, RecordBuffers, RejectReason};

/// Names of the fields that are read.
#[derive(Clone, Debug)]
pub(super) struct Fields {
    pub(super) text: String,
    pub(super) id: Option<String>,
}

impl Fields {
    pub(super) fn new(reading: &ReadOptions) -> Self {
        Self { text: reading.text_field.clone(), id: reading.id_field.clone() }
    }
}

/// Returns the record of a line with one object.
pub(super) fn parse(fields: &Fields, line: &Line<'_>, spare: &mut RecordBuffers) -> Record {
    repaired(fields, line, |json| read(fields, json, spare))
}

/// Returns the record of a line with one string: a text without an id.
pub(super) fn parse_text(fields: &Fields, line: &Line<'_>, spare: &mut RecordBuffers) -> Record {
    repaired(fields, line, |json| read_text(json, spare))
}

/// Returns the record of a line that `read` converts to text and id, with repairs if it is invalid.
fn repaired(
    fields: &Fields,
    line: &Line<'_>,
    mut read: impl FnMut(&str) -> serde_json::Result<(Field, Field)>,
) -> Record {
    let json = String::from_utf8_lossy(line.bytes);
    let mut is_repaired = matches!(json, std::borrow::Cow::Owned(_));
    let found = read(&json).ok().or_else(|| {
        let python = as_json(&json)?;
        let found = read(&python).ok()?;
        is_repaired |= matches!(&found.0, Field::Text(text) if text.contains(char::REPLACEMENT_CHARACTER));
        Some(found)
    });
    let mut record = match found {
        None => rejected(RejectReason::BrokenJson, line),
        Some((text, id)) => assemble(fields, text, id, line),
    };
    if is_repaired {
        record.complaints.insert(0, (RejectReason::InvalidUtf8, line.number));
    }
    record
}

/// Converts the non-standard output of Python's `json` to JSON of the same length. `NaN` and infinities become a value
/// that is neither text nor id, unpaired surrogates the replacement character. Returns `None` if the line has neither.
fn as_json(line: &str) -> Option<String> {
    const NUMBERS: [&[u8]; 3] = [b"-Infinity", b"Infinity", b"NaN"];
    let mut bytes = line.as_bytes().to_vec();
    let mut at = 0;
    let mut in_string = false;
    let mut changed = false;
    while at < bytes.len() {
        match bytes[at] {
            b'"' => in_string = !in_string,
            b'\\' if in_string => {
                let unit = |at: usize| unit(&bytes, at);
                match (unit(at), unit(at + 6)) {
                    (Some(0xd800..=0xdbff), Some(0xdc00..=0xdfff)) => at += 6,
                    (Some(0xd800..=0xdfff), _) => {
                        bytes[at + 2..at + 6].copy_from_slice(b"fffd");
                        changed = true;
                    }
                    _ => {}
                }
                at += 1;
            }
            _ if in_string => {}
            _ => {
                if let Some(number) = NUMBERS.iter().find(|number| bytes[at..].starts_with(number)) {
                    let value = format!("{:<1$}", "[]", number.len());
                    bytes[at..at + number.len()].copy_from_slice(value.as_bytes());
                    (at, changed) = (at + number.len() - 1, true);
                }
            }
        }
        at += 1;
    }
    changed.then(|| String::from_utf8(bytes).expect("ASCII took the place of ASCII"))
}

/// Returns the code unit of `\u1234` at that position.
fn unit(bytes: &[u8], at: usize) -> Option<u16> {
    let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
    u16::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

fn rejected(reason: RejectReason, line: &Line<'_>) -> Record {
    Record::rejected(reason, line.range.clone(), line.number)
}

fn read(fields: &Fields, json: &str, spare: &mut RecordBuffers) -> serde_json::Result<(Field, Field)> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let found = Object { fields, spare }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok(found)
}

fn read_text(json: &str, spare: &mut RecordBuffers) -> serde_json::Result<(Field, Field)> {
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let room = String::from_utf8(take(&mut spare.text)).unwrap_or_default();
    let text = Value { room }.deserialize(&mut deserializer)?;
    deserializer.end()?;
    Ok((text, Field::Missing))
}

fn assemble(fields: &Fields, text: Field, id: Field, line: &Line<'_>) -> Record {
    let id = match (&fields.id, id) {
        (None, _) => None,
        (Some(_), Field::Text(id) | Field::Number(id)) => Some(id),
        (Some(_), Field::Missing) => return rejected(RejectReason::MissingField, line),
        (Some(_), Field::Other) => return rejected(RejectReason::NonStringField, line),
    };
    match text {
        Field::Text(text) => Record::of_text(id, text, line.range.clone(), line.number),
        Field::Missing => rejected(RejectReason::MissingField, line),
        Field::Number(_) | Field::Other => rejected(RejectReason::NonStringField, line),
    }
}

/// Value of a field of a line.
#[derive(Debug, Default, PartialEq)]
enum Field {
    #[default]
    Missing,
    Text(String),
    Number(String),
    Other,
}

/// Reads the two fields of an object and skips the others without allocating them.
struct Object<'a> {
    fields: &'a Fields,
    spare: &'a mut RecordBuffers,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = (Field, Field);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = (Field, Field);

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "an object with a field `{}`", self.fields.text)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut text = Field::Missing;
        let mut id = Field::Missing;
        while let Some(Key { is_text, is_id }) = map.next_key_seed(self.fields)? {
            if is_text {
                let room = String::from_utf8(take(&mut self.spare.text)).unwrap_or_default();
                let value = map.next_value_seed(Value { room })?;
                if let (true, Field::Text(value)) = (is_id, &value) {
                    id = Field::Text(value.clone());
                }
                text = value;
            } else if is_id {
                id = map.next_value_seed(Value { room: take(&mut self.spare.id) })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok((text, id))
    }
}

/// Matches a field name against the two configured ones.
pub(super) struct Key {
    is_text: bool,
    is_id: bool,
}

impl<'de> DeserializeSeed<'de> for &Fields {
    type Value = Key;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Key, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for &Fields {
    type Value = Key;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("the name of a field")
    }

    fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<Key, E> {
        Ok(Key { is_text: name == self.text, is_id: self.id.as_deref() == Some(name) })
    }
}

/// Reads the value of a field; text is stored in `room`.
struct Value {
    room: String,
}

impl Value {
    fn number(mut self, number: impl fmt::Display) -> Field {
        use fmt::Write as _;

        self.room.clear();
        write!(self.room, "{number}").expect("in memory");
        Field::Number(self.room)
    }
}

impl<'de> DeserializeSeed<'de> for Value {
    type Value = Field;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Field, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Value {
    type Value = Field;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_str<E: serde::de::Error>(mut self, text: &str) -> Result<Field, E> {
        self.room.clear();
        self.room.push_str(text);
        Ok(Field::Text(self.room))
    }

    fn visit_u64<E: serde::de::Error>(self, number: u64) -> Result<Field, E> {
        Ok(self.number(number))
    }

    fn visit_i64<E: serde::de::Error>(self, number: i64) -> Result<Field, E> {
        Ok(self.number(number))
    }

    // Larger numbers have lost digits in parsing, so that two ids could become equal.
    fn visit_f64<E: serde::de::Error>(self, _number: f64) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_bool<E: serde::de::Error>(self, _value: bool) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Field, E> {
        Ok(Field::Other)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, seq: A) -> Result<Field, A::Error> {
        IgnoredAny.visit_seq(seq).map(|_| Field::Other)
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Field, A::Error> {
        IgnoredAny.visit_map(map).map(|_| Field::Other)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(line: &str) -> (Option<String>, Vec<RejectReason>) {
        let fields = Fields { text: "text".into(), id: None };
        let bytes = line.as_bytes();
        let line = Line { bytes, fits: true, range: 0..bytes.len() as u64, number: 0 };
        let record = parse(&fields, &line, &mut RecordBuffers::default());
        let reasons = record.complaints.into_iter().map(|(reason, _)| reason);
        (record.document.map(|document| document.text), reasons.collect())
    }

    #[test]
    fn json_written_by_python_loses_no_document() {
        for line in [
            r#"{"score": NaN, "text": "a", "low": -Infinity, "all": [Infinity, NaN]}"#,
            r#"{"text": "a", "other": "\ud800", "\udfff": 1}"#,
            r#"{"other": "\ud83d x \ude42", "text": "a"}"#,
            r#"{"text": {"text": "b"}, "other": [[{"text": "c"}]], "te\u0078t": "a"}"#,
        ] {
            assert_eq!(text(line), (Some("a".into()), vec![]), "{line}");
        }
        assert_eq!(
            text(r#"{"text": "x \ud800 NaN"}"#),
            (Some("x \u{fffd} NaN".into()), vec![RejectReason::InvalidUtf8])
        );
        assert_eq!(text(r#"{"text": "\ud83d\ude42 \\ud800", "n": NaN}"#), (Some("🙂 \\ud800".into()), vec![]));
        for other in ["NaN", "1", "-1", "1.5", "true", "null", "[\"a\"]", "{\"text\": \"a\"}"] {
            assert_eq!(text(&format!("{{\"text\": {other}}}")), (None, vec![RejectReason::NonStringField]), "{other}");
        }
        for broken in [r#"{"text": "a", "n": Nan}"#, r#"{"text": "a" NaN}"#, r#"{"text": "\ud8"}"#, "NaN", "\"\\"] {
            assert_eq!(text(broken), (None, vec![RejectReason::BrokenJson]), "{broken}");
        }
    }
}
