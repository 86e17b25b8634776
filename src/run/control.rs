//! Control plane: handles signals and control files on a small tokio runtime, and writes checkpoints in the background.
//!
//! # What
//! | signal | effect |
//! |---|---|
//! | SIGINT, SIGTERM, SIGUSR1, a file `stop` in the run folder | finish the step, save, exit |
//! | a second SIGINT, at least two seconds later | exit at once, without saving |
//! | SIGHUP | with a controlling terminal: as SIGTERM; without one: read `log-level` of the run folder |
//! | SIGUSR2 | print what each worker does |
//! | a file `profile` in the run folder | measure some steps, and report where their time goes |
//!
//! A run that is still starting has nothing to save, and exits as soon as a stop is requested.

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
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

pub(crate) use self::board::StatusBoard;
pub(crate) use self::requests::Requests;
use self::signal::SignalMeaning;
pub use self::signal::{Phase, Signal};
use self::signal_state::{DeferredLog, MAX_QUEUED_LOGS, SignalState};
pub use self::stop_file::obeyed;
pub use self::watchdog::Timeouts;

/// Control runtime and the signals that it has received.
pub struct Control {
    /// `None` only while it is dropped.
    runtime: Option<Runtime>,
    state: Arc<SignalState>,
    stop: CancelToken,
}

impl Control {
    /// Starts listening. The first signal makes the run finish its step and save; a second SIGINT exits without saving.
    /// A process that was started by `nohup` survives the end of its terminal.
    pub fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("control")
            .enable_all()
            .build()
            .context("cannot start the control runtime")?;
        let listen = |kind: SignalKind| runtime.block_on(async { signal(kind) }).context("cannot listen for signals");
        // With a handler the signal does not end the process: exceeding the file size limit is then an error of the
        // write.
        let _heard = listen(SignalKind::from_raw(runtime::FILE_SIZE_SIGNAL))?;
        let (cancel_source, stop) = cancel_pair();
        let (words, heard_words) = std::sync::mpsc::sync_channel(MAX_QUEUED_LOGS);
        let state = Arc::new(SignalState::new(cancel_source, words));
        for asked in Signal::ALL {
            let state = Arc::clone(&state);
            match asked.meaning() {
                SignalMeaning::Stop => drop(runtime.spawn(state.listen(asked, listen(asked.kind())?))),
                SignalMeaning::Reload => drop(runtime.spawn(state.reload(listen(asked.kind())?))),
                SignalMeaning::Nothing => {}
            }
        }
        drop(runtime.spawn(Arc::clone(&state).report(listen(SignalKind::user_defined2())?)));
        runtime::spawn("signal-words", move || heard_words.iter().for_each(DeferredLog::log))?;
        Ok(Self { runtime: Some(runtime), state, stop })
    }

    /// Declares that nothing of this run is kept, so that a stop request takes effect at once.
    pub fn keep_nothing(&self) {
        self.state.keeps_nothing.store(true, Ordering::Relaxed);
    }

    /// Starts the watchdog: it handles control files in the run folder, limits the time of a stop, and names stalled
    /// workers. Does nothing if the watchdog runs already.
    pub fn watch(&self, timeouts: Timeouts) -> anyhow::Result<()> {
        if !self.state.folder(timeouts.folder.clone()) {
            return Ok(());
        }
        let state = Arc::clone(&self.state);
        state.set_stall_timeout(timeouts.stall_timeout);
        runtime::spawn("watch", move || watchdog::watch(&state, &timeouts))?;
        Ok(())
    }

    /// Token that is cancelled by the first stop request. A wait for data selects on it.
    pub fn stop(&self) -> CancelToken {
        self.stop.clone()
    }

    /// Asks for a stop, as a signal does.
    pub(crate) fn ask_to_stop(&self, asked: Signal) {
        self.state.stop(asked);
    }

    /// Pending requests to the run.
    pub fn requests(&self) -> &Requests {
        &self.state.requests
    }

    /// Returns an error that names the stalled workers if the run has made no progress within the stall timeout.
    pub(crate) fn check_progress(&self) -> Result<(), String> {
        self.state.check_progress().map_err(|(_, found)| found)
    }

    /// Records the phase of the run.
    pub fn set_phase(&self, phase: Phase) {
        self.state.board.set_phase(phase);
        if phase == Phase::Step {
            self.state.notify.ready();
        }
    }

    /// Connection to the service manager of this process.
    pub fn notify(&self) -> &Notify {
        &self.state.notify
    }

    /// Board on which each worker records its status.
    pub fn board(&self) -> &StatusBoard {
        &self.state.board
    }

    /// The first signal received.
    pub fn signal(&self) -> Option<Signal> {
        self.state.signal()
    }

    /// Runs blocking work in parallel to the training.
    pub fn spawn<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Pending<T> {
        Pending(self.runtime().spawn_blocking(work))
    }

    /// Waits for such work.
    pub fn wait<T>(&self, pending: Pending<T>) -> anyhow::Result<T> {
        self.runtime().block_on(pending.0).context("a background writer failed")
    }

    fn runtime(&self) -> &Runtime {
        self.runtime.as_ref().expect("it exists until it is dropped")
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let runtime = self.runtime.take();
        // The status server may hold the last reference. A runtime must not wait for its threads within another one.
        if Handle::try_current().is_ok() {
            runtime.into_iter().for_each(Runtime::shutdown_background);
        }
    }
}

/// Background work whose result must be collected.
#[must_use]
pub struct Pending<T>(JoinHandle<T>);

impl<T> Pending<T> {
    /// Whether collecting the result would not wait.
    pub fn is_finished(&self) -> bool {
        self.0.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_reference_may_be_dropped_within_another_runtime() {
        let control = Control::start().expect("a runtime");
        let other = Builder::new_current_thread().build().expect("a runtime");
        other.block_on(async { drop(control) });
    }
}
