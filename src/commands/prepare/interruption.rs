//! What a preparation says when it is asked to stop. It stops at once: every part that was reported done is whole, and a
//! part that was begun is made again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use observe::{Event, Observer};
use pipeline::actor::{self, FILE_SIZE_SIGNAL};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::watcher::Watcher;
use crate::terminal::{answer, note};
use crate::watchers::Watchers;

/// How long somebody may take to read the last line.
const PATIENCE: Duration = Duration::from_secs(1);

/// The watcher of a preparation, which a signal reads too, and those who watch beside the work.
pub(super) struct Shared {
    seen: Arc<Mutex<Watcher>>,
    watchers: Watchers,
}

impl Shared {
    /// A watcher that has seen nothing yet. From now on SIGINT, SIGTERM and SIGUSR1 end the process with a line of their
    /// own, and SIGUSR2 has one as well.
    pub(super) fn listening(watchers: Watchers) -> anyhow::Result<Self> {
        let seen = Arc::new(Mutex::new(Watcher::default()));
        let runtime =
            Builder::new_current_thread().enable_all().build().context("cannot start listening for signals")?;
        let listen = |kind| {
            let _inside = runtime.enter();
            signal(kind).context("cannot listen for signals")
        };
        // Who hears it is not ended by it: a file that may not grow is then an error with a name.
        let _heard = listen(SignalKind::from_raw(FILE_SIZE_SIGNAL))?;
        let asked = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::user_defined1()];
        let [interrupt, terminate, requeue] = asked.map(listen);
        let asked = Asked {
            interrupt: interrupt?,
            terminate: terminate?,
            requeue: requeue?,
            report: listen(SignalKind::user_defined2())?,
        };
        let watcher = Arc::clone(&seen);
        let wait = move || runtime.block_on(leave_when_asked(asked, &watcher));
        actor::spawn("signals", wait)?;
        Ok(Self { seen, watchers })
    }

    /// As if nothing had been seen yet.
    pub(super) fn begin_anew(&self) {
        *self.watcher() = Watcher::default();
    }

    pub(super) fn clear(&self) {
        self.watcher().clear();
    }

    pub(super) fn report(&self) {
        self.watcher().report();
    }

    fn watcher(&self) -> MutexGuard<'_, Watcher> {
        // A panic while it drew is told elsewhere, and what it knows is still true.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Shared {
    fn observe(&mut self, event: &Event) {
        self.watcher().observe(event);
        self.watchers.observe(event);
    }
}

/// What may be asked of a preparation.
struct Asked {
    interrupt: Signal,
    terminate: Signal,
    /// A scheduler wants to start it again elsewhere.
    requeue: Signal,
    report: Signal,
}

async fn leave_when_asked(mut asked: Asked, seen: &Mutex<Watcher>) {
    let code = loop {
        tokio::select! {
            _ = asked.interrupt.recv() => break 130,
            _ = asked.terminate.recv() => break 143,
            _ = asked.requeue.recv() => break 138,
            _ = asked.report.recv() => answer(seen.lock().unwrap_or_else(PoisonError::into_inner).so_far()),
        }
    };
    // Where nobody reads what is said, whoever speaks waits: not for ever.
    let _ = actor::spawn("leave", move || {
        std::thread::sleep(PATIENCE);
        std::process::exit(code);
    });
    let watcher = seen.lock().unwrap_or_else(PoisonError::into_inner);
    watcher.clear();
    note(watcher.stopped());
    std::process::exit(code);
}
