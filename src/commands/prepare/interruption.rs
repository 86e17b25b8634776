//! What a preparation says when it is asked to stop. It stops at once: every part that was reported done is whole, and a
//! part that was begun is made again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use runtime::FILE_SIZE_SIGNAL;
use telemetry::dispatcher::Dispatcher;
use telemetry::terminal::{answer, note};
use telemetry::{Event, Observer};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::service::Service;
use super::watcher::Watcher;

/// How long somebody may take to read the last line.
const PATIENCE: Duration = Duration::from_secs(1);

/// The watcher of a preparation, which a signal reads too, those who watch next to the work, and who manages it as a
/// service.
pub(super) struct Shared {
    seen: Arc<Mutex<Watcher>>,
    watchers: Dispatcher,
    service: Arc<Service>,
}

impl Shared {
    /// A watcher that has seen nothing yet. From now on SIGINT, SIGTERM and SIGUSR1 end the process with a line of their
    /// own, and SIGUSR2 has one as well. Nothing may happen for `hang` before a manager hears of it.
    pub(super) fn listening(watchers: Dispatcher, hang: Option<Duration>) -> anyhow::Result<Self> {
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
        let service = Service::managed(hang)?;
        let (watcher, managed) = (Arc::clone(&seen), Arc::clone(&service));
        let wait = move || runtime.block_on(leave_when_asked(asked, &watcher, &managed));
        runtime::spawn("signals", wait)?;
        Ok(Self { seen, watchers, service })
    }

    /// As if nothing had been seen yet.
    pub(super) fn begin_anew(&self) {
        *self.watcher() = Watcher::default();
    }

    /// Who manages it.
    pub(super) fn service(&self) -> &Arc<Service> {
        &self.service
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
        self.service.observe(event);
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

async fn leave_when_asked(mut asked: Asked, seen: &Mutex<Watcher>, service: &Service) {
    let code = loop {
        tokio::select! {
            _ = asked.interrupt.recv() => break 130,
            _ = asked.terminate.recv() => break 143,
            _ = asked.requeue.recv() => break 138,
            _ = asked.report.recv() => answer(seen.lock().unwrap_or_else(PoisonError::into_inner).so_far()),
        }
    };
    service.stops();
    // Where nobody reads what is said, whoever speaks waits: not forever.
    let _ = runtime::spawn("leave", move || {
        std::thread::sleep(PATIENCE);
        std::process::exit(code);
    });
    let watcher = seen.lock().unwrap_or_else(PoisonError::into_inner);
    watcher.clear();
    note(watcher.stopped());
    std::process::exit(code);
}
