//! Floating-point numbers in JSON, including NaN and the infinities.
//!
//! JSON cannot represent them, and `null` would not distinguish an infinite loss from NaN. They are written as the strings
//! `"NaN"`, `"Infinity"` and `"-Infinity"`, as in the JSON mapping of Protocol Buffers. `float(…)` of Python and
//! `Number(…)` of JavaScript read all three. Every `f64` of an event uses this module.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::de::{Error, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

const NAN: &str = "NaN";
const INFINITY: &str = "Infinity";
const MINUS_INFINITY: &str = "-Infinity";

/// Number in its JSON form.
struct Number(f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.0 {
            value if value.is_nan() => serializer.serialize_str(NAN),
            f64::INFINITY => serializer.serialize_str(INFINITY),
            f64::NEG_INFINITY => serializer.serialize_str(MINUS_INFINITY),
            value => serializer.serialize_f64(value),
        }
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Reader)
    }
}

struct Reader;

impl Visitor<'_> for Reader {
    type Value = Number;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a number, \"{NAN}\", \"{INFINITY}\" or \"{MINUS_INFINITY}\"")
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Number, E> {
        Ok(Number(value))
    }

    // Other writers omit the `.0` of an integer.
    fn visit_u64<E: Error>(self, value: u64) -> Result<Number, E> {
        Ok(Number(value as f64))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Number, E> {
        Ok(Number(value as f64))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Number, E> {
        match value {
            NAN => Ok(Number(f64::NAN)),
            INFINITY => Ok(Number(f64::INFINITY)),
            MINUS_INFINITY => Ok(Number(f64::NEG_INFINITY)),
            other => Err(E::invalid_value(serde::de::Unexpected::Str(other), &self)),
        }
    }
}

/// Codec of a number field, used as `with = "Float"`: serde calls the two functions, and `schemars` the schema.
pub(crate) struct Float;

impl Float {
    #[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands over a reference")]
    pub(crate) fn serialize<S: Serializer>(value: &f64, serializer: S) -> Result<S::Ok, S::Error> {
        Number(*value).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<f64, D::Error> {
        Ok(Number::deserialize(deserializer)?.0)
    }
}

/// Codec of an optional number. `None` is `null`.
pub(crate) struct OptionalNumber;

impl OptionalNumber {
    #[expect(clippy::ref_option, reason = "serde hands over a reference")]
    pub(crate) fn serialize<S: Serializer>(value: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        value.map(Number).serialize(serializer)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
        Ok(Option::<Number>::deserialize(deserializer)?.map(|number| number.0))
    }
}

/// Codec of a list of numbers.
pub(crate) struct List;

impl List {
    #[expect(clippy::ptr_arg, reason = "serde hands over a reference")]
    pub(crate) fn serialize<S: Serializer>(list: &Vec<f64>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(list.iter().map(|&value| Number(value)))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<f64>, D::Error> {
        Ok(Vec::<Number>::deserialize(deserializer)?.into_iter().map(|number| number.0).collect())
    }
}

/// Codec of numbers by name.
pub(crate) struct NamedNumbers;

impl NamedNumbers {
    pub(crate) fn serialize<S: Serializer>(map: &BTreeMap<String, f64>, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(map.iter().map(|(name, &value)| (name, Number(value))))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<BTreeMap<String, f64>, D::Error> {
        let map = BTreeMap::<String, Number>::deserialize(deserializer)?;
        Ok(map.into_iter().map(|(name, number)| (name, number.0)).collect())
    }
}

/// Implements `JsonSchema` for the codecs. The schema must define `number`.
macro_rules! schemas {
    ($($Codec:ident: $schema:tt,)+) => {$(
        impl JsonSchema for $Codec {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($Codec).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                json_schema!($schema)
            }
        }
    )+};
}

schemas! {
    Float: { "$ref": "#/$defs/number" },
    OptionalNumber: { "anyOf": [{ "$ref": "#/$defs/number" }, { "type": "null" }] },
    List: { "type": "array", "items": { "$ref": "#/$defs/number" } },
    NamedNumbers: { "type": "object", "additionalProperties": { "$ref": "#/$defs/number" } },
}

#[cfg(test)]
mod tests {
    use super::Number;

    fn written(value: f64) -> String {
        serde_json::to_string(&Number(value)).expect("plain data")
    }

    #[test]
    fn every_number_is_read_back_bit_identical() {
        let finite = [0.0, -0.0, 0.1, 1.0 / 3.0, 1e-4, f64::MAX, f64::MIN_POSITIVE, 5e-324];
        for value in finite.into_iter().chain([f64::NAN, f64::INFINITY, f64::NEG_INFINITY]) {
            let Number(read) = serde_json::from_str(&written(value)).expect("as written");
            assert!(read.to_bits() == value.to_bits() || (read.is_nan() && value.is_nan()), "{value}: {read}");
        }
    }

    #[test]
    fn a_number_that_is_not_finite_is_a_string() {
        let names = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY].map(written);
        assert_eq!(names, ["\"NaN\"", "\"NaN\"", "\"Infinity\"", "\"-Infinity\""]);
    }

    #[test]
    fn integers_are_read_and_other_strings_refused() {
        let read = |text: &str| serde_json::from_str::<Number>(text).map(|number| number.0);
        assert!(matches!((read("3"), read("-3")), (Ok(3.0), Ok(-3.0))));
        for wrong in ["\"nan\"", "\"3\"", "null", "[]"] {
            let error = read(wrong).expect_err("not a number").to_string();
            assert!(error.contains("expected a number, \"NaN\", \"Infinity\" or \"-Infinity\""), "{error}");
        }
    }
}
