//! Refusal of JSON objects that have a key twice: readers disagree about which value counts.

use std::collections::BTreeSet;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};

/// Part of the message.
const REPEATED: &str = "occurs twice";

/// Refuses a JSON text in which an object has a key twice. Other mistakes of the text are left to its reader.
///
/// # Errors
/// Names the first such key.
pub fn refuse_repeated_keys(json: &[u8]) -> Result<(), String> {
    match serde_json::from_slice::<UniqueKeys>(json) {
        Err(error) if error.to_string().contains(REPEATED) => Err(error.to_string()),
        _ => Ok(()),
    }
}

/// JSON value of which nothing is kept.
struct UniqueKeys;

impl<'de> Deserialize<'de> for UniqueKeys {
    fn deserialize<D: Deserializer<'de>>(source: D) -> Result<Self, D::Error> {
        source.deserialize_any(Self)
    }
}

impl<'de> DeserializeSeed<'de> for UniqueKeys {
    type Value = Self;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self, D::Error> {
        source.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for UniqueKeys {
    type Value = Self;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            map.next_value_seed(Self)?;
            if let Some(key) = keys.replace(key) {
                return Err(A::Error::custom(format!("`{key}` {REPEATED}")));
            }
        }
        Ok(self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self, A::Error> {
        while list.next_element_seed(Self)?.is_some() {}
        Ok(self)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_str<E>(self, _: &str) -> Result<Self, E> {
        Ok(self)
    }

    fn visit_unit<E>(self) -> Result<Self, E> {
        Ok(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_occurs_twice_is_named_at_any_depth() {
        let problem = |json: &str| refuse_repeated_keys(json.as_bytes()).err().unwrap_or_default();
        assert_eq!(problem(r#"{"a": {"a": [1, -2, 0.5, "a", null, true]}, "b": {"a": 1}}"#), "");
        assert!(problem(r#"{"a": 1, "b": 2, "a": 1}"#).starts_with("`a` occurs twice at line 1"));
        assert!(problem(r#"[{"a": {"b": 1, "\u0062": 2}}]"#).starts_with("`b` occurs twice"));
        assert_eq!(problem("{"), "", "the reader of the text finds it");
    }
}
