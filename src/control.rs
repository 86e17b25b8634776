//! The control plane: signals in, checkpoints out, on a small tokio runtime. The only place where it meets the data plane.

use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::mpsc::SyncSender;

use anyhow::Context as _;
use pipeline::actor::{self, Stop, Stopper, stopper};
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

/// What may wait to be said of signals; more of the same is dropped.
const WORDS: usize = 4;

/// A request to stop that has been heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Signal {
    /// Ctrl-C.
    Interrupt = 1,
    /// What schedulers send before they kill.
    Terminate = 2,
    /// The terminal went away.
    Hangup = 3,
    /// SIGUSR1, what schedulers are asked to send some time before the end (Slurm's `--signal=USR1@120`).
    Requeue = 4,
}

impl Signal {
    const ALL: [Self; 4] = [Self::Interrupt, Self::Terminate, Self::Hangup, Self::Requeue];

    /// The exit code once the run is saved: 128 plus the signal's number.
    pub(crate) fn exit_code(self) -> u8 {
        match self {
            Self::Interrupt => 130,
            Self::Terminate => 143,
            Self::Hangup => 129,
            Self::Requeue => 138,
        }
    }

    fn kind(self) -> SignalKind {
        match self {
            Self::Interrupt => SignalKind::interrupt(),
            Self::Terminate => SignalKind::terminate(),
            Self::Hangup => SignalKind::hangup(),
            Self::Requeue => SignalKind::user_defined1(),
        }
    }

    /// Whether who started this process wants it to outlive its terminal: `nohup`.
    fn is_declined(self) -> bool {
        let Ok(status) = std::fs::read_to_string("/proc/self/status") else { return false };
        let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
        let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
        self == Self::Hangup && mask >> (self.kind().as_raw_value() - 1) & 1 == 1
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
    /// Who was started by `nohup` goes on without its terminal.
    pub(crate) fn start() -> anyhow::Result<Self> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .max_blocking_threads(2)
            .thread_name("control")
            .enable_all()
            .build()
            .context("cannot start the control runtime")?;
        // Who hears it is not ended by it: a file that may not grow is then an error with a name.
        let _heard = runtime
            .block_on(async { signal(SignalKind::from_raw(actor::FILE_SIZE_SIGNAL)) })
            .context("cannot listen for signals")?;
        let heard = Arc::new(AtomicU8::new(0));
        let phase = Arc::new(AtomicU8::new(Phase::Data as u8));
        let (stopper, stop) = stopper();
        let (words, heard_words) = std::sync::mpsc::sync_channel(WORDS);
        for meaning in Signal::ALL.into_iter().filter(|signal| !signal.is_declined()) {
            let stream = runtime.block_on(async { signal(meaning.kind()) }).context("cannot listen for signals")?;
            let listener = Listener {
                meaning,
                heard: Arc::clone(&heard),
                phase: Arc::clone(&phase),
                stopper: stopper.clone(),
                words: words.clone(),
            };
            runtime.spawn(listener.listen(stream));
        }
        actor::spawn("signal-words", move || heard_words.iter().for_each(Words::say))?;
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
        let heard = self.heard.load(Ordering::SeqCst);
        Signal::ALL.into_iter().find(|signal| *signal as u8 == heard)
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
    words: SyncSender<Words>,
}

/// What is said of a signal. By a thread of its own: where nobody reads what is said, whoever speaks waits.
enum Words {
    Saving(Signal, &'static str),
    StillSaving(Signal),
}

impl Words {
    fn say(self) {
        match self {
            Self::Saving(signal, during) => {
                tracing::warn!(?signal, %during, "saving, then leaving; a second ctrl-c leaves at once");
            }
            Self::StillSaving(signal) => tracing::warn!(?signal, "still saving"),
        }
    }
}

impl Listener {
    async fn listen(self, mut stream: tokio::signal::unix::Signal) {
        let mut times = 0;
        while stream.recv().await.is_some() {
            times += 1;
            let first = self.heard.compare_exchange(0, self.meaning as u8, Ordering::SeqCst, Ordering::SeqCst).is_ok();
            if first {
                self.stopper.stop();
                let during = Phase::NAMES[usize::from(self.phase.load(Ordering::SeqCst))];
                let _ = self.words.try_send(Words::Saving(self.meaning, during));
            } else if self.meaning == Signal::Interrupt && times > 1 {
                // Only who asks twice at a keyboard gives up what is not saved yet: a scheduler's two signals are one wish.
                trainer::device::leave(self.meaning.exit_code());
            } else {
                let _ = self.words.try_send(Words::StillSaving(self.meaning));
            }
        }
    }
}
