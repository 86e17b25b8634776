//! Asynchronous copies of tensors to host memory: safe wrapper of `native/copies.cpp`.
//!
//! One checkpoint is one group of copies. Only a reader of the bytes waits for the copies.

use std::ffi::{c_int, c_void};
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::OnceLock;

use tch::{Device, Tensor};
use trainer_plan::Error;

use super::{RawTensor, check, cuda_index, pointers};

unsafe extern "C" {
    fn cloze_copies_begin(
        tensors: *const RawTensor,
        places: *const usize,
        count: usize,
        volatile_count: usize,
        total: usize,
        block: usize,
        index: c_int,
        copies: *mut *mut c_void,
    ) -> c_int;
    fn cloze_copies_are_pinned(copies: *const c_void) -> c_int;
    fn cloze_copies_hold(copies: *const c_void) -> c_int;
    fn cloze_copies_wait(copies: *const c_void) -> c_int;
    fn cloze_copies_block(copies: *const c_void, number: usize) -> *const c_void;
    fn cloze_copies_free(copies: *mut c_void);
}

/// Bytes of a block of pinned memory. The allocator rounds each block up to a power of two, so this size wastes
/// nothing.
pub(crate) const BLOCK: usize = 64 << 20;
/// Alignment of each tensor in bytes.
const ALIGNMENT: usize = 64;

/// Group of tensors that are copied to host memory one after the other.
#[derive(Debug)]
pub(crate) struct Copies {
    raw: NonNull<c_void>,
    total: usize,
    block: usize,
    // Error of the copies, known after the first wait.
    failure: OnceLock<Option<String>>,
}

// SAFETY: only the device writes the memory, and it is read only after the wait; any thread may wait for events.
unsafe impl Send for Copies {}
// SAFETY: as above; no function changes it.
unsafe impl Sync for Copies {}

/// Tensors to copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sources<'a> {
    /// Tensors that any following operation may change.
    pub changing: &'a [&'a Tensor],
    /// Tensors that do not change before [`Copies::ensure`].
    pub resting: &'a [&'a Tensor],
}

impl Copies {
    /// Starts to copy tensors of a CUDA device into blocks of `block` bytes. Returns the byte range of each tensor, the
    /// changing ones first.
    ///
    /// # Panics
    /// If the device is not a CUDA device.
    pub(crate) fn begin(
        sources: Sources<'_>,
        device: Device,
        block: usize,
    ) -> Result<(Self, Vec<Range<usize>>), Error> {
        let index = cuda_index(device).expect("copies of the CPU's tensors are made at once");
        assert!(block > 0 && block.is_multiple_of(ALIGNMENT), "blocks of {block} bytes");
        let tensors = [sources.changing, sources.resting].concat();
        let mut total = 0_usize;
        let place = |tensor: &&Tensor| {
            let start = total.next_multiple_of(ALIGNMENT);
            total = start + tensor.numel() * tensor.kind().elt_size_in_bytes();
            start..total
        };
        let places: Vec<Range<usize>> = tensors.iter().map(place).collect();
        let starts: Vec<usize> = places.iter().map(|place| place.start).collect();
        let mut raw = std::ptr::null_mut();
        // SAFETY: as many borrowed handles as places, all within `total`; on success `raw` is new, and freed once.
        check(unsafe {
            cloze_copies_begin(
                pointers(&tensors).as_ptr(),
                starts.as_ptr(),
                tensors.len(),
                sources.changing.len(),
                total,
                block,
                index,
                &raw mut raw,
            )
        })?;
        let raw = NonNull::new(raw).expect("it was made");
        Ok((Self { raw, total, block, failure: OnceLock::new() }, places))
    }

    /// Whether the host memory is pinned. If it is not, the copies are complete.
    pub(crate) fn are_pinned(&self) -> bool {
        // SAFETY: it lives as long as `self`.
        unsafe { cloze_copies_are_pinned(self.raw.as_ptr()) != 0 }
    }

    /// Number of bytes of all tensors.
    pub(crate) fn total(&self) -> usize {
        self.total
    }

    /// Makes all later work of the device wait for the copies. The host does not wait.
    pub(crate) fn ensure(&self) -> Result<(), Error> {
        // SAFETY: it lives as long as `self`.
        check(unsafe { cloze_copies_hold(self.raw.as_ptr()) })
    }

    /// Returns a range of the bytes, in pieces. Waits until all copies are complete.
    pub(crate) fn pieces(&self, bytes: &Range<usize>) -> Result<Vec<&[u8]>, Error> {
        assert!(bytes.end <= self.total, "{bytes:?} of {}", self.total);
        self.arrive()?;
        let mut pieces = Vec::new();
        let mut at = bytes.start;
        while at < bytes.end {
            let number = at / self.block;
            let within = at % self.block;
            let length = (bytes.end - at).min(self.block - within);
            // SAFETY: within a block, which lives as long as `self`; all writes to it are complete.
            pieces.push(unsafe {
                let start = cloze_copies_block(self.raw.as_ptr(), number).cast::<u8>();
                std::slice::from_raw_parts(start.add(within), length)
            });
            at += length;
        }
        Ok(pieces)
    }

    fn arrive(&self) -> Result<(), Error> {
        // SAFETY: it lives as long as `self`.
        let wait = || match check(unsafe { cloze_copies_wait(self.raw.as_ptr()) }) {
            Ok(()) => None,
            Err(Error::Native(text)) => Some(text),
            Err(error) => Some(error.to_string()),
        };
        self.failure.get_or_init(wait).clone().map_or(Ok(()), |text| Err(Error::Native(text)))
    }
}

impl Drop for Copies {
    fn drop(&mut self) {
        // SAFETY: made by `begin`, and not used after this.
        unsafe { cloze_copies_free(self.raw.as_ptr()) }
    }
}
