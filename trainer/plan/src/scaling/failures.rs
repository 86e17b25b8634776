//! Failures of devices and hosts, and the checkpoint interval that loses the least time to them.
//!
//! # Definition
//! A run on `W` devices fails every `M / W` seconds on average, `M` being the mean time between failures of a device.
//! A failure costs a restart and the steps since the newest checkpoint: half an interval on average. A checkpoint costs
//! `C` seconds of training. Both together are lowest for an interval of `√(2 C M / W)`.
//!
//! # Reference
//! Failures: Llama Team 2024, "The Llama 3 Herd of Models", section 3.3.4: 419 unexpected interruptions of 16,384 H100s
//! in 54 days. Interval: Young 1974, "A first order approximation to the optimum checkpoint interval"; Daly 2006.

/// Seconds of a day.
pub(super) const SECONDS_PER_DAY: f64 = 86_400.0;

/// Mean time between failures of a device: 2,112 days, 5.8 years.
const DEVICE_FAILURE_SECONDS: f64 = 16_384.0 * 54.0 / 419.0 * SECONDS_PER_DAY;

/// Seconds of training that a checkpoint costs: a constant and a share of its bytes. On an H100, the median wait of a
/// step is 8.8 ms for 1.20 GB and 17.9 ms for 3.87 GB (`docs/benchmarks.md`).
const CHECKPOINT_WAIT_SECONDS: f64 = 4.7e-3;
const CHECKPOINT_WAIT_SECONDS_PER_BYTE: f64 = 3.4e-12;

/// Bytes per second of the thread that writes checkpoints: 1.20 GB in 1.2 to 1.75 s, 3.87 GB in 3.8 to 5.75 s.
const CHECKPOINT_BYTES_PER_SECOND: f64 = 0.8e9;

/// Returns the failures per second of a run on that many devices.
pub(super) fn rate(devices: u32) -> f64 {
    f64::from(devices) / DEVICE_FAILURE_SECONDS
}

/// Returns the seconds of training that a checkpoint costs if one is saved after each `interval` seconds. A checkpoint
/// waits until the one before it is written.
pub(super) fn checkpoint_seconds(bytes: f64, interval: f64) -> f64 {
    let wait = CHECKPOINT_WAIT_SECONDS + CHECKPOINT_WAIT_SECONDS_PER_BYTE * bytes;
    wait + (write_seconds(bytes) - interval).max(0.0)
}

/// Returns the seconds between checkpoints with which a run on that many devices loses the least time.
pub(super) fn best_interval_seconds(bytes: f64, devices: u32) -> f64 {
    let wait = checkpoint_seconds(bytes, f64::INFINITY);
    (2.0 * wait / rate(devices)).sqrt().max(write_seconds(bytes))
}

fn write_seconds(bytes: f64) -> f64 {
    bytes / CHECKPOINT_BYTES_PER_SECOND
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sixteen_thousand_devices_fail_as_often_as_those_of_llama_3() {
        let per_day = rate(16_384) * SECONDS_PER_DAY;
        assert!((per_day - 419.0 / 54.0).abs() < 1e-9, "{per_day}");
    }

    #[test]
    fn a_checkpoint_costs_its_copy_and_the_wait_for_the_one_before() {
        // 1.2 GB: 4.7 + 4.08 ms, written in 1.5 s.
        let cost = checkpoint_seconds(1.2e9, 60.0);
        assert!((cost - 8.78e-3).abs() < 1e-9, "{cost}");
        let cost = checkpoint_seconds(1.2e9, 1.0);
        assert!((cost - 0.508_78).abs() < 1e-9, "{cost}");
    }

    #[test]
    fn the_best_interval_loses_the_least_time() {
        let bytes = 1.2e9;
        let best = best_interval_seconds(bytes, 1024);
        let lost = |interval: f64| checkpoint_seconds(bytes, interval) / interval + rate(1024) * interval / 2.0;
        // √(2 · 8.78 ms · 178,000 s).
        assert!((best - 55.9).abs() < 0.1, "{best}");
        assert!(lost(best) < lost(1.1 * best) && lost(best) < lost(0.9 * best));
        // A checkpoint takes longer to write than the best interval.
        let best = best_interval_seconds(80e9, 65_536);
        assert!((best - 100.0).abs() < 1e-9, "{best}");
    }
}
