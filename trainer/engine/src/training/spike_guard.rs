//! Detection of loss spikes: the loss and gradient norm of every step stay on the device until they are checked.
//!
//! # What
//! Each step writes its loss and the norm of its gradient to a [`Ring`] on the device. A report fetches them in the
//! copy that it makes anyway, and [`Guard::find_spikes`] compares each step with the steps before it.
//!
//! # Why
//! One corrupt document can ruin a run that has trained for weeks. A mean over the report interval hides the step that
//! spiked. Large runs were rescued by a rollback that skips the batch.
//!
//! # Definition
//! Of the last `window` recorded values `x`, `m` is the median and `σ = 1.4826 · median |x − m|`. The minimum of `σ` is
//! `|m| / 1000`. A value `v` is a spike if `v > m + k σ`. Only rising values count. No value is compared before there
//! are [`LEAST`](spike_detector::LEAST) values. A value that is not finite is neither compared nor recorded, because
//! its step changed no weight.
//!
//! # Reference
//! Chowdhery et al. 2022, "`PaLM`", section 5.1: loss spikes, and a rollback that skips the batches around them. The
//! factor 1.4826 turns the median distance into the standard deviation of a normal distribution (Rousseeuw and Croux
//! 1993).

mod ring;
mod spike_detector;
use tch::{Device, Tensor};
use trainer_plan::checkpoint::SavedGuard;
use trainer_plan::config::SpikeGuardConfig;

pub use self::ring::Observed;
use self::ring::Ring;
pub(crate) use self::spike_detector::Spike;
use self::spike_detector::SpikeDetector;
use crate::device::tensors::{HostTensors, overwrite};

/// Name of the ring in the tensors of a checkpoint.
const RING: &str = "guard.ring";

/// Decision of the spike guard that ends the training loop.
pub(crate) enum GuardDecision {
    /// Continue from a checkpoint before the step.
    RollBack,
    /// Save and stop.
    Pause,
}

/// Spike guard: records loss and norm of every step and detects spikes.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) ring: Ring,
    detector: SpikeDetector,
}

impl Guard {
    pub(crate) fn new(config: &SpikeGuardConfig, every_steps: u64, device: Device) -> Self {
        Self { ring: Ring::new(every_steps, device), detector: SpikeDetector::new(config) }
    }

    /// Compares each step with the steps before it, in order. Returns the spikes with their indices in `steps`.
    pub(crate) fn find_spikes(&mut self, steps: &[Observed]) -> Vec<(usize, Spike)> {
        let judged = steps.iter().map(|&step| self.detector.check(step));
        judged.enumerate().filter_map(|(at, spike)| Some((at, spike?))).collect()
    }

    /// Returns the state for a checkpoint. The next step changes the tensor.
    pub(crate) fn save(&self) -> (Vec<(String, &Tensor)>, SavedGuard) {
        let (losses, norms) = self.detector.remembered();
        let saved = SavedGuard { losses, norms, unread: self.ring.filled() };
        (vec![(RING.to_owned(), self.ring.values())], saved)
    }

    /// Restores the state of a checkpoint. An error names the tensor. A checkpoint of a program without a spike guard
    /// has no ring.
    pub(crate) fn load(&mut self, tensors: &HostTensors, saved: &SavedGuard, device: Device) -> Result<(), String> {
        self.detector.add_all(&saved.losses, &saved.norms);
        self.ring.clear();
        let Some(saved_ring) = tensors.get(RING) else { return Ok(()) };
        let rows = saved_ring.shape().first().copied().unwrap_or(0);
        if saved.unread >= rows {
            return Err(format!(
                "`{RING}` has {rows} rows, one of them spare, but the state says that {} are unread",
                saved.unread
            ));
        }
        // The saved ring may have been sized for another report interval.
        let values = Ring::blank(rows, device);
        overwrite(&values, tensors, RING, device)?;
        self.ring.load(&values, saved.unread);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
