//! Store and process group of libtorch's c10d: safe wrapper of `native/c10d.cpp`.

use std::ffi::{CString, c_char, c_int, c_void};
use std::ptr::NonNull;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tch::{Device, Tensor};
use trainer_plan::Error;

use super::{RawTensor, check};

unsafe extern "C" {
    fn cloze_store_open(
        host: *const c_char,
        port: u16,
        serves: c_int,
        prefix: *const c_char,
        timeout_ms: i64,
        store: *mut *mut c_void,
    ) -> c_int;
    #[cfg(test)]
    fn cloze_store_port(store: *const c_void) -> u16;
    fn cloze_store_set(store: *mut c_void, key: *const c_char, bytes: *const c_void, count: usize) -> c_int;
    fn cloze_store_set_first(
        store: *mut c_void,
        key: *const c_char,
        bytes: *const c_void,
        count: usize,
        value: *mut *const c_void,
        value_count: *mut usize,
    ) -> c_int;
    fn cloze_store_get(
        store: *mut c_void,
        key: *const c_char,
        value: *mut *const c_void,
        value_count: *mut usize,
    ) -> c_int;
    fn cloze_store_has(store: *mut c_void, key: *const c_char, has: *mut c_int) -> c_int;
    fn cloze_store_add(store: *mut c_void, key: *const c_char, amount: i64, sum: *mut i64) -> c_int;
    fn cloze_store_free(store: *mut c_void);
    fn cloze_gloo_connect(
        store: *const c_void,
        prefix: *const c_char,
        address: *const c_char,
        rank: c_int,
        size: c_int,
        timeout_ms: i64,
        operation_timeout_ms: i64,
        group: *mut *mut c_void,
    ) -> c_int;
    fn cloze_group_all_reduce(group: *const c_void, tensor: RawTensor, work: *mut *mut c_void) -> c_int;
    fn cloze_group_all_gather(
        group: *const c_void,
        output: RawTensor,
        input: RawTensor,
        work: *mut *mut c_void,
    ) -> c_int;
    fn cloze_group_broadcast(group: *const c_void, tensor: RawTensor, work: *mut *mut c_void) -> c_int;
    fn cloze_group_free(group: *mut c_void);
    fn cloze_work_wait(work: *mut c_void, timeout_ms: i64, is_done: *mut c_int) -> c_int;
    fn cloze_work_free(work: *mut c_void);
}

/// Server and prefix of a [`KeyStore`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreAddress<'a> {
    /// Host name or address of the server.
    pub host: &'a str,
    /// Port of the server. 0 lets a server choose.
    pub port: u16,
    /// Prefix of all keys.
    pub prefix: &'a str,
}

/// Connection to the key-value store of a run (`c10d::TCPStore`). Values that ranks add to are decimal numbers.
#[derive(Debug)]
pub(crate) struct KeyStore(NonNull<c_void>);

// SAFETY: the connection runs on no other thread, and c10d locks it for each operation.
unsafe impl Send for KeyStore {}

impl KeyStore {
    /// Connects to the store, and serves it first if `serves` is set: on all addresses of this host, until the drop.
    pub(crate) fn open(address: StoreAddress<'_>, serves: bool, timeout: Duration) -> Result<Self, Error> {
        let host = c_string(address.host)?;
        let prefix = c_string(address.prefix)?;
        let mut store = std::ptr::null_mut();
        // SAFETY: two C strings; on success `store` is a new handle.
        check(unsafe {
            cloze_store_open(
                host.as_ptr(),
                address.port,
                c_int::from(serves),
                prefix.as_ptr(),
                milliseconds(timeout),
                &raw mut store,
            )
        })?;
        Ok(Self(NonNull::new(store).expect("a success returns a handle")))
    }

    /// Returns the port of the server.
    #[cfg(test)]
    pub(crate) fn port(&self) -> u16 {
        // SAFETY: an owned handle.
        unsafe { cloze_store_port(self.0.as_ptr()) }
    }

    /// Sets the value of a key.
    pub(crate) fn set(&self, key: &str, value: &[u8]) -> Result<(), Error> {
        let key = c_string(key)?;
        // SAFETY: an owned handle, a C string and bytes that are copied.
        check(unsafe { cloze_store_set(self.0.as_ptr(), key.as_ptr(), value.as_ptr().cast(), value.len()) })
    }

    /// Sets the value of a key that has none, and returns the value that the key has then.
    pub(crate) fn set_first(&self, key: &str, value: &[u8]) -> Result<Vec<u8>, Error> {
        let key = c_string(key)?;
        let mut found = std::ptr::null();
        let mut count = 0;
        // SAFETY: an owned handle, a C string and bytes that are copied; on success `found` has `count` bytes.
        unsafe {
            check(cloze_store_set_first(
                self.0.as_ptr(),
                key.as_ptr(),
                value.as_ptr().cast(),
                value.len(),
                &raw mut found,
                &raw mut count,
            ))?;
            Ok(copied(found, count))
        }
    }

    /// Returns the value of a key; `None` if it has none.
    pub(crate) fn get(&self, key: &str) -> Result<Option<Vec<u8>>, Error> {
        let key = c_string(key)?;
        let mut has = 0;
        let mut found = std::ptr::null();
        let mut count = 0;
        // SAFETY: an owned handle and a C string; on success `found` has `count` bytes.
        unsafe {
            check(cloze_store_has(self.0.as_ptr(), key.as_ptr(), &raw mut has))?;
            if has == 0 {
                return Ok(None);
            }
            check(cloze_store_get(self.0.as_ptr(), key.as_ptr(), &raw mut found, &raw mut count))?;
            Ok(Some(copied(found, count)))
        }
    }

    /// Adds to the number of a key, 0 at first, and returns the sum.
    pub(crate) fn add(&self, key: &str, amount: i64) -> Result<i64, Error> {
        let key = c_string(key)?;
        let mut sum = 0;
        // SAFETY: an owned handle and a C string; one number is written.
        check(unsafe { cloze_store_add(self.0.as_ptr(), key.as_ptr(), amount, &raw mut sum) })?;
        Ok(sum)
    }
}

impl Drop for KeyStore {
    fn drop(&mut self) {
        // SAFETY: made by `cloze_store_open`, and freed once.
        unsafe { cloze_store_free(self.0.as_ptr()) }
    }
}

/// Place of a rank among those that connect.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupPlace<'a> {
    /// Prefix of the keys of the group in the store.
    pub prefix: &'a str,
    /// Number of the rank in the group.
    pub rank: u32,
    /// Number of ranks of the group.
    pub ranks: u32,
}

/// Connections between ranks, for tensors in host memory (`c10d::ProcessGroupGloo`).
///
/// All of its ranks must start the same operations in the same order. The drop waits for operations that have started.
#[derive(Debug)]
pub(crate) struct GlooGroup {
    handle: Mutex<GlooHandle>,
    ranks: u32,
}

#[derive(Debug)]
struct GlooHandle(NonNull<c_void>);

// SAFETY: c10d's queue of operations is locked; one thread at a time starts operations.
unsafe impl Send for GlooHandle {}

impl GlooGroup {
    /// Connects the ranks of a group. `address` is an address of this host; c10d chooses one if it is `None`. `timeout`
    /// limits the connection, `operation_timeout` each operation.
    pub(crate) fn connect(
        store: &KeyStore,
        place: GroupPlace<'_>,
        address: Option<&str>,
        timeout: Duration,
        operation_timeout: Duration,
    ) -> Result<Self, Error> {
        let address = address.map(c_string).transpose()?;
        let address = address.as_ref().map_or(std::ptr::null(), |address| address.as_ptr());
        let prefix = c_string(place.prefix)?;
        let [rank, size] = [place.rank, place.ranks].map(|it| c_int::try_from(it).expect("ranks are limited"));
        let mut group = std::ptr::null_mut();
        // SAFETY: an owned handle, a C string, and a C string or null; on success `group` is a new handle.
        check(unsafe {
            cloze_gloo_connect(
                store.0.as_ptr(),
                prefix.as_ptr(),
                address,
                rank,
                size,
                milliseconds(timeout),
                milliseconds(operation_timeout),
                &raw mut group,
            )
        })?;
        let handle = Mutex::new(GlooHandle(NonNull::new(group).expect("a success returns a handle")));
        Ok(Self { handle, ranks: place.ranks })
    }

    fn lock(&self) -> MutexGuard<'_, GlooHandle> {
        self.handle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts to replace `tensor` by its sum over all ranks. It must not be used before the end of the operation.
    pub(crate) fn all_reduce(&self, tensor: &Tensor) -> Result<Work, Error> {
        let group = self.lock();
        Work::started(|work| {
            // SAFETY: an owned and a borrowed handle; the operation keeps the tensor.
            unsafe { cloze_group_all_reduce(group.0.as_ptr(), tensor.as_ptr().cast(), work) }
        })
    }

    /// Starts to collect the `own` bytes of all ranks, as many from each, in the order of the ranks.
    pub(crate) fn all_gather(&self, own: &[u8]) -> Result<(Work, Tensor), Error> {
        let input = Tensor::from_slice(own);
        let size = own.len() * self.ranks as usize;
        let output =
            Tensor::zeros([i64::try_from(size).expect("lengths are limited")], (tch::Kind::Uint8, Device::Cpu));
        let group = self.lock();
        let work = Work::started(|work| {
            // SAFETY: an owned and two borrowed handles; the operation keeps the tensors.
            unsafe { cloze_group_all_gather(group.0.as_ptr(), output.as_ptr().cast(), input.as_ptr().cast(), work) }
        })?;
        Ok((work, output))
    }

    /// Starts to replace `tensor` by that of rank 0.
    pub(crate) fn broadcast(&self, tensor: &Tensor) -> Result<Work, Error> {
        let group = self.lock();
        Work::started(|work| {
            // SAFETY: an owned and a borrowed handle; the operation keeps the tensor.
            unsafe { cloze_group_broadcast(group.0.as_ptr(), tensor.as_ptr().cast(), work) }
        })
    }
}

impl Drop for GlooGroup {
    fn drop(&mut self) {
        // SAFETY: made by `cloze_gloo_connect`, and freed once.
        unsafe { cloze_group_free(self.lock().0.as_ptr()) }
    }
}

/// Operation that has started. It continues after a drop.
#[derive(Debug)]
pub(crate) struct Work(NonNull<c_void>);

// SAFETY: any one thread may wait for the operation, which runs on threads of c10d.
unsafe impl Send for Work {}

impl Work {
    fn started(start: impl FnOnce(*mut *mut c_void) -> c_int) -> Result<Self, Error> {
        let mut work = std::ptr::null_mut();
        check(start(&raw mut work))?;
        Ok(Self(NonNull::new(work).expect("a success returns a handle")))
    }

    /// Waits for the end of the operation, at most `timeout`. Returns whether it has ended.
    ///
    /// # Errors
    /// The reason why the operation failed.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<bool, Error> {
        let mut is_done = 0;
        // SAFETY: an owned handle; one number is written.
        check(unsafe { cloze_work_wait(self.0.as_ptr(), milliseconds(timeout), &raw mut is_done) })?;
        Ok(is_done != 0)
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        // SAFETY: made by an operation of the group, and freed once.
        unsafe { cloze_work_free(self.0.as_ptr()) }
    }
}

fn c_string(text: &str) -> Result<CString, Error> {
    CString::new(text).map_err(|_| Error::Native(format!("{text:?} has a NUL byte")))
}

fn milliseconds(timeout: Duration) -> i64 {
    i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX)
}

/// Copies bytes that C++ keeps.
///
/// # Safety
/// `bytes` must have `count` bytes.
unsafe fn copied(bytes: *const c_void, count: usize) -> Vec<u8> {
    if count == 0 {
        return Vec::new();
    }
    // SAFETY: as the caller promises; the bytes are not null, because there are some.
    unsafe { std::slice::from_raw_parts(bytes.cast::<u8>(), count) }.to_vec()
}
