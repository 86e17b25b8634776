//! Blocking calls on the asynchronous runtime of this package.

use std::future::Future;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};

/// Bounds of the number of threads. The work per request is small, but encryption and copies for all readers of a process
/// are on these threads. Two saturate a local server without encryption.
const MIN_THREADS: usize = 2;
const MAX_THREADS: usize = 8;

/// Returns the number of threads: one for each four cores, within the bounds.
fn threads() -> usize {
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    (cores / 4).clamp(MIN_THREADS, MAX_THREADS)
}

/// Runtime of all stores of this process. It lives until the process ends.
static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// Returns the handle of the runtime. The first call starts it.
pub(crate) fn handle() -> io::Result<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(started) = &*runtime {
        return Ok(started.handle().clone());
    }
    let started = Builder::new_multi_thread().worker_threads(threads()).thread_name("store").enable_all().build()?;
    let handle = started.handle().clone();
    *runtime = Some(started);
    Ok(handle)
}

/// Runs `future` on the runtime and waits for it. Any thread may call it, also one of another runtime.
pub(crate) fn run<T: Send + 'static>(future: impl Future<Output = io::Result<T>> + Send + 'static) -> io::Result<T> {
    let (sender, receiver) = sync_channel(1);
    handle()?.spawn(async move {
        // The receiver waits until the answer arrives.
        let _ = sender.send(future.await);
    });
    receiver.recv().unwrap_or_else(|_| Err(io::Error::other("the request ended without an answer (internal error)")))
}
