//! Counters of the simulated device in this process.
#![expect(unsafe_code, reason = "asks a library that was loaded before the program for its functions")]

/// Counts since [`Counts::start`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Operators below autograd.
    pub kernels: u64,
    /// Number of times that the host waited for the device.
    pub waits: u64,
    /// Copies from the host.
    pub uploads: u64,
    /// Bytes of these copies.
    pub uploaded_bytes: u64,
    /// Copies to the host.
    pub downloads: u64,
    /// Bytes of these copies.
    pub downloaded_bytes: u64,
    /// Bytes of the live tensors.
    pub bytes: u64,
    /// Peak of the bytes of live tensors.
    pub peak_bytes: u64,
    /// Bytes of pinned memory in use.
    pub pinned_bytes: u64,
    /// Invalid uses that a real device would answer with garbage, at places where no exception can be thrown.
    pub defects: u64,
}

/// Sets the memory size of the simulated device of this process, and the limit of pinned host memory.
pub fn limit(device_bytes: u64, pinned_bytes: u64) {
    if let Some(limit) = function(c"pretend_cuda_limit") {
        // SAFETY: the library's function of that name takes two numbers.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64, u64)>(limit)(device_bytes, pinned_bytes) }
    }
}

/// Sets the duration of each call of the simulated NCCL that starts an all-reduce.
pub fn slow_nccl_calls(milliseconds: u64) {
    if let Some(set) = function(c"pretend_nccl_call_milliseconds") {
        // SAFETY: the library's function of that name takes a number.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64)>(set)(milliseconds) }
    }
}

impl Counts {
    /// Resets the counters, if the process has this device.
    pub fn start() {
        if let Some(start) = function(c"pretend_cuda_start") {
            // SAFETY: the library's function of that name takes no arguments.
            unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(start)() }
        }
    }

    /// Returns the counts. `None` if the process has another device, or none.
    #[must_use]
    pub fn read() -> Option<Self> {
        let read = function(c"pretend_cuda_read")?;
        let mut counts = Self::default();
        // SAFETY: the library's function of that name writes ten numbers, which are these fields in order.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(*mut Self)>(read)(&raw mut counts) }
        Some(counts)
    }
}

fn function(name: &std::ffi::CStr) -> Option<*mut libc::c_void> {
    // SAFETY: looks up a symbol among the loaded libraries.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
