//! All-reduce of tensors on CUDA devices by NCCL: safe wrapper of `native/nccl.cpp`.

use std::ffi::{c_int, c_void};
use std::ptr::NonNull;

use tch::{Device, Kind, Tensor};
use trainer_plan::Error;

use super::{CheckStatus as _, RawTensor, check, cuda_index};

unsafe extern "C" {
    fn cloze_nccl_id(id: *mut c_void) -> c_int;
    fn cloze_nccl_connect(
        id: *const c_void,
        rank: c_int,
        size: c_int,
        index: c_int,
        communicator: *mut *mut c_void,
    ) -> c_int;
    fn cloze_nccl_all_reduce(communicator: *mut c_void, tensor: RawTensor, work: *mut *mut c_void) -> c_int;
    fn cloze_nccl_check(communicator: *mut c_void) -> c_int;
    fn cloze_nccl_abort(communicator: *mut c_void) -> c_int;
    fn cloze_nccl_free(communicator: *mut c_void);
    fn cloze_device_work_order(work: *const c_void) -> c_int;
    fn cloze_device_work_is_done(work: *const c_void, is_done: *mut c_int) -> c_int;
    fn cloze_device_work_free(work: *mut c_void);
}

/// Identity of a communicator. One rank makes it, and all ranks connect with it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NcclId([u8; 128]);

impl NcclId {
    /// Makes an identity.
    pub(crate) fn new() -> Result<Self, Error> {
        let mut bytes = [0; 128];
        // SAFETY: 128 bytes are written.
        check(unsafe { cloze_nccl_id(bytes.as_mut_ptr().cast()) })?;
        Ok(Self(bytes))
    }

    /// Reads [`bytes`](Self::bytes); `None` for another length.
    pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Self> {
        bytes.try_into().ok().map(Self)
    }

    /// Returns the bytes to send to the other ranks.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Connections between the CUDA devices of all ranks.
///
/// All ranks must start the same operations in the same order.
#[derive(Debug)]
pub(crate) struct NcclGroup(NonNull<c_void>);

// SAFETY: one thread starts operations; those of other threads, checks and an abort, exclude each other by a lock.
unsafe impl Send for NcclGroup {}
// SAFETY: as above.
unsafe impl Sync for NcclGroup {}

impl NcclGroup {
    /// Connects all ranks, and waits for them without a limit.
    ///
    /// # Panics
    /// If the device is not a CUDA device.
    pub(crate) fn connect(id: &NcclId, rank: u32, world_size: u32, device: Device) -> Result<Self, Error> {
        let index = cuda_index(device).expect("NCCL connects CUDA devices");
        let [rank, size] = [rank, world_size].map(|it| c_int::try_from(it).expect("ranks are limited"));
        let mut communicator = std::ptr::null_mut();
        // SAFETY: 128 bytes are read; on success `communicator` is a new handle.
        check(unsafe { cloze_nccl_connect(id.0.as_ptr().cast(), rank, size, index, &raw mut communicator) })?;
        Ok(Self(NonNull::new(communicator).expect("a success returns a handle")))
    }

    /// Starts to replace `tensor` by its sum over all ranks, after all work of the current stream.
    pub(crate) fn all_reduce(&self, tensor: &Tensor) -> Result<DeviceWork, Error> {
        let mut work = std::ptr::null_mut();
        // SAFETY: an owned and a borrowed handle; libtorch's allocator keeps the memory until the end.
        check(unsafe { cloze_nccl_all_reduce(self.0.as_ptr(), tensor.as_ptr().cast(), &raw mut work) })?;
        Ok(DeviceWork(NonNull::new(work).expect("a success returns a handle")))
    }

    /// Sums a number over all ranks, and waits for the sum without a limit.
    #[expect(clippy::disallowed_methods, reason = "once, before the first step")]
    pub(crate) fn all_reduce_one(&self, device: Device) -> Result<(), Error> {
        let one = Tensor::f_ones([1], (Kind::Float, device)).checked()?;
        self.all_reduce(&one)?.order()?;
        f64::try_from(&one.f_to_device(Device::Cpu).checked()?.f_view([]).checked()?).checked().map(drop)
    }

    /// Fails if NCCL has noticed a failure of a rank or of the network.
    pub(crate) fn check(&self) -> Result<(), Error> {
        // SAFETY: an owned handle.
        check(unsafe { cloze_nccl_check(self.0.as_ptr()) })
    }

    /// Ends all operations, whatever the other ranks do. Their results are undefined, but no stream reports an error.
    pub(crate) fn abort(&self) -> Result<(), Error> {
        // SAFETY: an owned handle.
        check(unsafe { cloze_nccl_abort(self.0.as_ptr()) })
    }
}

impl Drop for NcclGroup {
    fn drop(&mut self) {
        // SAFETY: made by `cloze_nccl_connect`, and freed once.
        unsafe { cloze_nccl_free(self.0.as_ptr()) }
    }
}

/// Operation of a device that has started. It continues after a drop.
#[derive(Debug)]
pub(crate) struct DeviceWork(NonNull<c_void>);

// SAFETY: an event that is recorded once; any thread may query it.
unsafe impl Send for DeviceWork {}
// SAFETY: as above.
unsafe impl Sync for DeviceWork {}

impl DeviceWork {
    /// Lets later work of the current stream wait for the end, without waiting.
    pub(crate) fn order(&self) -> Result<(), Error> {
        // SAFETY: an owned handle.
        check(unsafe { cloze_device_work_order(self.0.as_ptr()) })
    }

    /// Returns whether the device has reached the end.
    pub(crate) fn is_done(&self) -> Result<bool, Error> {
        let mut is_done = 0;
        // SAFETY: an owned handle; one number is written.
        check(unsafe { cloze_device_work_is_done(self.0.as_ptr(), &raw mut is_done) })?;
        Ok(is_done != 0)
    }
}

impl Drop for DeviceWork {
    fn drop(&mut self) {
        // SAFETY: made by an operation of the group, and freed once.
        unsafe { cloze_device_work_free(self.0.as_ptr()) }
    }
}
