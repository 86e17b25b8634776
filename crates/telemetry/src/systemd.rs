//! What a service manager is told: systemd's notification protocol, wherever `NOTIFY_SOCKET` names who listens.
//!
//! # What
//! | it says | when |
//! |---|---|
//! | `READY=1` | a run takes its first step, or had none left; a preparation has started its workers, or had nothing to do |
//! | `STATUS=` | who asks the manager reads how far it is: phase, step, what is left |
//! | `WATCHDOG=1` | within every interval of `WATCHDOG_USEC`, for as long as something happens |
//! | `RELOADING=1`, `READY=1` | around a log level that is read again |
//! | `STOPPING=1` | it was asked to stop, or has reached its end |
//!
//! # Why by hand
//! A message is one datagram of text. Nothing may wait for whoever reads it: a manager that is stopped, or gone, must not
//! stop a run. So the socket never blocks; what has to arrive is kept until there is room, and everything else is dropped.

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

/// Between two looks at what there is to say.
pub const PULSE: Duration = Duration::from_millis(500);

/// Of a status that only counts on, so often: whoever asks a manager reads no faster.
const STATUS_EVERY: Duration = Duration::from_secs(1);

const READY: &str = "READY=1";
const STOPPING: &str = "STOPPING=1";

/// Who is told. Without a `NOTIFY_SOCKET` nobody, and nothing here does anything.
pub struct Notify {
    manager: Option<Manager>,
    state: Mutex<State>,
}

struct Manager {
    socket: UnixDatagram,
    address: SocketAddr,
    /// The name as it stands in the environment.
    name: String,
    /// How long may pass between two signs of life.
    watchdog: Option<Duration>,
}

#[derive(Default)]
struct State {
    is_ready: bool,
    /// What has to arrive and found no room, each at most once.
    owed: Vec<&'static str>,
    progress: String,
    status: String,
    told: Option<Instant>,
    lived: Option<Instant>,
    /// Why nobody hears it, once that is known.
    trouble: Option<String>,
    is_complained: bool,
}

/// What the environment says of a manager.
#[derive(Default)]
struct Asked {
    socket: Option<OsString>,
    watchdog_us: Option<String>,
    watchdog_pid: Option<String>,
}

impl Notify {
    /// As the environment says.
    pub fn of_environment() -> Self {
        Self::asked(&Asked {
            socket: env::var_os("NOTIFY_SOCKET"),
            watchdog_us: env::var("WATCHDOG_USEC").ok(),
            watchdog_pid: env::var("WATCHDOG_PID").ok(),
        })
    }

    fn asked(asked: &Asked) -> Self {
        let Some(name) = asked.socket.as_ref().filter(|name| !name.is_empty()) else {
            return Self { manager: None, state: Mutex::default() };
        };
        let (shown, watchdog) = (name.to_string_lossy().into_owned(), asked.watchdog());
        let (manager, trouble) = match open(name.as_bytes()) {
            Ok((socket, address)) => (Some(Manager { socket, address, name: shown, watchdog }), None),
            Err(error) => (None, Some(unheard(&shown, &error))),
        };
        Self { manager, state: Mutex::new(State { trouble, ..State::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether anybody asked to be told.
    pub fn is_asked(&self) -> bool {
        self.manager.is_some() || self.state().trouble.is_some()
    }

    /// It works from here on. More than once is once.
    pub fn ready(&self) {
        let Some(manager) = &self.manager else { return };
        let mut state = self.state();
        if !std::mem::replace(&mut state.is_ready, true) {
            manager.owe(&mut state, READY);
        }
    }

    /// It is about to leave.
    pub fn stopping(&self) {
        if let Some(manager) = &self.manager {
            manager.owe(&mut self.state(), STOPPING);
        }
    }

    /// Something is read again; then it is as ready as before.
    pub fn reload<T>(&self, read: impl FnOnce() -> T) -> T {
        // Who is not ready yet is not made so by a reload.
        let Some(manager) = self.manager.as_ref().filter(|_| self.state().is_ready) else { return read() };
        let is_told = manager.say(&mut self.state(), "RELOADING=1");
        let got = read();
        if is_told {
            manager.owe(&mut self.state(), READY);
        }
        got
    }

    /// How far it is, in words: part of every status from now on.
    pub fn progress(&self, words: String) {
        if self.manager.is_some() {
            self.state().progress = words;
        }
    }

    /// What it does, said with how far it is; and, if `is_alive`, that it lives. Somebody calls this at every [`PULSE`].
    pub fn beat(&self, doing: &str, is_alive: bool) {
        let Some(manager) = &self.manager else { return };
        let mut state = self.state();
        manager.pay(&mut state);
        let status = match (doing, state.progress.as_str()) {
            ("", progress) => progress.to_owned(),
            (doing, "") => doing.to_owned(),
            (doing, progress) => format!("{doing}: {progress}"),
        };
        // Its own line is another message.
        let status = status.replace('\n', " ");
        if status != state.status && state.told.is_none_or(|told| told.elapsed() >= STATUS_EVERY) {
            state.told = Some(Instant::now());
            manager.say(&mut state, &format!("STATUS={status}"));
            state.status = status;
        }
        let Some(interval) = manager.watchdog.filter(|_| is_alive) else { return };
        if state.lived.is_none_or(|lived| lived.elapsed() + PULSE >= interval / 2)
            && manager.say(&mut state, "WATCHDOG=1")
        {
            state.lived = Some(Instant::now());
        }
    }

    /// What there is to complain of: once.
    pub fn complaint(&self) -> Option<String> {
        let mut state = self.state();
        let trouble = state.trouble.take().filter(|_| !state.is_complained)?;
        state.is_complained = true;
        Some(trouble)
    }
}

impl Manager {
    /// Sends it, or keeps it until there is room.
    fn owe(&self, state: &mut State, line: &'static str) {
        if !state.owed.contains(&line) {
            state.owed.push(line);
        }
        self.pay(state);
    }

    /// Sends what is owed, in its order, as far as there is room.
    fn pay(&self, state: &mut State) {
        while let Some(line) = state.owed.first().copied() {
            if !self.say(state, line) {
                return;
            }
            state.owed.remove(0);
        }
    }

    /// Whether it is on its way, or there is nobody to hear it. Not if there was no room.
    fn say(&self, state: &mut State, line: &str) -> bool {
        match self.socket.send_to_addr(line.as_bytes(), &self.address) {
            Err(error) if [ErrorKind::WouldBlock, ErrorKind::Interrupted].contains(&error.kind()) => return false,
            Err(error) if state.trouble.is_none() => state.trouble = Some(unheard(&self.name, &error)),
            Ok(_) | Err(_) => {}
        }
        true
    }
}

impl Asked {
    /// The interval, if it is this process that has to give signs of life.
    fn watchdog(&self) -> Option<Duration> {
        let is_ours = self.watchdog_pid.as_ref().is_none_or(|pid| *pid == std::process::id().to_string());
        let interval = self.watchdog_us.as_ref().filter(|_| is_ours)?.parse().ok().map(Duration::from_micros);
        interval.filter(|interval| !interval.is_zero())
    }
}

/// A socket that waits for nobody, and where it sends: a path, or `@` and a name in the abstract.
fn open(name: &[u8]) -> io::Result<(UnixDatagram, SocketAddr)> {
    let address = match name {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        [b'/', ..] => SocketAddr::from_pathname(std::ffi::OsStr::from_bytes(name))?,
        _ => return Err(io::Error::new(ErrorKind::InvalidInput, "neither a path nor `@` and a name")),
    };
    let socket = UnixDatagram::unbound()?;
    socket.set_nonblocking(true)?;
    Ok((socket, address))
}

fn unheard(name: &str, error: &io::Error) -> String {
    format!("NOTIFY_SOCKET={name}: {error}; nobody is told how far this is, and it continues")
}
