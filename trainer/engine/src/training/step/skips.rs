//! Steps whose gradient was not finite.

use schemas::ordinal::Step;
use tch::{Device, Tensor};

use crate::device::precision::WIDE;

/// Steps whose gradient was not finite, counted on the device.
#[derive(Debug)]
pub(crate) struct Skips {
    /// Number of skipped steps, float64.
    pub(crate) count: Tensor,
    /// First skipped step, float64; −1 if there is none.
    pub(crate) first: Tensor,
}

impl Skips {
    pub(super) fn new(device: Device) -> Self {
        Self { count: Tensor::zeros([0_i64; 0], (WIDE, device)), first: Tensor::full([0_i64; 0], -1.0, (WIDE, device)) }
    }

    pub(super) fn note(&mut self, step: Step, skipped: &Tensor) {
        self.count += skipped;
        let is_first = self.first.lt(0.0).logical_and(&skipped.gt(0.0));
        self.first = self.first.where_self(&is_first.logical_not(), &Tensor::full_like(&self.first, step.0 as f64));
    }
}
