//! Device buffer with loss and gradient norm of the steps that the spike guard has not read yet.

use tch::{Device, Tensor};

use crate::device::precision::WIDE;
use crate::device::tensors::as_i64;

/// Maximum number of steps: 64 KiB. After that many steps a report is made also if none is due.
const STEPS_MAX: u64 = 4096;

/// Loss and gradient norm of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// Loss of the step.
    pub loss: f64,
    /// Gradient norm before clipping.
    pub norm: f64,
}

impl Observed {
    /// Parses the numbers that were read from [`Ring::unread`].
    pub(crate) fn all(read: &[f64]) -> Vec<Self> {
        read.chunks_exact(2).map(|step| Self { loss: step[0], norm: step[1] }).collect()
    }
}

/// Buffer of shape `[steps + 1, 2]`, float64, on the device. Rows of future steps are zero. If the ring is not read, as
/// when steps are only timed, the last row takes all further steps.
#[derive(Debug)]
pub(crate) struct Ring {
    values: Tensor,
    filled: usize,
    capacity: usize,
}

impl Ring {
    /// Creates a ring for reports every `every_steps` steps.
    pub(super) fn new(every_steps: u64, device: Device) -> Self {
        let capacity = usize::try_from(every_steps.clamp(1, STEPS_MAX)).expect("at most 4096");
        Self { values: Self::blank(capacity + 1, device), filled: 0, capacity }
    }

    pub(super) fn blank(steps: usize, device: Device) -> Tensor {
        Tensor::zeros([as_i64(steps), 2], (WIDE, device))
    }

    /// Scalar to which the loss of the current step is added.
    pub(crate) fn loss(&self) -> Tensor {
        self.cell(0)
    }

    /// Scalar of the gradient norm of the current step.
    pub(crate) fn norm(&self) -> Tensor {
        self.cell(1)
    }

    fn cell(&self, column: i64) -> Tensor {
        self.values.get(as_i64(self.filled)).get(column)
    }

    /// Ends the current step.
    pub(crate) fn advance(&mut self) {
        self.filled = self.capacity.min(self.filled + 1);
    }

    /// Sets the values of the current step to NaN, which they remain: the step has no loss, so that it is neither compared
    /// nor recorded.
    pub(crate) fn mark_without_loss(&mut self) {
        let _ = self.values.get(as_i64(self.filled)).fill_(f64::NAN);
    }

    /// Whether the ring must be read before the next step.
    pub(crate) fn is_full(&self) -> bool {
        self.filled >= self.capacity
    }

    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    pub(super) fn values(&self) -> &Tensor {
        &self.values
    }

    /// Unread values, flattened: loss and norm of each step.
    pub(crate) fn unread(&self) -> Tensor {
        self.values.narrow(0, 0, as_i64(self.filled)).reshape([-1])
    }

    /// Marks all values as read.
    pub(crate) fn clear(&mut self) {
        let _ = self.values.zero_();
        self.filled = 0;
    }

    /// Replaces the losses of the unread steps.
    pub(crate) fn set_losses(&mut self, losses: &[f64]) {
        assert_eq!(losses.len(), self.filled, "one loss per unread step");
        let mut of_steps = self.values.narrow(0, 0, as_i64(self.filled)).select(1, 0);
        of_steps.copy_(&Tensor::from_slice(losses));
    }

    /// Sets the losses of the unread steps to 0.
    pub(crate) fn clear_losses(&mut self) {
        let _ = self.values.select(1, 0).zero_();
    }

    /// Copies the first `filled` steps of `values`. Grows if there is no room for the next step, because the trainer
    /// does that step before it reads the ring.
    pub(super) fn load(&mut self, values: &Tensor, filled: usize) {
        if filled >= self.capacity {
            self.capacity = filled + 1;
            self.values = Self::blank(self.capacity + 1, self.values.device());
        }
        self.values.narrow(0, 0, as_i64(filled)).copy_(&values.narrow(0, 0, as_i64(filled)));
        self.filled = filled;
    }
}
