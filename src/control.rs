//! The control plane: signals in, checkpoints out, on a small tokio runtime. The only place where it meets the data plane.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use anyhow::Context as _;
use pipeline::actor::{Stop, Stopper, stopper};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// A request to stop that has been heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt = 1,
    /// What schedulers send before they kill.
    Terminate = 2,
}

impl Signal {
    /// The exit code once the run is saved: 128 plus the signal's number.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
        }
    }
}

/// What a run is doing: a signal is logged with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Phase {
    /// Waiting for a batch.
    Data,
    /// Computing a step.
    Step,
    /// Looking at the valid split.
    Validation,
    /// Taking a snapshot, or waiting for the one before it to be written.
    Checkpoint,
}

impl Phase {
    pub(crate) const NAMES: [&str; 4] = ["data", "step", "validation", "checkpoint"];
    const ALL: [Self; 4] = [Self::Data, Self::Step, Self::Validation, Self::Checkpoint];

    pub(crate) fn parse(name: &str) -> Option<Self> {
        Self::NAMES.iter().position(|known| *known == name).map(|index| Self::ALL[index])
    }
}

/// The runtime and what it has heard.
pub(crate) struct Control {
    runtime: Runtime,
    heard: Arc<AtomicU8>,
    phase: Arc<AtomicU8>,
    stop: Stop,
}

impl Control {
    /// Starts listening. The first signal asks the run to finish its step and save; a second SIGINT leaves at once.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("control")
            .enable_all()
            .build()
            .context("cannot start the control runtime")?;
        let heard = Arc::new(AtomicU8::new(0));
        let phase = Arc::new(AtomicU8::new(Phase::Data as u8));
        let (stopper, stop) = stopper();
        for (kind, meaning) in
            [(SignalKind::interrupt(), Signal::Interrupt), (SignalKind::terminate(), Signal::Terminate)]
        {
            let stream = runtime.block_on(async { signal(kind) }).context("cannot listen for signals")?;
            let listener =
                Listener { meaning, heard: Arc::clone(&heard), phase: Arc::clone(&phase), stopper: stopper.clone() };
            runtime.spawn(listener.listen(stream));
        }
        Ok(Self { runtime, heard, phase, stop })
    }

    /// Closes when a signal comes: what a data wait selects on.
    pub(crate) fn stop(&self) -> Stop {
        self.stop.clone()
    }

    /// Notes what the run is doing.
    pub(crate) fn enter(&self, phase: Phase) {
        self.phase.store(phase as u8, Ordering::SeqCst);
    }

    /// The first signal heard.
    pub(crate) fn signal(&self) -> Option<Signal> {
        match self.heard.load(Ordering::SeqCst) {
            1 => Some(Signal::Interrupt),
            2 => Some(Signal::Terminate),
            _ => None,
        }
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

struct Listener {
    meaning: Signal,
    heard: Arc<AtomicU8>,
    phase: Arc<AtomicU8>,
    stopper: Stopper,
}

impl Listener {
    async fn listen(self, mut stream: tokio::signal::unix::Signal) {
        while stream.recv().await.is_some() {
            let first = self.heard.compare_exchange(0, self.meaning as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if first {
                let during = Phase::NAMES[usize::from(self.phase.load(Ordering::SeqCst))];
                tracing::warn!(signal = ?self.meaning, %during, "saving, then leaving; a second ctrl-c leaves at once");
                self.stopper.stop();
            } else if self.meaning == Signal::Interrupt {
                std::process::exit(i32::from(self.meaning.exit_code()));
            }
        }
    }
}
