//! Devices of a machine, and the settings that need them.

use schemas::Problem;

use crate::config::TrainConfig;
use crate::device::DeviceChoice;
use crate::precision::Precision;

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
        let without = "this machine has no NVIDIA driver";
        let problem = match train.device {
            _ if self.has_cuda_driver => None,
            DeviceChoice::Cuda(_) => Some(Problem::new(
                "train.device",
                format!(
                    "`train.device = \"{}\"`, but {without}; to train on the CPU, set `train.device = \"cpu\"`",
                    train.device
                ),
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
    fn settings_that_need_cuda_are_refused_without_a_driver() {
        let problem = |device, precision, tf32, has_cuda_driver| {
            let train = TrainConfig { precision, tf32, device, ..TrainConfig::default() };
            Machine { has_cuda_driver }.problem(&train).map(|problem| problem.key)
        };
        let auto = DeviceChoice::Auto;
        let f32 = Precision::F32;
        assert_eq!(problem(auto, f32, false, false), None);
        assert_eq!(problem(DeviceChoice::Cuda(0), f32, false, false).as_deref(), Some("train.device"));
        assert_eq!(problem(auto, Precision::Bf16, false, false).as_deref(), Some("train.precision"));
        assert_eq!(problem(auto, f32, true, false).as_deref(), Some("train.tf32"));
        assert_eq!(problem(DeviceChoice::Cuda(0), Precision::Bf16, true, true), None, "the driver decides");
        let native = problem(DeviceChoice::Cpu, Precision::Bf16, false, false);
        assert_eq!(native.is_none(), Precision::has_native_bf16());
    }
}
