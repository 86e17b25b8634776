//! The control plane: signals in, checkpoints out, on a small tokio runtime. The only place where it meets the data plane.
//!
//! # What
//! | signal | what it asks for |
//! |---|---|
//! | SIGINT, SIGTERM, SIGUSR1, a file `stop` in the run's folder | finish the step, save, leave |
//! | a second SIGINT | leave at once |
//! | SIGHUP | with a controlling terminal the same as SIGTERM; without one read `log-level` of the run's folder |
//! | SIGUSR2 | say what every actor does |
//!
//! A run that is still starting has nothing to save, and leaves as soon as it is asked.

mod board;
mod signal;
mod watch;

use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::Context as _;
use pipeline::actor::{self, Stop, Stopper, stopper};
use store::Store;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

pub(crate) use self::board::Board;
use self::signal::Meaning;
pub(crate) use self::signal::{Phase, Signal};
pub(crate) use self::watch::{LOG_LEVEL, Patience, STOP};
use crate::telemetry;
use crate::terminal::note;

/// What may wait to be said of signals; more of the same is dropped.
const WORDS: usize = 4;

/// Last words of a process that has nothing to save; they are printed by another thread.
const LAST_WORDS: Duration = Duration::from_millis(100);

/// The runtime and what it has heard.
pub(crate) struct Control {
    runtime: Runtime,
    heard: Arc<Heard>,
    stop: Stop,
}

/// What has been heard so far.
struct Heard {
    first: AtomicU8,
    since: Mutex<Option<Instant>>,
    stopper: Stopper,
    words: SyncSender<Words>,
    board: Board,
    /// Where a service finds its log level, once that is known.
    folder: OnceLock<Store>,
}

impl Control {
    /// Starts listening. The first signal asks the run to finish its step and save; a second SIGINT leaves at once.
    /// Who was started by `nohup` goes on without its terminal.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("control")
            .enable_all()
            .build()
            .context("cannot start the control runtime")?;
        let listen = |kind: SignalKind| runtime.block_on(async { signal(kind) }).context("cannot listen for signals");
        // Who hears it is not ended by it: a file that may not grow is then an error with a name.
        let _heard = listen(SignalKind::from_raw(actor::FILE_SIZE_SIGNAL))?;
        let (stopper, stop) = stopper();
        let (words, heard_words) = std::sync::mpsc::sync_channel(WORDS);
        let heard = Arc::new(Heard {
            first: AtomicU8::new(0),
            since: Mutex::default(),
            stopper,
            words,
            board: Board::new(),
            folder: OnceLock::new(),
        });
        for asked in Signal::ALL {
            let heard = Arc::clone(&heard);
            match asked.meaning() {
                Meaning::Stop => drop(runtime.spawn(heard.listen(asked, listen(asked.kind())?))),
                Meaning::Reload => drop(runtime.spawn(heard.reload(listen(asked.kind())?))),
                Meaning::Nothing => {}
            }
        }
        drop(runtime.spawn(Arc::clone(&heard).report(listen(SignalKind::user_defined2())?)));
        actor::spawn("signal-words", move || heard_words.iter().for_each(Words::say))?;
        Ok(Self { runtime, heard, stop })
    }

    /// From now on a file in the run's folder is heard as well, a stop takes no longer than it may, and who stands still is
    /// named.
    pub(crate) fn watch(&self, patience: Patience) -> anyhow::Result<()> {
        let _ = self.heard.folder.set(patience.folder.clone());
        let heard = Arc::clone(&self.heard);
        actor::spawn("watch", move || watch::watch(&heard, &patience))?;
        Ok(())
    }

    /// Closes when a signal comes: what a data wait selects on.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Notes what the run is doing.
    pub(crate) fn enter(&self, phase: Phase) {
        self.heard.board.enter(phase);
    }

    /// Where everybody says what they do.
    pub(crate) fn board(&self) -> &Board {
        &self.heard.board
    }

    /// The first signal heard.
    pub(crate) fn signal(&self) -> Option<Signal> {
        self.heard.signal()
    }

    /// Runs blocking work beside the training.
    pub(crate) fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        Pending(self.runtime.spawn_blocking(work))
    }

    /// Waits for such work.
    pub(crate) fn wait<T>(&self, pending: Pending<T>) -> anyhow::Result<T> {
        self.runtime.block_on(pending.0).context("a background writer failed")
    }
}

/// Background work whose result somebody must collect.
#[must_use]
pub(crate) struct Pending<T>(JoinHandle<T>);

impl<T> Pending<T> {
    /// Whether collecting the result would not wait.
    pub(crate) fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

/// What is said of signals. By a thread of its own: where nobody reads what is said, whoever speaks waits.
enum Words {
    Saving(Signal, &'static str),
    StillSaving(Signal),
    NothingToSave(Signal),
    GraceOver(Signal, Option<String>),
    StandsStill(String),
    Report(Vec<String>),
}

impl Words {
    fn say(self) {
        match self {
            Self::Saving(signal, during) => {
                tracing::warn!(?signal, %during, "saving, then leaving; a second ctrl-c leaves at once");
            }
            Self::StillSaving(signal) => tracing::warn!(?signal, "still saving"),
            Self::NothingToSave(signal) => {
                tracing::warn!(?signal, during = %Phase::Start.name(), "leaving: nothing has happened that is not saved");
            }
            Self::GraceOver(signal, kept) => {
                let kept = kept.unwrap_or_else(|| "what was saved before this process began".to_owned());
                tracing::error!(?signal, %kept, "`run.grace_seconds` are over: leaving with what is saved");
            }
            Self::StandsStill(found) => tracing::warn!("nothing happens: {found}; SIGUSR2 says more"),
            Self::Report(lines) => lines.into_iter().for_each(note),
        }
    }
}

impl Heard {
    fn signal(&self) -> Option<Signal> {
        let heard = self.first.load(Ordering::SeqCst);
        Signal::ALL.into_iter().find(|signal| *signal as u8 == heard)
    }

    /// How long ago the first was heard.
    fn waited(&self) -> Option<Duration> {
        self.since.lock().unwrap_or_else(PoisonError::into_inner).map(|since| since.elapsed())
    }

    fn say(&self, words: Words) {
        let _ = self.words.try_send(words);
    }

    /// Somebody asks for a stop. Whether it was the first.
    fn stop(&self, asked: Signal) -> bool {
        let first = self.first.compare_exchange(0, asked as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok();
        if first {
            *self.since.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now());
            let during = self.board.phase();
            if during == Phase::Start {
                self.say(Words::NothingToSave(asked));
                std::thread::sleep(LAST_WORDS);
                // Whatever is half written now is not seen by anybody: as after a kill.
                trainer::device::leave(asked.exit_code());
            }
            self.stopper.stop();
            self.say(Words::Saving(asked, during.name()));
        }
        first
    }

    async fn listen(self: Arc<Self>, asked: Signal, mut stream: tokio::signal::unix::Signal) {
        let mut times = 0;
        while stream.recv().await.is_some() {
            times += 1;
            if self.stop(asked) {
                continue;
            }
            if asked == Signal::Interrupt && times > 1 {
                // Only who asks twice at a keyboard gives up what is not saved yet: a scheduler's two signals are one wish.
                trainer::device::leave(asked.exit_code());
            }
            self.say(Words::StillSaving(asked));
        }
    }

    async fn reload(self: Arc<Self>, mut stream: tokio::signal::unix::Signal) {
        while stream.recv().await.is_some() {
            let level = self.folder.get().map(|folder| folder.read_with_stat(LOG_LEVEL));
            let level = match level {
                Some(Ok(Some((bytes, _)))) => Some(String::from_utf8_lossy(&bytes).trim().to_owned()),
                Some(Ok(None)) | None => None,
                Some(Err(error)) => {
                    tracing::warn!(%error, "the log level stays as it is");
                    continue;
                }
            };
            match telemetry::reload(level.as_deref()) {
                Ok(level) => tracing::warn!(%level, "the log level was read anew"),
                Err(error) => {
                    tracing::warn!(error, "the log level stays as it is; `{LOG_LEVEL}` says what `RUST_LOG` would")
                }
            }
        }
    }

    async fn report(self: Arc<Self>, mut stream: tokio::signal::unix::Signal) {
        while stream.recv().await.is_some() {
            self.say(Words::Report(self.board.report()));
        }
    }
}
