//! The control plane: signals in, checkpoints out, on a small tokio runtime. The only place where it meets the data plane.
//!
//! # What
//! | signal | what it asks for |
//! |---|---|
//! | SIGINT, SIGTERM, SIGUSR1, a file `stop` in the run's folder | finish the step, save, leave |
//! | a second SIGINT | leave at once |
//! | SIGHUP | with a controlling terminal the same as SIGTERM; without one read `log-level` of the run's folder |
//! | SIGUSR2 | say what every actor does |
//! | a file `profile` in the run's folder | measure some steps, and say where their time goes |
//!
//! A run that is still starting has nothing to save, and leaves as soon as it is asked.

mod board;
pub mod profile_file;
mod requests;
mod signal;
mod signal_state;
mod stop_file;
mod watchdog;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use anyhow::Context as _;
use runtime::{CancelToken, cancel_pair};
use telemetry::systemd::Notify;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

pub(crate) use self::board::Board;
pub(crate) use self::requests::Requests;
use self::signal::Meaning;
pub use self::signal::{Phase, Signal};
use self::signal_state::{DeferredLog, SignalState, WORDS};
pub use self::stop_file::obeyed;
pub use self::watchdog::Timeouts;

/// The runtime and what it has heard.
pub struct Control {
    runtime: Runtime,
    heard: Arc<SignalState>,
    stop: CancelToken,
}

impl Control {
    /// Starts listening. The first signal asks the run to finish its step and save; a second SIGINT leaves at once.
    /// Who was started by `nohup` continues without its terminal.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("control")
            .enable_all()
            .build()
            .context("cannot start the control runtime")?;
        let listen = |kind: SignalKind| runtime.block_on(async { signal(kind) }).context("cannot listen for signals");
        // Who hears it is not ended by it: a file that may not grow is then an error with a name.
        let _heard = listen(SignalKind::from_raw(runtime::FILE_SIZE_SIGNAL))?;
        let (stopper, stop) = cancel_pair();
        let (words, heard_words) = std::sync::mpsc::sync_channel(WORDS);
        let heard = Arc::new(SignalState::new(stopper, words));
        for asked in Signal::ALL {
            let heard = Arc::clone(&heard);
            match asked.meaning() {
                Meaning::Stop => drop(runtime.spawn(heard.listen(asked, listen(asked.kind())?))),
                Meaning::Reload => drop(runtime.spawn(heard.reload(listen(asked.kind())?))),
                Meaning::Nothing => {}
            }
        }
        drop(runtime.spawn(Arc::clone(&heard).report(listen(SignalKind::user_defined2())?)));
        runtime::spawn("signal-words", move || heard_words.iter().for_each(DeferredLog::say))?;
        Ok(Self { runtime, heard, stop })
    }

    /// Nothing of this run is kept: who asks it to stop is obeyed at once.
    pub fn keep_nothing(&self) {
        self.heard.keeps_nothing.store(true, Ordering::Relaxed);
    }

    /// From now on a file in the run's folder is heard as well, a stop takes no longer than it may, and who stands still is
    /// named. What watches already continues.
    pub fn watch(&self, patience: Timeouts) -> anyhow::Result<()> {
        if !self.heard.folder(patience.folder.clone()) {
            return Ok(());
        }
        let heard = Arc::clone(&self.heard);
        heard.be_patient(patience.hang);
        runtime::spawn("watch", move || watchdog::watch(&heard, &patience))?;
        Ok(())
    }

    /// Closes when a signal comes: what a data wait selects on.
    pub fn stop(&self) -> CancelToken {
        self.stop.clone()
    }

    /// Asks for a stop, as a signal does.
    pub(crate) fn ask_to_stop(&self, asked: Signal) {
        self.heard.stop(asked);
    }

    /// What others want of the run.
    pub fn wishes(&self) -> &Requests {
        &self.heard.wishes
    }

    /// Whether all continues, as far as anybody is patient; who stands still, if not.
    pub(crate) fn goes_on(&self) -> Result<(), String> {
        self.heard.goes_on().map_err(|(_, found)| found)
    }

    /// Notes what the run is doing.
    pub fn enter(&self, phase: Phase) {
        self.heard.board.enter(phase);
        if phase == Phase::Step {
            self.heard.notify.ready();
        }
    }

    /// Who manages this process as a service.
    pub fn notify(&self) -> &Notify {
        &self.heard.notify
    }

    /// Where everybody says what they do.
    pub fn board(&self) -> &Board {
        &self.heard.board
    }

    /// The first signal heard.
    pub fn signal(&self) -> Option<Signal> {
        self.heard.signal()
    }

    /// Runs blocking work next to the training.
    pub fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        Pending(self.runtime.spawn_blocking(work))
    }

    /// Waits for such work.
    pub fn wait<T>(&self, pending: Pending<T>) -> anyhow::Result<T> {
        self.runtime.block_on(pending.0).context("a background writer failed")
    }
}

/// Background work whose result somebody must collect.
#[must_use]
pub struct Pending<T>(JoinHandle<T>);

impl<T> Pending<T> {
    /// Whether collecting the result would not wait.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}
