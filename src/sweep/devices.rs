//! CUDA devices of the children of a sweep.

use super::grid::Setting;

/// Variable of CUDA's driver with the devices that a process sees.
pub(super) const VARIABLE: &str = "CUDA_VISIBLE_DEVICES";

/// Values of [`VARIABLE`], one for each CUDA device that this process sees.
pub(super) struct VisibleDevices(Vec<String>);

impl VisibleDevices {
    /// Finds the devices of this process.
    pub(super) fn detect() -> Self {
        Self::new(std::env::var(VARIABLE).ok().as_deref(), count_device_nodes())
    }

    /// Without the variable, all devices are visible.
    fn new(variable: Option<&str>, nodes: usize) -> Self {
        Self(match variable {
            Some(list) => list.split(',').map(|name| name.trim().to_owned()).filter(|name| !name.is_empty()).collect(),
            None => (0..nodes).map(|index| index.to_string()).collect(),
        })
    }

    /// Returns the device of a job, unless there is nothing to choose or the run sets its device.
    pub(super) fn of_job(&self, job: usize, jobs: usize, settings: &[Setting]) -> Option<&str> {
        let is_set = settings.iter().any(|setting| setting.key == "train.device");
        if jobs < 2 || self.0.len() < 2 || is_set { None } else { Some(&self.0[job % self.0.len()]) }
    }
}

/// Counts the device nodes of CUDA's driver on Linux.
fn count_device_nodes() -> usize {
    let names = std::fs::read_dir("/dev").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let is_device = |name: &std::ffi::OsString| {
        let number = name.to_str().and_then(|name| name.strip_prefix("nvidia"));
        number.is_some_and(|number| number.parse::<u16>().is_ok())
    };
    names.filter(is_device).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_use_all_devices_in_turn() {
        let devices = VisibleDevices::new(None, 4);
        let of_jobs = |jobs: usize, devices: &VisibleDevices, settings: &[Setting]| {
            let device = |job| devices.of_job(job, jobs, settings).unwrap_or("none").to_owned();
            (0..jobs).map(device).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of_jobs(6, &devices, &[]), "0 1 2 3 0 1");
        assert_eq!(of_jobs(3, &VisibleDevices::new(Some("GPU-5a, 7"), 8), &[]), "GPU-5a 7 GPU-5a", "only visible ones");
        let is_set = [Setting { key: "train.device".to_owned(), value: "cuda:2".to_owned() }];
        assert_eq!(of_jobs(2, &devices, &is_set), "none none", "the run sees the device that it names");
        assert_eq!(of_jobs(1, &devices, &[]), "none", "other processes may use the others");
        for devices in [VisibleDevices::new(None, 0), VisibleDevices::new(None, 1), VisibleDevices::new(Some(""), 8)] {
            assert_eq!(of_jobs(2, &devices, &[]), "none none");
        }
    }
}
