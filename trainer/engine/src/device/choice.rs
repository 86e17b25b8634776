//! Resolves `train.device` to a device of this machine.

use tch::Device;
use trainer_plan::Error;
use trainer_plan::device::DeviceChoice;

use crate::device::native;

/// A device choice, looked up on this machine.
pub trait ResolveDevice {
    /// Bytes of memory of the device; none of the CPU, or where it does not answer.
    fn bytes(self) -> Option<u64>;

    /// The device, if it is there.
    fn resolve(self) -> Result<Device, Error>;

    /// What keeps `auto` on the CPU though this machine has a driver: somebody expects its device to be used.
    fn left_out(self) -> Option<String>;
}

impl ResolveDevice for DeviceChoice {
    fn bytes(self) -> Option<u64> {
        native::facts::memory(self.resolve().ok()?).ok().flatten().map(|[_, _, total]| total)
    }

    fn resolve(self) -> Result<Device, Error> {
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

    fn left_out(self) -> Option<String> {
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
    fn a_device_that_is_not_there_is_named_with_the_reason() {
        let error = DeviceChoice::Cuda(9).resolve().expect_err("no machine has ten").to_string();
        assert!(error.contains("`train.device = \"cuda:9\"`, but "), "{error}");
    }
}
