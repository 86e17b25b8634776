//! Moments of a device: the safe face of `native/marks.cpp`.

use std::ffi::{c_double, c_int, c_void};
use std::ptr::NonNull;
use std::time::Duration;

use tch::Device;
use trainer_plan::Error;

use super::{check, cuda_index};

unsafe extern "C" {
    fn cloze_mark(index: c_int, mark: *mut *mut c_void) -> c_int;
    fn cloze_mark_is_past(mark: *const c_void, is_past: *mut c_int) -> c_int;
    fn cloze_mark_wait(mark: *const c_void) -> c_int;
    fn cloze_marks_apart(from: *const c_void, to: *const c_void, ms: *mut c_double) -> c_int;
    fn cloze_mark_free(mark: *mut c_void);
}

/// A moment of a device's stream: behind what it was given before, and before what it was given later.
#[derive(Debug)]
pub(crate) struct Mark(NonNull<c_void>);

impl Mark {
    /// Now, on a CUDA device. A mark that nobody needs any more is taken again. Nobody waits.
    ///
    /// # Panics
    /// If the device is another.
    pub(crate) fn now(device: Device, old: Option<Self>) -> Result<Self, Error> {
        let index = cuda_index(device).expect("on the CPU the host's clock is the device's");
        let mut raw = old.map_or(std::ptr::null_mut(), Self::into_raw);
        // SAFETY: a handle of ours that nobody else has, or none; on success it is ours again.
        let status = unsafe { cloze_mark(index, &raw mut raw) };
        // What was made before it failed is not lost.
        let mark = NonNull::new(raw).map(Self);
        check(status)?;
        Ok(mark.expect("a mark is made where there was none"))
    }

    /// Whether the device has come so far.
    pub(crate) fn is_past(&self) -> Result<bool, Error> {
        let mut is_past = 0;
        // SAFETY: a handle of ours; one number is written.
        check(unsafe { cloze_mark_is_past(self.0.as_ptr(), &raw mut is_past) })?;
        Ok(is_past != 0)
    }

    /// Waits until it has.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        // SAFETY: a handle of ours.
        check(unsafe { cloze_mark_wait(self.0.as_ptr()) })
    }

    /// The device's time from here to a later mark; both are past.
    pub(crate) fn until(&self, later: &Self) -> Result<Duration, Error> {
        let mut ms = 0.0;
        // SAFETY: two handles of ours; one number is written.
        check(unsafe { cloze_marks_apart(self.0.as_ptr(), later.0.as_ptr(), &raw mut ms) })?;
        Ok(Duration::from_secs_f64(ms.max(0.0) / 1e3))
    }

    fn into_raw(self) -> *mut c_void {
        std::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        // SAFETY: made by `cloze_mark`, and freed once.
        unsafe { cloze_mark_free(self.0.as_ptr()) }
    }
}
