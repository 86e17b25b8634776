//! A server on a thread of its own.
//!
//! Its own runtime, so that whatever is asked of it keeps nobody waiting who has to do with the run: signals are heard and
//! checkpoints written elsewhere. An address that is taken ends no run: it is said, and tried again.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::{Semaphore, watch};
use tokio_io_timeout::TimeoutStream;

use crate::access::{Access, Token};
use crate::config::{Address, ServeConfig};
use crate::ends::over;
use crate::limits::{CONNECTIONS, HEAD_BYTES, HEAD_TIME, WRITE_TIME};
use crate::routes::{Site, router};
use crate::seen::Seen;
use crate::subject::Subject;

/// Between two tries to have an address.
const AGAIN: Duration = Duration::from_secs(10);

/// What clients may still get when a run has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a client hears for whom there is no room.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Whoever is told where the server listens: once, when it does.
pub type Heard = Box<dyn FnOnce(&Address) + Send>;

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Server {
    end: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Starts to answer; none where nothing is to be served. `heard` is told the address as soon as there is one.
    ///
    /// # Errors
    /// For an address or a token that cannot be read. That an address is taken is none: it is said, and tried again.
    pub fn start(
        config: &ServeConfig,
        seen: &Arc<Seen>,
        subject: Arc<dyn Subject>,
        heard: Heard,
    ) -> Result<Option<Self>, String> {
        let Some(address) = config.address()? else { return Ok(None) };
        let access = match &address {
            Address::Socket(_) => Access::over_socket(),
            Address::Tcp(_) => {
                Access::over_tcp(Token::find(&config.token_file)?, config.hosts.clone(), address.is_local())
            }
        };
        let (end, ends) = watch::channel(false);
        let router = router(Site::new(Arc::clone(seen), subject, access, ends.clone()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().max_blocking_threads(2).build();
        let runtime = runtime.map_err(|error| format!("cannot start the server: {error}"))?;
        let body = move || {
            runtime.block_on(until_it_ends(address, router, ends, heard));
            // What still makes an answer is nobody's any more.
            runtime.shutdown_timeout(LAST_WORDS);
        };
        let thread = std::thread::Builder::new().name("serve".to_owned()).spawn(body);
        let thread = thread.map_err(|error| format!("cannot start the server: {error}"))?;
        Ok(Some(Self { end, thread: Some(thread) }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.send_replace(true);
        if let Some(thread) = self.thread.take() {
            // Bounded: see `LAST_WORDS`.
            let _ = thread.join();
        }
    }
}

/// Where connections come from.
enum Listener {
    Tcp(TcpListener),
    Socket(UnixListener, PathBuf),
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Self::Socket(_, path) = self {
            let _ = fs::remove_file(path);
        }
    }
}

async fn until_it_ends(address: Address, router: Router, mut ends: watch::Receiver<bool>, heard: Heard) {
    let listener = tokio::select! {
        listener = bind(&address) => listener,
        () = over(&mut ends) => return,
    };
    heard(&listener.address(&address));
    let for_each = ends.clone();
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let connections = Arc::clone(&places);
    tokio::select! {
        () = accept(&listener, &connections, &router, &for_each) => {}
        () = over(&mut ends) => {}
    }
    drop(listener);
    // Who is being answered is answered.
    let all = u32::try_from(CONNECTIONS).expect("a few");
    let _ = tokio::time::timeout(LAST_WORDS, places.acquire_many(all)).await;
}

/// Has the address, sooner or later.
async fn bind(address: &Address) -> Listener {
    let mut is_told = false;
    loop {
        let bound = match address {
            Address::Tcp(address) => TcpListener::bind(address).await.map(Listener::Tcp),
            Address::Socket(path) => socket(path).map(|listener| Listener::Socket(listener, path.clone())),
        };
        match bound {
            Ok(listener) => return listener,
            Err(error) => {
                if !std::mem::replace(&mut is_told, true) {
                    tracing::warn!(%address, %error, "nothing is served yet; it is tried again every ten seconds");
                }
                tokio::time::sleep(AGAIN).await;
            }
        }
    }
}

/// A socket that its owner alone may open. One that nobody listens at any more is replaced.
fn socket(path: &Path) -> io::Result<UnixListener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        match std::os::unix::net::UnixStream::connect(path) {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => fs::remove_file(path)?,
            _ => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        }
    }
    let listener = UnixListener::bind(path)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(listener)
}

impl Listener {
    fn address(&self, asked: &Address) -> Address {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), Address::Tcp),
            Self::Socket(_, path) => Address::Socket(path.clone()),
        }
    }
}

async fn accept(listener: &Listener, places: &Arc<Semaphore>, router: &Router, ends: &watch::Receiver<bool>) {
    loop {
        let served = match listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // Events are small, and are to be seen when they are said.
                let _ = stream.set_nodelay(true);
                take(stream, places, router, ends);
            }),
            Listener::Socket(listener, _) => {
                listener.accept().await.map(|(stream, _)| take(stream, places, router, ends))
            }
        };
        if let Err(error) = served {
            // Out of files, or a client that left at once: others may come.
            tracing::debug!(%error, "a connection could not be taken");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

fn take<S>(stream: S, places: &Arc<Semaphore>, router: &Router, ends: &watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Ok(place) = Arc::clone(places).try_acquire_owned() else {
        let mut stream = stream;
        tokio::spawn(async move {
            let _ = tokio::time::timeout(Duration::from_millis(100), stream.write_all(FULL)).await;
        });
        return;
    };
    let (router, ends) = (router.clone(), ends.clone());
    tokio::spawn(async move {
        let _place = place;
        answer(stream, router, ends).await;
    });
}

async fn answer<S>(stream: S, router: Router, mut ends: watch::Receiver<bool>)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // That a client leaves, or says what is no request, is its own affair.
    tokio::select! {
        done = connection.as_mut() => return drop(done),
        () = over(&mut ends) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
