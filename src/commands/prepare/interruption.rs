//! Stop of a preparation by a signal. It is immediate: every part that was reported done is complete, and an unfinished
//! part is made again.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use anyhow::Context as _;
use runtime::FILE_SIZE_SIGNAL;
use telemetry::dispatcher::Dispatcher;
use telemetry::terminal::{note, print};
use telemetry::{Event, Observer};
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::service::Service;
use super::watcher::Watcher;

/// Maximum time for printing the last line.
const PRINT_TIMEOUT: Duration = Duration::from_secs(1);

/// Observer of a preparation that signals, the status server and the service manager also read.
pub(super) struct Shared {
    watcher_state: Arc<Mutex<Watcher>>,
    watchers: Dispatcher,
    service: Arc<Service>,
}

impl Shared {
    /// Starts an observer. From now on, SIGINT, SIGTERM and SIGUSR1 end the process with a final line, and
    /// SIGUSR2 prints the state. After the stall timeout without progress, keep-alives to the service manager stop.
    pub(super) fn listening(watchers: Dispatcher, stall_timeout: Option<Duration>) -> anyhow::Result<Self> {
        let watcher_state = Arc::new(Mutex::new(Watcher::default()));
        let runtime =
            Builder::new_current_thread().enable_all().build().context("cannot start listening for signals")?;
        let listen = |kind| {
            let _inside = runtime.enter();
            signal(kind).context("cannot listen for signals")
        };
        // Listening disables the default action, so that exceeding the file size limit is an error with a file name.
        let _heard = listen(SignalKind::from_raw(FILE_SIZE_SIGNAL))?;
        let asked = [SignalKind::interrupt(), SignalKind::terminate(), SignalKind::user_defined1()];
        let [interrupt, terminate, requeue] = asked.map(listen);
        let asked = SignalStreams {
            interrupt: interrupt?,
            terminate: terminate?,
            requeue: requeue?,
            report: listen(SignalKind::user_defined2())?,
        };
        let service = Service::managed(stall_timeout)?;
        let watcher = Arc::clone(&watcher_state);
        let managed = Arc::clone(&service);
        let wait = move || runtime.block_on(exit_on_signal(asked, &watcher, &managed));
        runtime::spawn("signals", wait)?;
        Ok(Self { watcher_state, watchers, service })
    }

    /// Resets the observer.
    pub(super) fn reset(&self) {
        *self.watcher() = Watcher::default();
    }

    /// State for the service manager.
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
        // A panic while drawing is reported elsewhere; the counts remain valid.
        self.watcher_state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Shared {
    fn observe(&mut self, event: &Event) {
        self.watcher().observe(event);
        self.watchers.observe(event);
        self.service.observe(event);
    }
}

/// Signals that a preparation handles.
struct SignalStreams {
    interrupt: Signal,
    terminate: Signal,
    /// The scheduler is about to requeue the job.
    requeue: Signal,
    report: Signal,
}

async fn exit_on_signal(mut asked: SignalStreams, seen: &Mutex<Watcher>, service: &Service) {
    let code = loop {
        tokio::select! {
            _ = asked.interrupt.recv() => break 130,
            _ = asked.terminate.recv() => break 143,
            _ = asked.requeue.recv() => break 138,
            _ = asked.report.recv() => print(seen.lock().unwrap_or_else(PoisonError::into_inner).so_far()),
        }
    };
    service.stops();
    // If the reader of stderr is blocked, printing waits at most this long.
    let _ = runtime::spawn("leave", move || {
        std::thread::sleep(PRINT_TIMEOUT);
        std::process::exit(code);
    });
    let watcher = seen.lock().unwrap_or_else(PoisonError::into_inner);
    watcher.clear();
    note(watcher.stopped());
    std::process::exit(code);
}
