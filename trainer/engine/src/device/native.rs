//! Safe wrapper of `native/`. Together with the kernels of `pipeline/src/tokenize/fast/` it holds all `unsafe` code.
#![allow(unsafe_code, reason = "calls into C++; every pointer is borrowed for the call, every result is owned once")]

pub(crate) mod c10d;
pub(crate) mod copies;
pub(crate) mod dropout;
pub(crate) mod facts;
pub(crate) mod grad_hooks;
pub(crate) mod linear;
pub(crate) mod marks;
pub(crate) mod nccl;

use std::ffi::{CStr, c_char, c_double, c_int, c_void};

use tch::{Device, Tensor};
use trainer_plan::Error;

type RawTensor = *const c_void;

unsafe extern "C" {
    fn cloze_last_error() -> *const c_char;
    fn cloze_cuda_problem() -> *const c_char;
    fn cloze_has_cuda_driver() -> c_int;
    fn cloze_configure(deterministic: c_int, tf32: c_int) -> c_int;
    fn cloze_take_gradients(weights: *const RawTensor, count: usize, gradients: *mut *mut c_void) -> c_int;
    fn cloze_copy_all(to: *const RawTensor, from: *const RawTensor, count: usize) -> c_int;
    fn cloze_add_all(to: *const RawTensor, what: *const RawTensor, count: usize) -> c_int;
    fn cloze_add_gradients(weights: *const RawTensor, gradients: *const RawTensor, count: usize) -> c_int;
    fn cloze_global_norm(tensors: *const RawTensor, count: usize, norm: *mut *mut c_void) -> c_int;
    fn cloze_fused_adamw(
        weights: *const RawTensor,
        gradients: *const RawTensor,
        means: *const RawTensor,
        variances: *const RawTensor,
        count: usize,
        step: RawTensor,
        lr: c_double,
        beta1: c_double,
        beta2: c_double,
        weight_decay: c_double,
        eps: c_double,
        scale: RawTensor,
        skip: RawTensor,
    ) -> c_int;
    fn cloze_upload(bytes: *const c_void, count: usize, index: c_int, uploaded: *mut *mut c_void) -> c_int;
    fn cloze_records() -> c_int;
    fn cloze_backward(made: RawTensor, gradient: RawTensor) -> c_int;
    fn cloze_generator_state(index: c_int, state: *mut *mut c_void) -> c_int;
    fn cloze_set_generator_state(index: c_int, state: RawTensor) -> c_int;
    fn cloze_synchronize(index: c_int) -> c_int;
}

/// Version of the libtorch that this program is built with.
pub(crate) const LIBTORCH: &str = env!("CLOZE_LIBTORCH_VERSION");

/// Returns the reason why CUDA is not available. `None` if its libraries are loaded.
#[must_use]
pub(crate) fn cuda_problem() -> Option<String> {
    // SAFETY: a static C string, written before main.
    let problem = unsafe { CStr::from_ptr(cloze_cuda_problem()) }.to_string_lossy().into_owned();
    (!problem.is_empty()).then_some(problem)
}

/// Whether this machine has the CUDA driver, even if the libraries are not loaded.
pub(crate) fn has_cuda_driver() -> bool {
    // SAFETY: no pointers; written before main.
    unsafe { cloze_has_cuda_driver() != 0 }
}

/// Sets libtorch's process-wide switches. Call it on the compute thread before the first operation: denormals are
/// flushed to zero on that thread and on the helper threads that it starts later.
pub(crate) fn configure(deterministic: bool, tf32: bool) -> Result<(), Error> {
    // SAFETY: no pointers.
    check(unsafe { cloze_configure(c_int::from(deterministic), c_int::from(tf32)) })
}

/// Moves the gradients out of `weights`. The next backward pass starts without gradients.
pub(crate) fn take_gradients(weights: &[&Tensor]) -> Result<Vec<Option<Tensor>>, Error> {
    let mut raw = vec![std::ptr::null_mut(); weights.len()];
    // SAFETY: as many slots as weights; each non-null result is a new handle that the returned tensor owns.
    unsafe {
        check(cloze_take_gradients(pointers(weights).as_ptr(), weights.len(), raw.as_mut_ptr()))?;
        Ok(raw.into_iter().map(|raw| (!raw.is_null()).then(|| Tensor::from_ptr(raw.cast()))).collect())
    }
}

/// Copies each tensor of `from` into the tensor of `to` at the same index. Shapes are equal; types may differ.
pub(crate) fn copy_all(to: &[&Tensor], from: &[&Tensor]) -> Result<(), Error> {
    assert_eq!(to.len(), from.len(), "as many targets as sources");
    // SAFETY: two lists of one length of borrowed handles; shapes are checked on the other side.
    check(unsafe { cloze_copy_all(pointers(to).as_ptr(), pointers(from).as_ptr(), to.len()) })
}

/// Adds each tensor of `what` to the tensor of `to` at the same index. Shapes and types are equal.
pub(crate) fn add_all(to: &[&Tensor], what: &[&Tensor]) -> Result<(), Error> {
    assert_eq!(to.len(), what.len(), "as many targets as summands");
    // SAFETY: two lists of one length of borrowed handles; shapes are checked on the other side.
    check(unsafe { cloze_add_all(pointers(to).as_ptr(), pointers(what).as_ptr(), to.len()) })
}

/// Adds `gradients`, of any type, to the gradients of `weights`. A weight may occur more than once.
pub(crate) fn add_gradients(weights: &[&Tensor], gradients: &[&Tensor]) -> Result<(), Error> {
    assert_eq!(weights.len(), gradients.len(), "one weight for each gradient");
    // SAFETY: two lists of one length of borrowed handles; shapes are checked on the other side.
    check(unsafe { cloze_add_gradients(pointers(weights).as_ptr(), pointers(gradients).as_ptr(), weights.len()) })
}

/// Returns the L2 norm over all numbers of all `tensors` (at least one), a scalar on their device.
pub(crate) fn global_norm(tensors: &[&Tensor]) -> Result<Tensor, Error> {
    let mut norm = std::ptr::null_mut();
    // SAFETY: on success `norm` is a new handle that the returned tensor owns.
    unsafe {
        check(cloze_global_norm(pointers(tensors).as_ptr(), tensors.len(), &raw mut norm))?;
        Ok(Tensor::from_ptr(norm.cast()))
    }
}

/// Tensor lists of one fused update. Equal indices belong together.
#[derive(Debug, Default)]
pub(crate) struct AdamWLists<'a> {
    /// Weights, changed in place.
    pub weights: Vec<&'a Tensor>,
    /// Gradients of the weights, divided by the scale in place.
    pub gradients: Vec<&'a Tensor>,
    /// First moments, changed in place.
    pub means: Vec<&'a Tensor>,
    /// Second moments, changed in place.
    pub variances: Vec<&'a Tensor>,
}

/// Scalars of one fused update.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AdamWUpdate<'a> {
    /// Number of this update, counted from 1, a float32 scalar.
    pub step: &'a Tensor,
    /// Learning rate.
    pub lr: f64,
    /// Decay rates of the two moments.
    pub betas: [f64; 2],
    /// Decoupled weight decay.
    pub weight_decay: f64,
    /// Summand of the denominator.
    pub eps: f64,
    /// Divisor of the gradients, applied first, a float32 scalar.
    pub scale: &'a Tensor,
    /// 1 to skip the update, else 0, a float32 scalar.
    pub skip: &'a Tensor,
}

/// Runs one AdamW update with libtorch's fused kernel (Loshchilov & Hutter 2019), without synchronizing the device.
pub(crate) fn fused_adamw(lists: &AdamWLists<'_>, update: AdamWUpdate<'_>) -> Result<(), Error> {
    let count = lists.weights.len();
    let same = [&lists.gradients, &lists.means, &lists.variances].iter().all(|list| list.len() == count);
    assert!(same, "fused AdamW takes lists of one length");
    // SAFETY: four lists of `count` borrowed handles each; shapes, types and devices are checked on the other side.
    check(unsafe {
        cloze_fused_adamw(
            pointers(&lists.weights).as_ptr(),
            pointers(&lists.gradients).as_ptr(),
            pointers(&lists.means).as_ptr(),
            pointers(&lists.variances).as_ptr(),
            count,
            update.step.as_ptr().cast(),
            update.lr,
            update.betas[0],
            update.betas[1],
            update.weight_decay,
            update.eps,
            update.scale.as_ptr().cast(),
            update.skip.as_ptr().cast(),
        )
    })
}

/// Copies `bytes` to the device as uint8, without waiting for the copy.
pub(crate) fn upload(bytes: &[u8], device: Device) -> Result<Tensor, Error> {
    let Some(index) = cuda_index(device) else { return Tensor::f_from_slice(bytes).checked() };
    let mut uploaded = std::ptr::null_mut();
    // SAFETY: the bytes are copied before the call returns; on success `uploaded` is a new handle that the tensor owns.
    unsafe {
        check(cloze_upload(bytes.as_ptr().cast(), bytes.len(), index, &raw mut uploaded))?;
        Ok(Tensor::from_ptr(uploaded.cast()))
    }
}

/// Whether autograd records operations on `tensor` now. (A view requires gradients even if it does not.)
pub(crate) fn is_recorded(tensor: &Tensor) -> bool {
    // SAFETY: no pointers.
    tensor.requires_grad() && unsafe { cloze_records() != 0 }
}

/// Propagates `gradient` back through the graph of `made`, to the leaves.
pub(crate) fn backward(made: &Tensor, gradient: &Tensor) -> Result<(), Error> {
    // SAFETY: borrowed handles; shapes and types are checked on the other side.
    check(unsafe { cloze_backward(made.as_ptr().cast(), gradient.as_ptr().cast()) })
}

/// Saved state of a device's random number generator.
#[derive(Debug)]
pub(crate) struct Draws {
    device: Device,
    // In host memory for every device.
    state: Tensor,
}

impl Draws {
    /// Saves the current state without waiting for the device.
    pub(crate) fn now(device: Device) -> Result<Self, Error> {
        let mut state = std::ptr::null_mut();
        // SAFETY: on success `state` is a new handle that the tensor owns.
        unsafe {
            check(cloze_generator_state(cuda_index(device).unwrap_or(-1), &raw mut state))?;
            Ok(Self { device, state: Tensor::from_ptr(state.cast()) })
        }
    }

    /// Restores the saved state.
    pub(crate) fn restore(&self) -> Result<(), Error> {
        // SAFETY: a borrowed handle.
        check(unsafe { cloze_set_generator_state(cuda_index(self.device).unwrap_or(-1), self.state.as_ptr().cast()) })
    }
}

/// Waits for the device. Returns immediately on the CPU.
pub fn synchronize(device: Device) -> Result<(), Error> {
    // SAFETY: no pointers.
    cuda_index(device).map_or(Ok(()), |index| check(unsafe { cloze_synchronize(index) }))
}

/// Conversion of a libtorch result to a result of the trainer.
pub(crate) trait CheckStatus<T> {
    /// Returns the value, or [`Error::Native`] with the first line of the message; the rest is a C++ backtrace.
    fn checked(self) -> Result<T, Error>;
}

impl<T> CheckStatus<T> for Result<T, tch::TchError> {
    fn checked(self) -> Result<T, Error> {
        self.map_err(|error| Error::Native(error.to_string().lines().next().unwrap_or_default().to_owned()))
    }
}

fn cuda_index(device: Device) -> Option<c_int> {
    match device {
        Device::Cuda(index) => Some(c_int::try_from(index).expect("a machine has few devices")),
        _ => None,
    }
}

fn pointers(tensors: &[&Tensor]) -> Vec<RawTensor> {
    tensors.iter().map(|tensor| tensor.as_ptr().cast()).collect()
}

fn check(status: c_int) -> Result<(), Error> {
    if status == 0 {
        return Ok(());
    }
    // SAFETY: this thread's message, valid until its next failure.
    let message = unsafe { CStr::from_ptr(cloze_last_error()) }.to_string_lossy();
    Err(Error::Native(message.lines().next().unwrap_or_default().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::precision::MASTER;

    #[test]
    fn an_exception_becomes_an_error_with_its_message() {
        let cpu = (MASTER, Device::Cpu);
        let weight = Tensor::zeros([64, 64], cpu);
        let moment = Tensor::zeros([64, 64], cpu);
        let short = Tensor::zeros([16, 64], cpu);
        let one = Tensor::ones([1], cpu);
        let lists = AdamWLists {
            weights: vec![&weight],
            gradients: vec![&short],
            means: vec![&moment],
            variances: vec![&moment],
        };
        let update = AdamWUpdate {
            step: &one,
            lr: 1.0,
            betas: [0.9, 0.999],
            weight_decay: 0.0,
            eps: 1e-8,
            scale: &one,
            skip: &one,
        };
        let error = fused_adamw(&lists, update).expect_err("the shapes differ").to_string();
        assert!(error.contains("the gradient of weight 0 differs"), "{error}");
    }

    #[test]
    fn gradients_move_out_of_the_weights() {
        let weight = Tensor::ones([3], (MASTER, Device::Cpu)).set_requires_grad(true);
        let idle = Tensor::ones([1], (MASTER, Device::Cpu)).set_requires_grad(true);
        (&weight * 2.0).sum(MASTER).backward();
        let taken = take_gradients(&[&weight, &idle]).expect("both are weights");
        assert_eq!(taken[0], Some(Tensor::from_slice(&[2_f32, 2.0, 2.0])));
        assert!(taken[1].is_none() && !weight.grad().defined());
    }
}
