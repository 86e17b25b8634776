//! A server on its own thread.
//!
//! Its own runtime, so that whatever is asked of it keeps nobody waiting who has to do with the run: signals are heard and
//! checkpoints written elsewhere. An address that is taken ends no run: it is said, and tried again.
//!
//! Here are the bounds of a connection: how many there are, how long a head, silence and a client that reads nothing may
//! last, how old one becomes. `tower-http` sees requests alone, and begins when a head is complete; its bounds are in
//! `routes`.

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
use crate::shutdown::over;

/// Between the first two tries to have an address, and between two at the most.
const AGAIN: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(10));

/// How long a socket's folder may not be there before anybody hears of it: a run makes its own when it is planned.
const FOLDER_TIME: Duration = Duration::from_secs(60);

/// How much nicer than the run its server is.
const NICE: i32 = 10;

/// What clients may still get when a run has ended.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// What a client hears for whom there is no room.
const FULL: &[u8] =
    b"HTTP/1.1 503 Service Unavailable\r\nRetry-After: 5\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";

/// Answers until it is dropped.
#[derive(Debug)]
pub struct Server {
    end: watch::Sender<bool>,
    /// Closes when its thread has ended.
    done: Receiver<()>,
}

impl Server {
    /// Starts to answer; none where nothing is to be served. `on_bound` is called with the address when the server listens.
    ///
    /// # Errors
    /// For an address or a token that cannot be read. That an address is taken is none: it is said, and tried again.
    pub fn start(
        config: &ServeConfig,
        seen: &Arc<RunState>,
        subject: Arc<dyn Backend>,
        on_bound: impl FnOnce(&ListenAddress) + Send + 'static,
    ) -> Result<Option<Self>, String> {
        let Some(address) = config.address()? else { return Ok(None) };
        if let ListenAddress::Socket(path) = &address {
            refuse_others(path)?;
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
        let runtime = runtime.map_err(|error| format!("cannot start the server: {error}"))?;
        let (alive, done) = sync_channel(0);
        let body = move || {
            let _alive: std::sync::mpsc::SyncSender<()> = alive;
            // Of this thread alone, and of those that it starts: where both want a core, the run has it.
            let _ = rustix::process::nice(NICE);
            runtime.block_on(until_it_ends(address, router, ends, on_bound));
            // What still makes an answer is nobody's any more.
            runtime.shutdown_timeout(LAST_WORDS);
        };
        let thread = std::thread::Builder::new().name("serve".to_owned()).spawn(body);
        thread.map_err(|error| format!("cannot start the server: {error}"))?;
        Ok(Some(Self { end, done }))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end.send_replace(true);
        // Those who are answered, those who make answers, and a moment more; who waits for a disk even then is left behind.
        let _ = self.done.recv_timeout(3 * LAST_WORDS);
    }
}

/// Where connections come from.
enum Listener {
    Tcp(TcpListener),
    Socket(UnixListener, PathBuf, Option<Inode>),
}

/// A file, whatever it is called: device and number.
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

/// That nothing else than a socket is there: that would never go.
fn refuse_others(path: &Path) -> Result<(), String> {
    match fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let path = path.display();
            Err(format!("serve.address: {path}: something that is no socket is there; remove it, or name another path"))
        }
        _ => Ok(()),
    }
}

async fn until_it_ends(
    address: ListenAddress,
    router: Router,
    mut ends: watch::Receiver<bool>,
    on_bound: impl FnOnce(&ListenAddress),
) {
    let listener = tokio::select! {
        listener = bind(&address) => listener,
        () = over(&mut ends) => return,
    };
    on_bound(&listener.address(&address));
    let for_each = ends.clone();
    let places = Places::new();
    tokio::select! {
        () = accept(&listener, &places, &router, &for_each) => {}
        () = over(&mut ends) => {}
    }
    drop(listener);
    // Who is being answered is answered.
    let _ = tokio::time::timeout(LAST_WORDS, places.all_left()).await;
}

/// Has the address, sooner or later.
async fn bind(address: &ListenAddress) -> Listener {
    let (begun, mut pause, mut is_told) = (Instant::now(), AGAIN.0, false);
    loop {
        let bound = match address {
            ListenAddress::Tcp(address) => TcpListener::bind(address).await.map(Listener::Tcp),
            ListenAddress::Socket(path) => socket(path).await,
        };
        match bound {
            Ok(listener) => return listener,
            Err(error) => {
                let may_come = error.kind() == io::ErrorKind::NotFound && begun.elapsed() < FOLDER_TIME;
                if !may_come && !std::mem::replace(&mut is_told, true) {
                    let address = schemas::printable(&address.to_string()).to_string();
                    tracing::warn!("{address}: nothing is served yet ({error}); it is tried again and again");
                }
                tokio::time::sleep(pause).await;
                pause = AGAIN.1.min(2 * pause);
            }
        }
    }
}

/// A socket that its owner alone may open, from its first moment on. One that nobody listens at any more is replaced.
async fn socket(path: &Path) -> io::Result<Listener> {
    if fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket()) {
        // Asked without waiting: one whose queue is full is somebody's too.
        match UnixStream::connect(path).await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            _ => return Err(io::Error::new(io::ErrorKind::AddrInUse, "another process listens there")),
        }
    }
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let made = folder.join(format!(".{}.s", std::process::id()));
    let _ = fs::remove_file(&made);
    let listener = UnixListener::bind(&made)?;
    fs::set_permissions(&made, fs::Permissions::from_mode(0o600))?;
    fs::rename(&made, path)?;
    Ok(Listener::Socket(listener, path.to_owned(), inode(path)))
}

impl Listener {
    fn address(&self, asked: &ListenAddress) -> ListenAddress {
        match self {
            Self::Tcp(listener) => listener.local_addr().map_or_else(|_| asked.clone(), ListenAddress::Tcp),
            Self::Socket(_, path, _) => ListenAddress::Socket(path.clone()),
        }
    }
}

/// Room for connections.
struct Places {
    usual: Arc<Semaphore>,
    /// For a short request each, when the others are taken.
    short: Arc<Semaphore>,
    count: u32,
}

impl Places {
    /// As many as there are, and as the process has files for.
    fn new() -> Self {
        let files = rustix::process::getrlimit(rustix::process::Resource::Nofile).current.unwrap_or(u64::MAX);
        let count = u32::try_from(files / 8).unwrap_or(u32::MAX).clamp(1, CONNECTIONS);
        let places = |count: u32| Arc::new(Semaphore::new(count as usize));
        Self { usual: places(count), short: places(SHORT.min(count)), count }
    }

    async fn all_left(&self) {
        let _ = self.usual.acquire_many(self.count).await;
    }
}

async fn accept(listener: &Listener, places: &Places, router: &Router, ends: &watch::Receiver<bool>) {
    loop {
        let served = match listener {
            Listener::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                // Events are small, and are to be seen when they are said.
                let _ = stream.set_nodelay(true);
                take(stream, places, router, ends);
            }),
            Listener::Socket(listener, ..) => {
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

fn take<S>(stream: S, places: &Places, router: &Router, ends: &watch::Receiver<bool>)
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
    let (router, ends) = (router.clone(), ends.clone());
    tokio::spawn(async move {
        let _place = place;
        answer(stream, router, ends, head_time).await;
    });
}

async fn answer<S>(stream: S, router: Router, mut ends: watch::Receiver<bool>, head_time: Duration)
where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut stream = TimeoutStream::new(stream);
    stream.set_write_timeout(Some(WRITE_TIME));
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(head_time)
        // Whoever has a short place goes after one request.
        .keep_alive(head_time == HEAD_TIME)
        .max_buf_size(HEAD_BYTES)
        .serve_connection(TokioIo::new(Box::pin(stream)), TowerToHyperService::new(router));
    tokio::pin!(connection);
    // That a client leaves, or says what is no request, is its own affair.
    tokio::select! {
        done = connection.as_mut() => return drop(done),
        () = over(&mut ends) => {}
        // Its request is still answered.
        () = tokio::time::sleep(AGE) => {}
    }
    connection.as_mut().graceful_shutdown();
    let _ = connection.await;
}
