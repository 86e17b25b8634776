//! Choice of the device of a run (`train.device`).

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use schemas::Problem;
use serde::{Deserialize, Serialize};

use crate::config::TrainConfig;
use crate::precision::Precision;

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

/// Devices of a machine, as far as they are known without libtorch.
#[derive(Clone, Copy, Debug)]
pub struct Machine {
    /// Whether it has a CUDA driver.
    pub has_cuda_driver: bool,
}

impl Machine {
    /// Looks for the device nodes of the CUDA driver: of Linux, and of Linux below Windows.
    #[must_use]
    pub fn detect() -> Self {
        let nodes = ["/dev/nvidiactl", "/dev/nvidia0", "/dev/dxg"];
        Self { has_cuda_driver: nodes.iter().any(|node| std::path::Path::new(node).exists()) }
    }

    /// Returns the setting that this machine does not support, if any.
    #[must_use]
    pub fn problem(self, train: &TrainConfig) -> Option<Problem> {
        let hint = "to plan a run for another machine, add `--on h100`";
        let without = "this machine has no CUDA driver";
        let problem = match train.device {
            _ if self.has_cuda_driver => None,
            DeviceChoice::Cuda(_) => Some(Problem::new(
                "train.device",
                format!("`{}`, but {without}; to train on the CPU, set `train.device = \"cpu\"`", train.device),
            )),
            DeviceChoice::Auto | DeviceChoice::Cpu => cpu_problem(train, without),
        };
        problem.map(|problem| problem.hint(hint))
    }
}

/// Returns the setting that the CPU does not support, if any. `without_cuda` says why a run does not use CUDA.
///
/// bfloat16 on the CPU needs `train.device = "cpu"`, so that a run does not fall back to the CPU without an error.
#[must_use]
pub fn cpu_problem(train: &TrainConfig, without_cuda: &str) -> Option<Problem> {
    let cuda = match train.device {
        DeviceChoice::Cpu => "CUDA, but `train.device` is `cpu`".to_owned(),
        _ => format!("CUDA, but {without_cuda}"),
    };
    if train.tf32 {
        let message = format!("`train.tf32 = true` needs {cuda}; set `train.tf32 = false`");
        return Some(Problem::new("train.tf32", message));
    }
    let needed = match (train.precision, train.device) {
        (Precision::F32, _) => return None,
        (_, DeviceChoice::Cpu) if Precision::has_native_bf16() => return None,
        (_, DeviceChoice::Cpu) => "a processor with bfloat16 products (AVX512_BF16, AMX), which this one lacks",
        _ => &cuda,
    };
    let name = train.precision.name();
    let message = format!("`train.precision = \"{name}\"` needs {needed}; set `train.precision = \"f32\"`");
    Some(Problem::new("train.precision", message))
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
