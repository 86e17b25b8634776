//! Choice of the device of a run (`train.device`).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Device: `auto` (the first CUDA device if there is one, else the CPU), `cpu`, `cuda` (the first; an error without
/// one) or `cuda:1` (counted from 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// The first CUDA device if there is one, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The CUDA device of that index.
    Cuda(u16),
}

impl JsonSchema for DeviceChoice {
    fn schema_name() -> Cow<'static, str> {
        "DeviceChoice".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": "^(auto|cpu|cuda(:[0-9]+)?)$", "default": "auto" })
    }
}

impl TryFrom<String> for DeviceChoice {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let index = |rest: &str| rest.strip_prefix(':').and_then(|index| index.parse().ok());
        match name.as_str() {
            "auto" => Some(Self::Auto),
            "cpu" => Some(Self::Cpu),
            "cuda" => Some(Self::Cuda(0)),
            other => other.strip_prefix("cuda").and_then(index).map(Self::Cuda),
        }
        .ok_or_else(|| format!("`{name}` is not a device; write `auto`, `cpu`, `cuda` or `cuda:1`"))
    }
}

impl From<DeviceChoice> for String {
    fn from(choice: DeviceChoice) -> Self {
        choice.to_string()
    }
}

impl fmt::Display for DeviceChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Auto => f.write_str("auto"),
            Self::Cpu => f.write_str("cpu"),
            Self::Cuda(0) => f.write_str("cuda"),
            Self::Cuda(index) => write!(f, "cuda:{index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn device_names_round_trip() {
        for name in ["auto", "cpu", "cuda", "cuda:1", "cuda:12"] {
            assert_eq!(DeviceChoice::try_from(name.to_owned()).expect(name).to_string(), name);
        }
        assert_eq!(DeviceChoice::try_from("cuda:0".to_owned()), Ok(DeviceChoice::Cuda(0)));
        for name in ["gpu", "cuda:", "cuda1", "cuda:-1", "cuda:x", "CPU", ""] {
            let error = DeviceChoice::try_from(name.to_owned()).expect_err(name);
            assert!(error.contains(name) && error.contains("`cuda:1`"), "{error}");
        }
    }
}
