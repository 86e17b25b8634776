//! Memory statistics and attention kernels of a device: safe wrapper of `native/facts.cpp`.

use std::ffi::{CStr, c_char, c_double, c_int};

use tch::Device;
use trainer_plan::Error;

use super::{check, cuda_index};

unsafe extern "C" {
    fn cloze_device_memory(index: c_int, figures: *mut u64) -> c_int;
    fn cloze_device_peak(index: c_int, bytes: *mut u64) -> c_int;
    fn cloze_allocator_settings(settings: *mut *const c_char) -> c_int;
    fn cloze_attention_kernel(
        index: c_int,
        half: c_int,
        rows: i64,
        width: i64,
        heads: i64,
        head_width: i64,
        mask: c_int,
        dropout: c_double,
        kernel: *mut i64,
    ) -> c_int;
}

/// Returns three byte counts of a device: the peak of tensors, the peak that libtorch's allocator reserved, and the
/// total.
///
/// The peaks count from the previous call. `None` on the CPU. Does not wait for the device.
pub(crate) fn memory(device: Device) -> Result<Option<[u64; 3]>, Error> {
    let Some(index) = cuda_index(device) else { return Ok(None) };
    let mut figures = [0; 3];
    // SAFETY: three numbers are written.
    check(unsafe { cloze_device_memory(index, figures.as_mut_ptr()) })?;
    Ok(Some(figures))
}

/// Returns the peak of bytes of tensors since the last call of [`memory`]. `None` on the CPU. Does not wait for the
/// device.
pub(crate) fn peak(device: Device) -> Result<Option<u64>, Error> {
    let Some(index) = cuda_index(device) else { return Ok(None) };
    let mut bytes = 0;
    // SAFETY: one number is written.
    check(unsafe { cloze_device_peak(index, &raw mut bytes) })?;
    Ok(Some(bytes))
}

/// Returns the settings of libtorch's allocator: `PYTORCH_ALLOC_CONF`, or the default of this program if it is unset.
pub(crate) fn allocator_settings() -> Result<String, Error> {
    let mut settings = std::ptr::null();
    // SAFETY: on success it is a C string of this thread, copied before the next call.
    unsafe {
        check(cloze_allocator_settings(&raw mut settings))?;
        Ok(CStr::from_ptr(settings).to_string_lossy().into_owned())
    }
}

/// Shape of an attention call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionShape {
    /// Whether queries, keys and values are bfloat16.
    pub is_half: bool,
    /// Rows of a micro-batch.
    pub rows: i64,
    /// Positions of a row.
    pub width: i64,
    /// Number of heads.
    pub heads: i64,
    /// Width of a head.
    pub head_width: i64,
    /// Mask or bias of pairs of positions.
    pub told: AttentionMask,
    /// Dropout probability of the attention weights.
    pub dropout: f64,
}

/// Mask or bias that attention takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AttentionMask {
    /// No mask.
    Nothing,
    /// Mask of the keys that are real tokens.
    Valid,
    /// Learned bias for each pair.
    Added,
}

/// Returns the `at::SDPBackend` number of the kernel that libtorch chooses on a CUDA device. `None` on the CPU.
pub(crate) fn attention_kernel(device: Device, shape: AttentionShape) -> Result<Option<i64>, Error> {
    let Some(index) = cuda_index(device) else { return Ok(None) };
    let told = match shape.told {
        AttentionMask::Nothing => 0,
        AttentionMask::Valid => 1,
        AttentionMask::Added => 2,
    };
    let AttentionShape { is_half, rows, width, heads, head_width, dropout, .. } = shape;
    let mut kernel = -1;
    // SAFETY: one number is written.
    check(unsafe {
        cloze_attention_kernel(
            index,
            c_int::from(is_half),
            rows,
            width,
            heads,
            head_width,
            told,
            dropout,
            &raw mut kernel,
        )
    })?;
    Ok(Some(kernel))
}
