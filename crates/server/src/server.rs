//! HTTP server on its own thread.
//!
//! The server has its own async runtime, so requests never delay the run: other threads handle signals and write
//! checkpoints. If the address is in use, the server logs a warning and retries; the run continues.
//!
//! This module enforces the limits of connections: their number and age, and the timeouts for a request head, an idle
//! connection and a client that does not read. `tower-http` enforces limits only after a request head is complete; its
//! limits are in `routes`.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener, UnixStream};
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use tokio_io_timeout::TimeoutStream;

use crate::access::{Access, Token};
use crate::backend::Backend;
use crate::config::{ListenAddress, ServeConfig};
use crate::limits::{AGE, CONNECTIONS, HEAD_BYTES, HEAD_TIME, SHORT, SHORT_TIME, WRITE_TIME};
use crate::routes::{AppState, router};
use crate::run_state::RunState;
use crate::shutdown::wait;

/// First and maximum delay between two attempts to bind the address.
const RETRY_DELAYS: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// Time before a warning about a missing folder of the socket. A run creates its folder when it is planned.
const FOLDER_TIME: Duration = Duration::from_secs(60);

/// Increment of the nice value of the server thread relative to the run.
const NICE: i32 = 10;

/// Time to finish pending responses after the run has ended.
const SHUTDOWN_TIME: Duration = Duration::from_millis(500);

/// Response if the maximum number of connections is reached.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Running server. Dropping it stops the server.
#[derive(Debug)]
pub struct Server {
    end: watch::Sender<bool>,
    /// Closes when the server thread has ended.
    done: Receiver<()>,
}

impl Server {
    /// Starts the server. Returns `None` if no address is configured. When the server listens, it calls `on_bound` with
    /// the address.
    ///
    /// # Errors
    /// If the address or the token is invalid. An address in use is no error: the server logs a warning and retries.
    pub fn start(
        config: &ServeConfig,
        seen: &Arc<RunState>,
        subject: Arc<dyn Backend>,
        on_bound: impl FnOnce(&ListenAddress) + Send + 'static,
    ) -> Result<Option<Self>, String> {
        let Some(address) = config.address()? else { return Ok(None) };
        if let ListenAddress::Socket(path) = &address {
            check_socket_path(path)?;
        }
        let access = match &address {
            ListenAddress::Socket(_) => Access::over_socket(),
            ListenAddress::Tcp(_) => {
                Access::over_tcp(Token::find(&config.token_file)?, config.allowed_hosts.clone(), address.is_local())
            }
        };
        let (end, ends) = watch::channel(false);
        let router = router(AppState::new(Arc::clone(seen), subject, access, ends.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
        let runtime = runtime.map_err(|error| format!("serve: cannot start the server thread: {error}"))?;
        let (alive, done) = sync_channel(0);
        let body = move || {
            let _alive: std::sync::mpsc::SyncSender<()> = alive;
            // Applies to this thread and the threads that it starts, so that the run has priority on a busy core.
            let _ = rustix::process::nice(NICE);
            runtime.block_on(serve_until_end(address, router, ends, on_bound));
            // Abandons blocking requests that are still running.
            runtime.shutdown_timeout(SHUTDOWN_TIME);
        };
        let thread = std::thread::Builder::new().name("serve".to_owned()).spawn(body);
        thread.map_err(|error| format!("serve: cannot start the server thread: {error}"))?;
        Ok(Some(Self { end, done }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.send_replace(true);
        // Pending responses, blocking requests and a margin. A thread that still waits for a disk is abandoned.
        let _ = self.done.recv_timeout(3 * SHUTDOWN_TIME);
    }
}

/// Source of connections.
enum Listener {
    Tcp(TcpListener),
    Socket(UnixListener, PathBuf, Option<Inode>),
}

/// Identity of a file: device and inode number.
type Inode = (u64, u64);

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Socket(_, path, own) = self
            && own.is_some()
            && inode(path) == *own
        {
            let _ = fs::remove_file(path);
        }
    }
}

fn inode(path: &Path) -> Option<Inode> {
    fs::symlink_metadata(path).ok().map(|found| (found.dev(), found.ino()))
}

/// Returns an error if the path exists and is not a socket, because binding would never succeed.
fn check_socket_path(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let path = path.display();
            Err(format!("serve.address: {path}: the path exists and is no socket; choose another path"))
        }
        _ => Ok(()),
    }
}

async fn serve_until_end(
    address: ListenAddress,
    router: Router,
    mut ends: watch::Receiver<bool>,
    on_bound: impl FnOnce(&ListenAddress),
) {
    let listener = tokio::select! {
        listener = bind(&address) => listener,
        () = wait(&mut ends) => return,
    };
    on_bound(&listener.address(&address));
    let end_of_connections = ends.clone();
    let places = ConnectionSlots::new();
    tokio::select! {
        () = accept(&listener, &places, &router, &end_of_connections) => {}
        () = wait(&mut ends) => {}
    }
    drop(listener);
    // Pending responses are completed.
    let _ = tokio::time::timeout(SHUTDOWN_TIME, places.wait_for_connections()).await;
}

/// Binds the address. Retries until it succeeds.
async fn bind(address: &ListenAddress) -> Listener {
    let begun = Instant::now();
    let mut delay = RETRY_DELAYS.0;
    let mut has_warned = false;
    loop {
        let bound = match address {
            ListenAddress::Tcp(address) => TcpListener::bind(address).await.map(Listener::Tcp),
            ListenAddress::Socket(path) => socket(path).await,
        };
        match bound {
            Ok(listener) => return listener,
            Err(error) => {
                let may_appear = error.kind() == io::ErrorKind::NotFound && begun.elapsed() < FOLDER_TIME;
                if !may_appear && !std::mem::replace(&mut has_warned, true) {
                    let address = schemas::printable(&address.to_string()).to_string();
                    tracing::warn!("server: cannot listen on {address} ({error}); retrying until it succeeds");
                }
                tokio::time::sleep(delay).await;
                delay = RETRY_DELAYS.1.min(2 * delay);
            }
        }
    }
}

/// Binds a socket with mode 0600 from the moment that its path exists. Replaces a stale socket without a listener.
async fn socket(path: &Path) -> io::Result<Listener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // Connects without waiting: a socket with a full queue has a listener too.
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            _ => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens on this socket")),
        }
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = folder.join(format!(".{}.s", std::process::id()));
    if fs::symlink_metadata(&made).is_ok_and(|found| found.file_type().is_socket()) {
        // Of a killed process with the same id.
        fs::remove_file(&made)?;
    }
    let listener = UnixListener::bind(&made)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
    fs::rename(&made, path)?;
    Ok(Listener::Socket(listener, path.to_owned(), inode(path)))
}

impl Listener {
    fn address(&self, configured: &ListenAddress) -> ListenAddress {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(|_| configured.clone(), ListenAddress::Tcp),
            Self::Socket(_, path, _) => ListenAddress::Socket(path.clone()),
        }
    }
}

/// Slots for connections.
struct ConnectionSlots {
    usual: Arc<Semaphore>,
    /// Slots for one short request each, used when all others are taken.
    short: Arc<Semaphore>,
    count: u32,
}

impl ConnectionSlots {
    /// Creates [`CONNECTIONS`] slots, or fewer if the limit of open files is low.
    fn new() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let count = u32::try_from(files / 8).unwrap_or(u32::MAX).clamp(1, CONNECTIONS);
        let places = |count: u32| Arc::new(Semaphore::new(count as usize));
        Self { usual: places(count), short: places(SHORT.min(count)), count }
    }

    async fn wait_for_connections(&self) {
        let _ = self.usual.acquire_many(self.count).await;
    }
}

async fn accept(listener: &Listener, places: &ConnectionSlots, router: &Router, ends: &watch::Receiver<bool>) {
    loop {
        let served = match listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // Events are small and must arrive without delay.
                let _ = stream.set_nodelay(true);
                spawn_connection(stream, places, router, ends);
            }),
            Listener::Socket(listener, ..) => {
                listener.accept().await.map(|(stream, _)| spawn_connection(stream, places, router, ends))
            }
        };
        if let Err(error) = served {
            // The process is out of file descriptors, or the client has disconnected: later connections may succeed.
            tracing::debug!(%error, "server: cannot accept a connection");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn spawn_connection<S>(stream: S, places: &ConnectionSlots, router: &Router, ends: &watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let usual = Arc::clone(&places.usual).try_acquire_owned().map(|place| (place, HEAD_TIME));
    let Ok((place, head_time)) =
        usual.or_else(|_| Arc::clone(&places.short).try_acquire_owned().map(|place| (place, SHORT_TIME)))
    else {
        let mut stream = stream;
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_millis(100), stream.write_all(FULL)).await;
        });
        return;
    };
    let router = router.clone();
    let ends = ends.clone();
    tokio::spawn(async move {
        let _place = place;
        serve_connection(stream, router, ends, head_time).await;
    });
}

async fn serve_connection<S>(stream: S, router: Router, mut ends: watch::Receiver<bool>, head_time: Duration)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        // A short slot serves one request.
        .keep_alive(head_time == HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // Disconnects and malformed requests of clients are not logged.
    tokio::select! {
        done = connection.as_mut() => return drop(done),
        () = wait(&mut ends) => {}
        // A pending request is still answered.
        () = tokio::time::sleep(AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
