//! Memory use of a device between reports.

use tch::Device;
use telemetry::training::{DeviceMemory, DevicePeak};
use trainer_plan::Error;

use crate::device::native::facts;
use crate::device::step_timer;

/// Reader of the statistics of libtorch's CUDA allocator. The CPU has none.
#[derive(Debug)]
pub(crate) struct Gauge {
    device: Device,
    peak_bytes: u64,
    planned_bytes: f64,
}

impl Gauge {
    /// Starts now and resets the peak. `planned_bytes` is the estimate of the plan.
    pub(crate) fn start(device: Device, planned_bytes: f64) -> Result<Self, Error> {
        facts::memory(device)?;
        Ok(Self { device, peak_bytes: 0, planned_bytes })
    }

    /// Reads the statistics since the previous call.
    pub(crate) fn read(&mut self) -> Result<Option<DeviceMemory>, Error> {
        Ok(facts::memory(self.device)?.map(|[allocated_peak_bytes, reserved_peak_bytes, total_bytes]| {
            self.peak_bytes = self.peak_bytes.max(allocated_peak_bytes);
            step_timer::reported(allocated_peak_bytes);
            DeviceMemory { allocated_peak_bytes, reserved_peak_bytes, total_bytes }
        }))
    }

    /// Returns the peak and the estimate of the plan. `None` if the device no longer answers.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate in bytes, positive")]
    pub(crate) fn peak(&mut self) -> Option<DevicePeak> {
        let planned_bytes = self.planned_bytes as u64;
        self.read().ok()?.map(|_| DevicePeak { peak_bytes: self.peak_bytes, planned_bytes })
    }
}

#[cfg(test)]
mod tests {
    use tch::Tensor;

    use super::*;
    use crate::device::precision::MASTER;

    #[test]
    fn the_gauge_shows_what_the_allocator_counts_since_it_was_last_read() {
        if !pretend_cuda::is_here(module_path!(), "the_gauge_shows_what_the_allocator_counts_since_it_was_last_read") {
            return;
        }
        let device = Device::Cuda(0);
        let kept = Tensor::zeros([1024], (MASTER, device));
        let mut gauge = Gauge::start(device, 5000.0).expect("it answers");
        let before = gauge.read().expect("it answers").expect("it is CUDA");
        pretend_cuda::Counts::start();
        let large = Tensor::zeros([1 << 20], (MASTER, device));
        let counted = pretend_cuda::Counts::read();
        drop(large);
        let with = gauge.read().expect("it answers").expect("it is CUDA");
        assert_eq!(with.allocated_peak_bytes, before.allocated_peak_bytes + (4 << 20));
        assert!(with.reserved_peak_bytes >= with.allocated_peak_bytes && with.total_bytes >= with.reserved_peak_bytes);
        if let Some(counted) = counted {
            assert_eq!(counted.peak_bytes, with.allocated_peak_bytes, "the device counts the same");
        }
        let after = gauge.read().expect("it answers").expect("it is CUDA");
        assert_eq!(after.allocated_peak_bytes, before.allocated_peak_bytes, "the large tensor is freed");
        let peak = DevicePeak { peak_bytes: with.allocated_peak_bytes, planned_bytes: 5000 };
        assert_eq!(gauge.peak(), Some(peak), "the peak of all readings");
        drop(kept);
    }

    #[test]
    fn the_cpu_has_no_gauge() {
        let mut gauge = Gauge::start(Device::Cpu, 1.0).expect("nothing is asked");
        assert_eq!((gauge.read().expect("nothing is asked"), gauge.peak()), (None, None));
    }
}
