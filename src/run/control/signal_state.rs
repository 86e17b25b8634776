//! State of received signals, and log messages about them.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use runtime::CancelSource;
use store::Store;
use telemetry::log;
use telemetry::systemd::Notify;
use telemetry::terminal::print;

use super::board::StatusBoard;
use super::requests::Requests;
use super::signal::{Phase, Signal};
use super::stop_file;
use crate::exit::UNSAVED;

/// Maximum number of queued log messages; further messages are dropped.
pub(super) const MAX_QUEUED_LOGS: usize = 4;

/// Time for the logging thread to print the last message of the process; stderr may block.
const FLUSH_TIME: Duration = Duration::from_millis(300);

/// Time after a SIGINT in which another one is the same request: `timeout -s INT` sends two, to the process and to its
/// group.
const SAME_REQUEST: Duration = Duration::from_secs(2);

/// Maximum time to remove the file that requested a stop.
const REMOVE_TIMEOUT: Duration = Duration::from_secs(2);

/// File in the run folder with the syntax of `RUST_LOG`. A service reads it on SIGHUP.
const LOG_LEVEL: &str = "log-level";

/// State of received signals.
pub(super) struct SignalState {
    first: AtomicU8,
    since: Mutex<Option<Instant>>,
    cancel_source: CancelSource,
    words: SyncSender<DeferredLog>,
    pub(super) board: StatusBoard,
    pub(super) requests: Requests,
    /// Stall timeout in milliseconds; zero until it is known.
    stall_timeout_ms: AtomicU64,
    pub(super) notify: Notify,
    /// Run folder, in which a service finds its log level; unset until it is known.
    folder: OnceLock<Store>,
    /// Whether nothing of the run is kept, so that there is never anything to save.
    pub(super) keeps_nothing: AtomicBool,
}

/// Log message about a signal. A separate thread writes it, because stderr may block if it is not read.
pub(super) enum DeferredLog {
    Saving(Signal, &'static str),
    StillSaving(Signal),
    NothingToSave(Signal, &'static str),
    ShutdownTimeout(Signal),
    NotSaved(u64, u64),
    Stalled(String),
    InvalidStopFile(String),
    InvalidProfileRequest(String),
    NotifyFailed(String),
    Report(Vec<String>),
}

impl DeferredLog {
    pub(super) fn log(self) {
        match self {
            Self::Saving(signal, during) => {
                tracing::warn!(?signal, %during, "saving (press ctrl-c again to quit without saving)");
            }
            Self::StillSaving(signal) => {
                tracing::warn!(?signal, "still saving (press ctrl-c again to quit without saving)");
            }
            Self::NothingToSave(signal, during) => {
                tracing::warn!(?signal, %during, "exiting: there is nothing to save");
            }
            Self::ShutdownTimeout(signal) => {
                tracing::error!(
                    ?signal,
                    "`run.shutdown_timeout_seconds` have elapsed: exiting without a new checkpoint"
                );
            }
            Self::NotSaved(first, last) => {
                tracing::error!("NOT SAVED: steps {first} to {last} are lost; the same command repeats them");
            }
            Self::Stalled(found) => tracing::warn!("no progress: {found}; send SIGUSR2 for details"),
            Self::InvalidStopFile(found) => tracing::warn!("{found}; create a file of that name to request a stop"),
            Self::InvalidProfileRequest(found) => {
                tracing::warn!("{found}; use `cloze profile live` to request a measurement");
            }
            Self::NotifyFailed(trouble) => tracing::warn!("{trouble}"),
            Self::Report(lines) => lines.into_iter().for_each(print),
        }
    }
}

impl SignalState {
    pub(super) fn new(cancel_source: CancelSource, words: SyncSender<DeferredLog>) -> Self {
        let first = AtomicU8::new(0);
        let since = Mutex::default();
        let board = StatusBoard::new();
        let requests = Requests::default();
        let stall_timeout_ms = AtomicU64::new(0);
        let notify = Notify::of_environment();
        let folder = OnceLock::new();
        let keeps_nothing = AtomicBool::new(false);
        Self { first, since, cancel_source, words, board, requests, stall_timeout_ms, notify, folder, keeps_nothing }
    }

    /// Sets the run folder. Returns whether it was unset before.
    pub(super) fn folder(&self, folder: Store) -> bool {
        self.folder.set(folder).is_ok()
    }

    /// Sets the stall timeout.
    pub(super) fn set_stall_timeout(&self, stall_timeout: Option<Duration>) {
        let ms = stall_timeout.map_or(0, |stall_timeout| u64::try_from(stall_timeout.as_millis()).unwrap_or(u64::MAX));
        self.stall_timeout_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether the run makes progress. If not, returns the time without progress and the stalled workers. HTTP health
    /// checks, the service manager and the watchdog use the same answer.
    pub(super) fn check_progress(&self) -> Result<(), (Duration, String)> {
        let stall_timeout = self.stall_timeout_ms.load(Ordering::Relaxed);
        if stall_timeout == 0 { Ok(()) } else { self.board.check_progress(Duration::from_millis(stall_timeout)) }
    }

    /// The first signal received.
    pub(super) fn signal(&self) -> Option<Signal> {
        let heard = self.first.load(Ordering::SeqCst);
        Signal::ALL.into_iter().find(|signal| *signal as u8 == heard)
    }

    /// Time since the first signal.
    pub(super) fn waited(&self) -> Option<Duration> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }

    pub(super) fn log(&self, words: DeferredLog) {
        let _ = self.words.try_send(words);
    }

    /// Handles a stop request. Returns whether it was the first.
    pub(super) fn stop(&self, asked: Signal) -> bool {
        let first = self.first.compare_exchange(0, asked as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if first {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            self.notify.stopping();
            let during = self.board.phase();
            if during == Phase::Start || self.keeps_nothing.load(Ordering::Relaxed) {
                self.log(DeferredLog::NothingToSave(asked, during.name()));
                self.remove_stop_file();
                std::thread::sleep(FLUSH_TIME);
                // Partially written files are ignored by the next start, as after a kill.
                runtime::exit_now(asked.exit_code());
            }
            self.cancel_source.cancel();
            self.requests.wake();
            self.log(DeferredLog::Saving(asked, during.name()));
        }
        first
    }

    /// Removes the stop file before exiting. A separate thread removes it, so that a store that hangs cannot block the
    /// exit.
    fn remove_stop_file(&self) {
        let Some(folder) = self.folder.get().cloned() else { return };
        let (sender, done) = sync_channel(1);
        let remove = move || {
            if let Err(error) = stop_file::obeyed(&folder) {
                tracing::warn!(%error, "cannot remove the file `stop`: it will also stop the next start");
            }
            let _ = sender.send(());
        };
        if runtime::spawn("forget-stop", remove).is_ok() {
            let _ = done.recv_timeout(REMOVE_TIMEOUT);
        }
    }

    pub(super) async fn listen(self: Arc<Self>, asked: Signal, mut stream: tokio::signal::unix::Signal) {
        let mut first: Option<Instant> = None;
        while stream.recv().await.is_some() {
            let since = first.get_or_insert_with(Instant::now).elapsed();
            if self.stop(asked) {
                continue;
            }
            // Only a second Ctrl-C discards unsaved steps: several signals of a scheduler are one request.
            if asked == Signal::Interrupt && since >= SAME_REQUEST {
                self.exit_unsaved(asked);
            }
            self.log(DeferredLog::StillSaving(asked));
        }
    }

    /// Exits without saving. The exit code says whether steps are lost.
    pub(super) fn exit_unsaved(&self, asked: Signal) -> ! {
        let unsaved = self.board.unsaved();
        if let Some((first, last)) = unsaved {
            self.log(DeferredLog::NotSaved(first, last));
        }
        std::thread::sleep(FLUSH_TIME);
        runtime::exit_now(if unsaved.is_some() { UNSAVED } else { asked.exit_code() })
    }

    pub(super) async fn reload(self: Arc<Self>, mut stream: tokio::signal::unix::Signal) {
        while stream.recv().await.is_some() {
            self.notify.reload(|| self.read_log_level());
        }
    }

    fn read_log_level(&self) {
        let level = self.folder.get().map(|folder| folder.get_with_stat(LOG_LEVEL));
        let level = match level {
            Some(Ok(Some((bytes, _)))) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
            Some(Ok(None)) | None => None,
            Some(Err(error)) => {
                tracing::warn!(%error, "the log level stays as it is");
                return;
            }
        };
        match log::reload(level.as_deref()) {
            Ok(level) => tracing::warn!(%level, "the log level was read again"),
            Err(error) => {
                tracing::warn!(error, "the log level stays as it is; `{LOG_LEVEL}` takes the syntax of `RUST_LOG`");
            }
        }
    }

    pub(super) async fn report(self: Arc<Self>, mut stream: tokio::signal::unix::Signal) {
        while stream.recv().await.is_some() {
            self.log(DeferredLog::Report(self.board.report()));
        }
    }
}
