//! Blocking calls on the asynchronous runtime of this package.

use std::future::Future;
use std::io;
use std::sync::mpsc::sync_channel;
use std::sync::{Mutex, PoisonError};

use tokio::runtime::{Builder, Handle, Runtime};

/// Threads of the runtime. Two saturate a local server; the work per request is small.
const THREADS: usize = 2;

/// Runtime of all stores of this process. It lives until the process ends.
static RUNTIME: Mutex<Option<Runtime>> = Mutex::new(None);

/// Returns the handle of the runtime. The first call starts it.
pub(crate) fn handle() -> io::Result<Handle> {
    let mut runtime = RUNTIME.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(started) = &*runtime {
        return Ok(started.handle().clone());
    }
    let started = Builder::new_multi_thread().worker_threads(THREADS).thread_name("store").enable_all().build()?;
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
