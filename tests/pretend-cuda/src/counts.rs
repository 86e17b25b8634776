//! What the device of this very process has done.
#![expect(unsafe_code, reason = "asks a library that was loaded before the program for its functions")]

/// What was counted since [`Counts::start`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub struct Counts {
    /// Operators below autograd.
    pub kernels: u64,
    /// How often the host stood still until the device had done something.
    pub waits: u64,
    /// Copies from the host.
    pub uploads: u64,
    /// Their bytes.
    pub uploaded_bytes: u64,
    /// Copies to the host.
    pub downloads: u64,
    /// Their bytes.
    pub downloaded_bytes: u64,
    /// Bytes of the tensors that there are.
    pub bytes: u64,
    /// The most that there were at once.
    pub peak_bytes: u64,
    /// Bytes of pinned memory that are in use.
    pub pinned_bytes: u64,
    /// Uses that a real device would answer with garbage, where nothing could be thrown.
    pub defects: u64,
}

/// From now on the device of this very process, if it is the pretended one, has so many bytes, and the host so many that
/// can be pinned.
pub fn limit(device_bytes: u64, pinned_bytes: u64) {
    if let Some(limit) = function(c"pretend_cuda_limit") {
        // SAFETY: the library's function of that name takes two numbers.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(u64, u64)>(limit)(device_bytes, pinned_bytes) }
    }
}

impl Counts {
    /// Begins again, if the process has this device.
    pub fn start() {
        if let Some(start) = function(c"pretend_cuda_start") {
            // SAFETY: the library's function of that name takes nothing.
            unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn()>(start)() }
        }
    }

    /// What was counted; `None` if the process has another device, or none.
    #[must_use]
    pub fn read() -> Option<Self> {
        let read = function(c"pretend_cuda_read")?;
        let mut counts = Self::default();
        // SAFETY: the library's function of that name writes ten numbers, which are these fields in their order.
        unsafe { std::mem::transmute::<*mut libc::c_void, extern "C" fn(*mut Self)>(read)(&raw mut counts) }
        Some(counts)
    }
}

fn function(name: &std::ffi::CStr) -> Option<*mut libc::c_void> {
    // SAFETY: looks a name up in what is loaded.
    let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()) };
    (!found.is_null()).then_some(found)
}
