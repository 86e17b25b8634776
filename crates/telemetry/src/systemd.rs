//! Client of systemd's notification protocol (`sd_notify`). `NOTIFY_SOCKET` names the socket of the service manager.
//!
//! # What
//! | message | sent when |
//! |---|---|
//! | `READY=1` | a run takes its first step or has none left; a preparation starts its workers or has nothing to do |
//! | `STATUS=` | the status changes: phase, step, remaining time |
//! | `WATCHDOG=1` | within every interval of `WATCHDOG_USEC`, while there is progress |
//! | `RELOADING=1`, `READY=1` | before and after the log level is reloaded |
//! | `STOPPING=1` | a stop is requested, or the end is reached |
//!
//! # Why by hand
//! A message is one datagram of text. A service manager that is stopped or gone must not block a run, so the socket is
//! non-blocking. `READY=1` and `STOPPING=1` are kept until the socket has room. All other messages are dropped.

#[cfg(test)]
mod tests;

use std::env;
use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval of calls of [`Notify::beat`].
pub const PULSE: Duration = Duration::from_millis(500);

/// Minimum interval between two status messages. Users do not read them faster.
const STATUS_EVERY: Duration = Duration::from_secs(1);

const READY: &str = "READY=1";
const STOPPING: &str = "STOPPING=1";

/// Connection to the service manager. Without `NOTIFY_SOCKET`, all methods do nothing.
pub struct Notify {
    manager: Option<Manager>,
    state: Mutex<State>,
}

struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// Value of `NOTIFY_SOCKET`.
    name: String,
    /// Maximum interval between two watchdog messages.
    watchdog: Option<Duration>,
}

#[derive(Default)]
struct State {
    is_ready: bool,
    /// Messages that must be delivered but found no room, each at most once.
    pending: Vec<&'static str>,
    progress: String,
    status: String,
    last_status: Option<Instant>,
    last_watchdog: Option<Instant>,
    /// First send error.
    error: Option<String>,
    is_error_reported: bool,
}

/// Environment variables of the protocol.
#[derive(Default)]
struct NotifyVariables {
    socket: Option<OsString>,
    watchdog_us: Option<String>,
    watchdog_pid: Option<String>,
}

impl Notify {
    /// Connects to the service manager that the environment names.
    pub fn of_environment() -> Self {
        Self::from_cause(&NotifyVariables {
            socket: env::var_os("NOTIFY_SOCKET"),
            watchdog_us: env::var("WATCHDOG_USEC").ok(),
            watchdog_pid: env::var("WATCHDOG_PID").ok(),
        })
    }

    fn from_cause(asked: &NotifyVariables) -> Self {
        let Some(name) = asked.socket.as_ref().filter(|name| !name.is_empty()) else {
            return Self { manager: None, state: Mutex::default() };
        };
        let shown = name.to_string_lossy().into_owned();
        let watchdog = asked.watchdog();
        let (manager, error) = match open(name.as_bytes()) {
            Ok((socket, address)) => (Some(Manager { socket, address, name: shown, watchdog }), None),
            Err(error) => (None, Some(send_error(&shown, &error))),
        };
        Self { manager, state: Mutex::new(State { error, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns whether the environment names a service manager.
    pub fn is_asked(&self) -> bool {
        self.manager.is_some() || self.state().error.is_some()
    }

    /// Sends `READY=1`. Later calls do nothing.
    pub fn ready(&self) {
        let Some(manager) = &self.manager else { return };
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_ready, true) {
            manager.send_reliably(&mut state, READY);
        }
    }

    /// Sends `STOPPING=1`.
    pub fn stopping(&self) {
        if let Some(manager) = &self.manager {
            manager.send_reliably(&mut self.state(), STOPPING);
        }
    }

    /// Runs `read` between `RELOADING=1` and `READY=1`.
    pub fn reload<T>(&self, read: impl FnOnce() -> T) -> T {
        // A reload must not make a process ready that is not ready yet.
        let Some(manager) = self.manager.as_ref().filter(|_| self.state().is_ready) else { return read() };
        let is_sent = manager.send(&mut self.state(), "RELOADING=1");
        let got = read();
        if is_sent {
            manager.send_reliably(&mut self.state(), READY);
        }
        got
    }

    /// Sets the progress text, which is part of every status from now on.
    pub fn progress(&self, text: String) {
        if self.manager.is_some() {
            self.state().progress = text;
        }
    }

    /// Sends the status: `doing` and the progress. If `is_alive`, it also sends `WATCHDOG=1` when due. The caller repeats
    /// it every [`PULSE`].
    pub fn beat(&self, doing: &str, is_alive: bool) {
        let Some(manager) = &self.manager else { return };
        let mut state = self.state();
        manager.flush(&mut state);
        let status = match (doing, state.progress.as_str()) {
            ("", progress) => progress.to_owned(),
            (doing, "") => doing.to_owned(),
            (doing, progress) => format!("{doing}: {progress}"),
        };
        // A line feed would start another message.
        let status = status.replace('\n', " ");
        if status != state.status && state.last_status.is_none_or(|last| last.elapsed() >= STATUS_EVERY) {
            state.last_status = Some(Instant::now());
            manager.send(&mut state, &format!("STATUS={status}"));
            state.status = status;
        }
        let Some(interval) = manager.watchdog.filter(|_| is_alive) else { return };
        if state.last_watchdog.is_none_or(|last| last.elapsed() + PULSE >= interval / 2)
            && manager.send(&mut state, "WATCHDOG=1")
        {
            state.last_watchdog = Some(Instant::now());
        }
    }

    /// Returns the first send error, once.
    pub fn complaint(&self) -> Option<String> {
        let mut state = self.state();
        let error = state.error.take().filter(|_| !state.is_error_reported)?;
        state.is_error_reported = true;
        Some(error)
    }
}

impl Manager {
    /// Sends a message, or keeps it until the socket has room.
    fn send_reliably(&self, state: &mut State, line: &'static str) {
        if !state.pending.contains(&line) {
            state.pending.push(line);
        }
        self.flush(state);
    }

    /// Sends the pending messages in order, until the socket has no room.
    fn flush(&self, state: &mut State) {
        while let Some(line) = state.pending.first().copied() {
            if !self.send(state, line) {
                return;
            }
            state.pending.remove(0);
        }
    }

    /// Sends a message. Returns `false` only if the socket has no room. If sending fails, the first error is kept.
    fn send(&self, state: &mut State, line: &str) -> bool {
        match self.socket.send_to_addr(line.as_bytes(), &self.address) {
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => return false,
            Err(error) if state.error.is_none() => state.error = Some(send_error(&self.name, &error)),
            Ok(_) | Err(_) => {}
        }
        true
    }
}

impl NotifyVariables {
    /// Returns the watchdog interval, if `WATCHDOG_PID` is this process or not set.
    fn watchdog(&self) -> Option<Duration> {
        let is_ours = self.watchdog_pid.as_ref().is_none_or(|pid| *pid == std::process::id().to_string());
        let interval = self.watchdog_us.as_ref().filter(|_| is_ours)?.parse().ok().map(Duration::from_micros);
        interval.filter(|interval| !interval.is_zero())
    }
}

/// Opens a non-blocking socket. Returns it with the address to send to: a path, or `@` and an abstract name.
fn open(name: &[u8]) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        _ => return Err(io::Error::new(ErrorKind::InvalidInput, "neither a path nor `@` and an abstract name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

fn send_error(name: &str, error: &io::Error) -> String {
    format!("NOTIFY_SOCKET={name}: {error}; the service manager receives no status, and the work continues")
}
