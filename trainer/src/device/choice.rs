//! Which device a run computes on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tch::Device;

use crate::device::native;
use crate::error::Error;

/// Where to compute.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DeviceChoice {
    /// CUDA where there is one.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// The first CUDA device; an error without one.
    Cuda,
}

impl DeviceChoice {
    /// The device, if it is there.
    pub fn resolve(self) -> Result<Device, Error> {
        match (self, native::cuda_problem(), tch::Cuda::is_available()) {
            (Self::Cpu, ..) | (Self::Auto, _, false) => Ok(Device::Cpu),
            (Self::Auto | Self::Cuda, _, true) => Ok(Device::Cuda(0)),
            (Self::Cuda, problem, false) => {
                let problem = problem.unwrap_or_else(|| "the driver shows no device".to_owned());
                Err(Error::Device(format!(
                    "`train.device = \"cuda\"`, but {problem}; `scripts/setup` with `SETUP=full` \
                     installs the CUDA libraries, `train.device = \"cpu\"` does without"
                )))
            }
        }
    }
}

/// The name of the first GPU as its driver spells it (`NVIDIA H100 80GB HBM3`); `None` on the CPU or where unknown.
#[must_use]
pub(crate) fn name(device: Device) -> Option<String> {
    if device == Device::Cpu {
        return None;
    }
    let mut gpus: Vec<_> = std::fs::read_dir("/proc/driver/nvidia/gpus").ok()?.flatten().collect();
    gpus.sort_by_key(std::fs::DirEntry::file_name);
    let information = std::fs::read_to_string(gpus.first()?.path().join("information")).ok()?;
    information.lines().find_map(|line| Some(line.strip_prefix("Model:")?.trim().to_owned()))
}
