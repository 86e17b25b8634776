//! Steps that leap: every step's loss and norm, kept on the device and judged when they are read.
//!
//! # What
//! Each step leaves its loss and the norm of its gradient in a [`Ring`] on the device. A report fetches them in the copy that
//! it makes anyway, and [`Guard::judge`] compares each with the steps before it.
//!
//! # Why
//! One poisonous document can throw a run that has learned for weeks. Nobody looks at every step, and a mean over a report's
//! interval hides the one that spiked. Large runs were saved by going back and leaving the batch out.
//!
//! # Definition
//! Of the last `window` values `x` that were judged, `m` is the median and `σ = 1.4826 · median |x − m|`, at least `|m| / 1000`.
//! A value `v` leaps if `v > m + k σ`. Nothing is judged before there are [`LEAST`](spike_detector::LEAST) values, and what is not finite is neither
//! judged nor remembered: such a step has changed no weight. Only upwards: nobody minds a loss that falls.
//!
//! # Reference
//! Chowdhery et al. 2022, "`PaLM`", section 5.1: spikes of the loss, and going back to skip the batches around them. 1.4826 makes
//! the median distance the standard deviation of a normal distribution (Rousseeuw and Croux 1993).

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

/// The name of the ring among a checkpoint's tensors.
const RING: &str = "guard.ring";

/// What ends a run's loop for the guard's sake.
pub(crate) enum GuardDecision {
    /// It continues from a checkpoint before the step.
    GoBack,
    /// It saves and stops.
    Pause,
}

/// Looks at every step.
#[derive(Debug)]
pub(crate) struct Guard {
    pub(crate) ring: Ring,
    judge: SpikeDetector,
}

impl Guard {
    pub(crate) fn new(config: &SpikeGuardConfig, every_steps: u64, device: Device) -> Self {
        Self { ring: Ring::new(every_steps, device), judge: SpikeDetector::new(config) }
    }

    /// Compares steps with those before them, in order: each that leaps, by its place among them.
    pub(crate) fn judge(&mut self, steps: &[Observed]) -> Vec<(usize, Spike)> {
        let judged = steps.iter().map(|&step| self.judge.look(step));
        judged.enumerate().filter_map(|(place, leap)| Some((place, leap?))).collect()
    }

    /// What a checkpoint keeps. The next step changes the tensor.
    pub(crate) fn save(&self) -> (Vec<(String, &Tensor)>, SavedGuard) {
        let (losses, norms) = self.judge.remembered();
        let saved = SavedGuard { losses, norms, unread: self.ring.filled() };
        (vec![(RING.to_owned(), self.ring.values())], saved)
    }

    /// Continues from there. The problem, if there is one, names the tensor. A checkpoint of a program without a guard has none.
    pub(crate) fn load(&mut self, tensors: &HostTensors, saved: &SavedGuard, device: Device) -> Result<(), String> {
        self.judge.remember(&saved.losses, &saved.norms);
        self.ring.clear();
        let Some(kept) = tensors.get(RING) else { return Ok(()) };
        let rows = kept.shape().first().copied().unwrap_or(0);
        if saved.unread >= rows {
            return Err(format!(
                "`{RING}` has {rows} rows, one of them spare, and {} are said to be unread",
                saved.unread
            ));
        }
        // It may have been made for another interval between reports.
        let values = Ring::blank(rows, device);
        overwrite(&values, tensors, RING, device)?;
        self.ring.take(&values, saved.unread);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
