//! Timing events of a CUDA device: safe wrapper of `native/marks.cpp`.

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

/// CUDA event in a device's stream, after all earlier work and before all later work.
#[derive(Debug)]
pub(crate) struct Mark(NonNull<c_void>);

impl Mark {
    /// Records an event on a CUDA device now, without waiting. Reuses `old` if it is given.
    ///
    /// # Panics
    /// If the device is not a CUDA device.
    pub(crate) fn now(device: Device, old: Option<Self>) -> Result<Self, Error> {
        let index = cuda_index(device).expect("on the CPU the host's clock is the device's");
        let mut raw = old.map_or(std::ptr::null_mut(), Self::into_raw);
        // SAFETY: an exclusively owned handle, or none; on success it is owned again.
        let status = unsafe { cloze_mark(index, &raw mut raw) };
        // An event that was made before the failure is kept.
        let mark = NonNull::new(raw).map(Self);
        check(status)?;
        Ok(mark.expect("a mark is made where there was none"))
    }

    /// Whether the device has reached the event.
    pub(crate) fn is_past(&self) -> Result<bool, Error> {
        let mut is_past = 0;
        // SAFETY: an owned handle; one number is written.
        check(unsafe { cloze_mark_is_past(self.0.as_ptr(), &raw mut is_past) })?;
        Ok(is_past != 0)
    }

    /// Waits until the device has reached the event.
    pub(crate) fn wait(&self) -> Result<(), Error> {
        // SAFETY: an owned handle.
        check(unsafe { cloze_mark_wait(self.0.as_ptr()) })
    }

    /// Returns the device time between this event and a later one. Both must be past.
    pub(crate) fn until(&self, later: &Self) -> Result<Duration, Error> {
        let mut ms = 0.0;
        // SAFETY: two owned handles; one number is written.
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
