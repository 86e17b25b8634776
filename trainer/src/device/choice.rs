//! Which device a run computes on.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use tch::Device;

use crate::device::native;
use crate::error::Error;

/// Where to compute: `auto` (the first CUDA device where there is one), `cpu`, `cuda` (the first; an error without one) or
/// `cuda:1` (that one, counted from 0).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub enum DeviceChoice {
    /// CUDA where there is one.
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
        .ok_or_else(|| format!("`{name}` is no device; write `auto`, `cpu`, `cuda` or `cuda:1`"))
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

impl DeviceChoice {
    /// Bytes of memory of the device; none of the CPU, or where it does not answer.
    #[must_use]
    pub fn bytes(self) -> Option<u64> {
        native::facts::memory(self.resolve().ok()?).ok().flatten().map(|[_, _, total]| total)
    }

    /// The device, if it is there.
    pub fn resolve(self) -> Result<Device, Error> {
        let there = tch::Cuda::device_count();
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Auto if there <= 0 => Ok(Device::Cpu),
            Self::Auto => Ok(Device::Cuda(0)),
            Self::Cuda(index) if i64::from(index) < there => Ok(Device::Cuda(index.into())),
            Self::Cuda(_) if there > 0 => {
                Err(Error::Device(format!("`train.device = \"{self}\"`, but there are {there}, counted from `cuda:0`")))
            }
            Self::Cuda(_) => Err(Error::Device(format!(
                "`train.device = \"{self}\"`, but {}; `train.device = \"cpu\"` does without",
                why_not()
            ))),
        }
    }

    /// What keeps `auto` on the CPU though this machine has a driver: somebody expects its device to be used.
    #[must_use]
    pub fn left_out(self) -> Option<String> {
        let is_left_out = self == Self::Auto && native::has_cuda_driver() && tch::Cuda::device_count() <= 0;
        is_left_out.then(why_not)
    }
}

/// Why there is no CUDA device, and the way out.
pub(crate) fn why_not() -> String {
    match native::cuda_problem() {
        None => {
            "the driver shows no device (`nvidia-smi` should list one; is `CUDA_VISIBLE_DEVICES` empty?)".to_owned()
        }
        Some(problem) if native::has_cuda_driver() => {
            format!(
                "{problem}: this libtorch is the small one; `SETUP=full make setup` fetches CUDA's libraries, then build again"
            )
        }
        Some(problem) => problem,
    }
}

/// The name of the GPU as its driver spells it (`NVIDIA H100 80GB HBM3`); `None` on the CPU or where unknown.
#[must_use]
pub(crate) fn name(device: Device) -> Option<String> {
    let Device::Cuda(index) = device else { return None };
    let mut gpus: Vec<_> = std::fs::read_dir("/proc/driver/nvidia/gpus").ok()?.flatten().collect();
    gpus.sort_by_key(std::fs::DirEntry::file_name);
    let information = std::fs::read_to_string(gpus.get(index)?.path().join("information")).ok()?;
    information.lines().find_map(|line| Some(line.strip_prefix("Model:")?.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_device_is_written_as_it_is_read() {
        for name in ["auto", "cpu", "cuda", "cuda:1", "cuda:12"] {
            assert_eq!(DeviceChoice::try_from(name.to_owned()).expect(name).to_string(), name);
        }
        assert_eq!(DeviceChoice::try_from("cuda:0".to_owned()), Ok(DeviceChoice::Cuda(0)));
        for name in ["gpu", "cuda:", "cuda1", "cuda:-1", "cuda:x", "CPU", ""] {
            let error = DeviceChoice::try_from(name.to_owned()).expect_err(name);
            assert!(error.contains(name) && error.contains("`cuda:1`"), "{error}");
        }
    }

    #[test]
    fn a_device_that_is_not_there_is_named_with_the_reason() {
        let error = DeviceChoice::Cuda(9).resolve().expect_err("no machine has ten").to_string();
        assert!(error.contains("`train.device = \"cuda:9\"`, but "), "{error}");
    }
}
