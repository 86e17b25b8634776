//! Resolution of `train.device` to a device of this machine.

use tch::Device;
use trainer_plan::Error;
use trainer_plan::device::DeviceChoice;

use crate::device::native;

/// Lookup of a device choice on this machine.
pub trait ResolveDevice {
    /// Memory of the device in bytes. `None` for the CPU, or if the device does not answer.
    fn bytes(self) -> Option<u64>;

    /// Returns the device of a single process, or an error if this machine does not have it.
    fn resolve(self) -> Result<Device, Error>;

    /// Returns the device of the rank with that number on its host: the chosen CUDA device is that of the first rank, and
    /// the following ranks have the following devices. If the launcher shows each rank one device, that one.
    fn resolve_for(self, local_rank: u32) -> Result<Device, Error>;

    /// Returns the reason why `auto` uses the CPU although this machine has a CUDA driver.
    fn left_out(self) -> Option<String>;
}

impl ResolveDevice for DeviceChoice {
    fn bytes(self) -> Option<u64> {
        native::facts::memory(self.resolve().ok()?).ok().flatten().map(|[_, _, total]| total)
    }

    fn resolve_for(self, local_rank: u32) -> Result<Device, Error> {
        let count = tch::Cuda::device_count();
        match self {
            Self::Auto if count > 1 => Self::Cuda(number(local_rank)).resolve(),
            Self::Cuda(first) if count > 1 => Self::Cuda(number(u32::from(first) + local_rank)).resolve(),
            Self::Cpu | Self::Auto | Self::Cuda(_) => self.resolve(),
        }
    }

    fn resolve(self) -> Result<Device, Error> {
        let count = tch::Cuda::device_count();
        match self {
            Self::Cpu => Ok(Device::Cpu),
            Self::Auto if count <= 0 => Ok(Device::Cpu),
            Self::Auto => Ok(Device::Cuda(0)),
            Self::Cuda(index) if i64::from(index) < count => Ok(Device::Cuda(index.into())),
            Self::Cuda(_) if count > 0 => Err(Error::Device(format!(
                "`train.device = \"{self}\"`, but this machine has {count} CUDA devices; the first is `cuda:0`"
            ))),
            Self::Cuda(_) => Err(Error::Device(format!(
                "`train.device = \"{self}\"`, but {}; to train on the CPU, set `train.device = \"cpu\"`",
                cuda_unavailable_reason()
            ))),
        }
    }

    fn left_out(self) -> Option<String> {
        let is_unused = self == Self::Auto && native::has_cuda_driver() && tch::Cuda::device_count() <= 0;
        is_unused.then(cuda_unavailable_reason)
    }
}

/// Returns the number of a device, at most the greatest that there can be.
fn number(rank: u32) -> u16 {
    u16::try_from(rank).unwrap_or(u16::MAX)
}

/// Returns the reason why there is no CUDA device, and how to fix it.
pub(crate) fn cuda_unavailable_reason() -> String {
    match native::cuda_problem() {
        None => {
            "the CUDA driver lists no device; check `nvidia-smi` and whether `CUDA_VISIBLE_DEVICES` is empty".to_owned()
        }
        Some(problem) if native::has_cuda_driver() => {
            format!("{problem}: this libtorch has no CUDA libraries; run `SETUP=full make setup` and build again")
        }
        Some(problem) => problem,
    }
}

/// Returns the GPU name as the driver spells it (`NVIDIA H100 80GB HBM3`). `None` on the CPU or if unknown.
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
    fn a_missing_device_is_named_with_the_reason() {
        let error = DeviceChoice::Cuda(9).resolve().expect_err("no machine has ten").to_string();
        assert!(error.contains("`train.device = \"cuda:9\"`, but "), "{error}");
    }
}
