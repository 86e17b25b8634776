//! What has been heard, and what is said of it.

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use runtime::CancelSource;
use store::Store;
use telemetry::log;
use telemetry::systemd::Notify;
use telemetry::terminal::answer;

use super::board::Board;
use super::requests::Requests;
use super::signal::{Phase, Signal};
use super::stop_file;

/// What may wait to be said of signals; more of the same is dropped.
pub(super) const WORDS: usize = 4;

/// Last words of a process that has nothing to save; they are printed by another thread.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// How long the file that asked for a stop may take to go.
const FORGETS_MAX: Duration = Duration::from_secs(2);

/// Holds what `RUST_LOG` would say, in the run's folder: read when a service is told to by SIGHUP.
const LOG_LEVEL: &str = "log-level";

/// What has been heard so far.
pub(super) struct SignalState {
    first: AtomicU8,
    since: Mutex<Option<Instant>>,
    stopper: CancelSource,
    words: SyncSender<DeferredLog>,
    pub(super) board: Board,
    pub(super) wishes: Requests,
    /// For how long nothing may happen; zero while nobody knows.
    hang_ms: AtomicU64,
    pub(super) notify: Notify,
    /// Where a service finds its log level, once that is known.
    folder: OnceLock<Store>,
    /// Whether nothing of the run is kept, so that there is never anything to save.
    pub(super) keeps_nothing: AtomicBool,
}

/// What is said of signals. By its own thread: where nobody reads what is said, whoever speaks waits.
pub(super) enum DeferredLog {
    Saving(Signal, &'static str),
    StillSaving(Signal),
    NothingToSave(Signal, &'static str),
    GraceOver(Signal, Option<String>),
    StandsStill(String),
    NoFile(String),
    NoProfile(String),
    Unheard(String),
    Report(Vec<String>),
}

impl DeferredLog {
    pub(super) fn say(self) {
        match self {
            Self::Saving(signal, during) => {
                tracing::warn!(?signal, %during, "saving, then leaving; a second ctrl-c leaves at once");
            }
            Self::StillSaving(signal) => tracing::warn!(?signal, "still saving"),
            Self::NothingToSave(signal, during) => {
                tracing::warn!(?signal, %during, "leaving: nothing has happened that is not saved");
            }
            Self::GraceOver(signal, kept) => {
                let kept = kept.unwrap_or_else(|| "what was saved before this process began".to_owned());
                tracing::error!(?signal, %kept, "`run.shutdown_timeout_seconds` are over: leaving with what is saved");
            }
            Self::StandsStill(found) => tracing::warn!("nothing happens: {found}; SIGUSR2 says more"),
            Self::NoFile(found) => tracing::warn!("{found}; a stop is asked for by a file: `touch` it"),
            Self::NoProfile(found) => tracing::warn!("{found}; `cloze profile live` asks for it"),
            Self::Unheard(trouble) => tracing::warn!("{trouble}"),
            Self::Report(lines) => lines.into_iter().for_each(answer),
        }
    }
}

impl SignalState {
    pub(super) fn new(stopper: CancelSource, words: SyncSender<DeferredLog>) -> Self {
        let (first, since, board) = (AtomicU8::new(0), Mutex::default(), Board::new());
        let (wishes, hang_ms) = (Requests::default(), AtomicU64::new(0));
        let notify = Notify::of_environment();
        let (folder, keeps_nothing) = (OnceLock::new(), AtomicBool::new(false));
        Self { first, since, stopper, words, board, wishes, hang_ms, notify, folder, keeps_nothing }
    }

    /// The run's folder is known. Whether it was not before.
    pub(super) fn folder(&self, folder: Store) -> bool {
        self.folder.set(folder).is_ok()
    }

    /// For how long nothing may happen from now on.
    pub(super) fn be_patient(&self, hang: Option<Duration>) {
        let ms = hang.map_or(0, |hang| u64::try_from(hang.as_millis()).unwrap_or(u64::MAX));
        self.hang_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether all continues; who has stood still for longer than the run is patient, and for how long, if not: what everybody
    /// is told who asks, whether over HTTP, by the manager of a service, or by a warning.
    pub(super) fn goes_on(&self) -> Result<(), (Duration, String)> {
        let hang = self.hang_ms.load(Ordering::Relaxed);
        if hang == 0 { Ok(()) } else { self.board.goes_on(Duration::from_millis(hang)) }
    }

    /// The first signal heard.
    pub(super) fn signal(&self) -> Option<Signal> {
        let heard = self.first.load(Ordering::SeqCst);
        Signal::ALL.into_iter().find(|signal| *signal as u8 == heard)
    }

    /// How long ago the first was heard.
    pub(super) fn waited(&self) -> Option<Duration> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }

    pub(super) fn say(&self, words: DeferredLog) {
        let _ = self.words.try_send(words);
    }

    /// Somebody asks for a stop. Whether it was the first.
    pub(super) fn stop(&self, asked: Signal) -> bool {
        let first = self.first.compare_exchange(0, asked as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if first {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            self.notify.stopping();
            let during = self.board.phase();
            if during == Phase::Start || self.keeps_nothing.load(Ordering::Relaxed) {
                self.say(DeferredLog::NothingToSave(asked, during.name()));
                self.forget_file();
                std::thread::sleep(LAST_WORDS);
                // Whatever is half written now is not seen by anybody: as after a kill.
                runtime::exit_now(asked.exit_code());
            }
            self.stopper.cancel();
            self.say(DeferredLog::Saving(asked, during.name()));
        }
        first
    }

    /// Who leaves has obeyed a file too. By its own thread: a store that does not answer keeps nobody from leaving.
    fn forget_file(&self) {
        let Some(folder) = self.folder.get().cloned() else { return };
        let (sender, done) = sync_channel(1);
        let forgets = move || {
            if let Err(error) = stop_file::obeyed(&folder) {
                tracing::warn!(%error, "the file that asks for a stop cannot be removed: the next start will obey it too");
            }
            let _ = sender.send(());
        };
        if runtime::spawn("forget-stop", forgets).is_ok() {
            let _ = done.recv_timeout(FORGETS_MAX);
        }
    }

    pub(super) async fn listen(self: Arc<Self>, asked: Signal, mut stream: tokio::signal::unix::Signal) {
        let mut times = 0;
        while stream.recv().await.is_some() {
            times += 1;
            if self.stop(asked) {
                continue;
            }
            if asked == Signal::Interrupt && times > 1 {
                // Only who asks twice at a keyboard gives up what is not saved yet: a scheduler's two signals are one wish.
                runtime::exit_now(asked.exit_code());
            }
            self.say(DeferredLog::StillSaving(asked));
        }
    }

    pub(super) async fn reload(self: Arc<Self>, mut stream: tokio::signal::unix::Signal) {
        while stream.recv().await.is_some() {
            self.notify.reload(|| self.read_log_level());
        }
    }

    fn read_log_level(&self) {
        let level = self.folder.get().map(|folder| folder.read_with_stat(LOG_LEVEL));
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
                tracing::warn!(error, "the log level stays as it is; `{LOG_LEVEL}` says what `RUST_LOG` would");
            }
        }
    }

    pub(super) async fn report(self: Arc<Self>, mut stream: tokio::signal::unix::Signal) {
        while stream.recv().await.is_some() {
            self.say(DeferredLog::Report(self.board.report()));
        }
    }
}
