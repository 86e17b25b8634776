//! Loss and norm of the steps that nobody has looked at yet, on the device.

use tch::{Device, Tensor};

use crate::device::precision::WIDE;
use crate::device::tensors::as_i64;

/// Steps that it holds at most: 64 KiB. Where reports are farther apart, it is read between them.
const STEPS_MAX: u64 = 4096;

/// What a step left.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Observed {
    /// The loss that it learned from.
    pub loss: f64,
    /// The norm of its gradient before clipping.
    pub norm: f64,
}

impl Observed {
    /// Loss and norm of each step, from what was read of [`Ring::unread`].
    pub(crate) fn all(read: &[f64]) -> Vec<Self> {
        read.chunks_exact(2).map(|step| Self { loss: step[0], norm: step[1] }).collect()
    }
}

/// `[steps + 1, 2]` float64 on the device: zeros where a step is still to come. Where nobody reads, as where steps are only
/// timed, the last row takes what there is no room for.
#[derive(Debug)]
pub(crate) struct Ring {
    values: Tensor,
    filled: usize,
    capacity: usize,
}

impl Ring {
    /// For reports every so many steps.
    pub(super) fn new(every_steps: u64, device: Device) -> Self {
        let capacity = usize::try_from(every_steps.clamp(1, STEPS_MAX)).expect("at most 4096");
        Self { values: Self::blank(capacity + 1, device), filled: 0, capacity }
    }

    pub(super) fn blank(steps: usize, device: Device) -> Tensor {
        Tensor::zeros([as_i64(steps), 2], (WIDE, device))
    }

    /// Where the loss of the step under way is added up.
    pub(crate) fn loss(&self) -> Tensor {
        self.cell(0)
    }

    /// Where its norm is.
    pub(crate) fn norm(&self) -> Tensor {
        self.cell(1)
    }

    fn cell(&self, column: i64) -> Tensor {
        self.values.get(as_i64(self.filled)).get(column)
    }

    /// The step under way is done.
    pub(crate) fn advance(&mut self) {
        self.filled = self.capacity.min(self.filled + 1);
    }

    /// The step under way learns nothing.
    pub(crate) fn pass_over(&mut self) {
        let _ = self.values.get(as_i64(self.filled)).fill_(f64::NAN);
        self.advance();
    }

    /// Whether it must be read before the next step.
    pub(crate) fn is_full(&self) -> bool {
        self.filled >= self.capacity
    }

    pub(super) fn filled(&self) -> usize {
        self.filled
    }

    pub(super) fn values(&self) -> &Tensor {
        &self.values
    }

    /// What is to be read.
    pub(crate) fn unread(&self) -> Tensor {
        self.values.narrow(0, 0, as_i64(self.filled)).reshape([-1])
    }

    /// All was read.
    pub(crate) fn clear(&mut self) {
        let _ = self.values.zero_();
        self.filled = 0;
    }

    /// Holds the first `filled` steps of `values`, and has room for the next, which is done before anything is read.
    pub(super) fn take(&mut self, values: &Tensor, filled: usize) {
        if filled >= self.capacity {
            self.capacity = filled + 1;
            self.values = Self::blank(self.capacity + 1, self.values.device());
        }
        self.values.narrow(0, 0, as_i64(filled)).copy_(&values.narrow(0, 0, as_i64(filled)));
        self.filled = filled;
    }
}
