//! What a device has, and what libtorch does with it: the safe face of `native/facts.cpp`.

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

/// The most bytes that tensors had at once, the most that libtorch's allocator had taken, both since this was last asked,
/// and all bytes of the device; `None` on the CPU. Nobody waits for it.
pub(crate) fn memory(device: Device) -> Result<Option<[u64; 3]>, Error> {
    let Some(index) = cuda_index(device) else { return Ok(None) };
    let mut figures = [0; 3];
    // SAFETY: three numbers are written.
    check(unsafe { cloze_device_memory(index, figures.as_mut_ptr()) })?;
    Ok(Some(figures))
}

/// The most bytes that tensors had at once since [`memory`] was asked last; `None` on the CPU. Nobody waits for it.
pub(crate) fn peak(device: Device) -> Result<Option<u64>, Error> {
    let Some(index) = cuda_index(device) else { return Ok(None) };
    let mut bytes = 0;
    // SAFETY: one number is written.
    check(unsafe { cloze_device_peak(index, &raw mut bytes) })?;
    Ok(Some(bytes))
}

/// How libtorch's allocator was told to work: `PYTORCH_ALLOC_CONF`, or what this program sets where nobody has.
pub(crate) fn allocator_settings() -> Result<String, Error> {
    let mut settings = std::ptr::null();
    // SAFETY: on success it is a C string of this thread, copied before it asks again.
    unsafe {
        check(cloze_allocator_settings(&raw mut settings))?;
        Ok(CStr::from_ptr(settings).to_string_lossy().into_owned())
    }
}

/// What attention is asked to compute.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AttentionShape {
    /// Whether queries, keys and values are bfloat16.
    pub is_half: bool,
    /// Rows of a micro-batch.
    pub rows: i64,
    /// Their positions.
    pub width: i64,
    /// Heads.
    pub heads: i64,
    /// Numbers of each.
    pub head_width: i64,
    /// What it is told about pairs of positions.
    pub told: Told,
    /// The share of weights that is dropped.
    pub dropout: f64,
}

/// What attention is told about pairs of positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// Nothing.
    Nothing,
    /// Which keys are real tokens.
    Valid,
    /// A learned number for each pair.
    Added,
}

/// The number in `at::SDPBackend` of the kernel that libtorch chooses on a CUDA device; `None` on the CPU.
pub(crate) fn attention_kernel(device: Device, shape: AttentionShape) -> Result<Option<i64>, Error> {
    let Some(index) = cuda_index(device) else { return Ok(None) };
    let told = match shape.told {
        Told::Nothing => 0,
        Told::Valid => 1,
        Told::Added => 2,
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
