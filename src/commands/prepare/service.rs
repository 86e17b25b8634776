//! State of a preparation for the service manager.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use telemetry::preparation::PrepareProgress;
use telemetry::systemd::{Notify, PULSE};
use telemetry::terminal::note;
use telemetry::{Event, EventKind};

/// Amount of completed work.
#[derive(Clone, Copy, PartialEq, Eq)]
struct ServiceProgress {
    bytes: u64,
    text_bytes: u64,
    tokens: u64,
}

/// Preparation under a service manager.
pub(super) struct Service {
    notify: Notify,
    /// Last progress and its time. None before the workers have started and after the end.
    moved: Mutex<Option<(ServiceProgress, Instant)>>,
    /// Maximum time without progress. After that, keep-alives stop.
    stall_timeout: Option<Duration>,
}

impl Service {
    /// Connects to the service manager, if the environment of this process names one.
    pub(super) fn managed(stall_timeout: Option<Duration>) -> anyhow::Result<Arc<Self>> {
        let service = Arc::new(Self { notify: Notify::of_environment(), moved: Mutex::default(), stall_timeout });
        if service.notify.is_asked() {
            let beating = Arc::clone(&service);
            runtime::spawn("notify", move || beating.renew())?;
        }
        Ok(service)
    }

    pub(super) fn observe(&self, event: &Event) {
        match &event.what {
            EventKind::PrepareStart(_) => self.notify.ready(),
            EventKind::PrepareProgress(now) => {
                self.moves(now);
                self.notify.progress(telemetry::event_text::line(event).unwrap_or_default());
            }
            EventKind::PrepareEnd(_) => {
                // A preparation without work must still report readiness: the manager takes an end before that as a
                // failure.
                self.notify.ready();
                *self.moved() = None;
            }
            _ => {}
        }
    }

    /// Reports that the preparation waits for a change.
    pub(super) fn rests(&self) {
        *self.moved() = None;
        self.notify.progress("waiting for the corpus to change".to_owned());
    }

    /// Reports that the process is about to exit.
    pub(super) fn stops(&self) {
        self.notify.stopping();
    }

    fn moved(&self) -> MutexGuard<'_, Option<(ServiceProgress, Instant)>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records progress. Repeated equal values are no progress.
    fn moves(&self, now: &PrepareProgress) {
        let done = ServiceProgress { bytes: now.bytes, text_bytes: now.text_bytes, tokens: now.tokens };
        let mut moved = self.moved();
        if moved.is_none_or(|(before, _)| before != done) {
            *moved = Some((done, Instant::now()));
        }
    }

    /// Returns whether there was progress within `stall_timeout`.
    pub(super) fn check_progress(&self) -> Result<(), String> {
        let still = self.moved().map(|(_, since)| since.elapsed());
        match still.zip(self.stall_timeout) {
            Some((still, stall_timeout)) if still >= stall_timeout => {
                Err(format!("no progress on any part for {:.0} s", still.as_secs_f64()))
            }
            _ => Ok(()),
        }
    }

    fn renew(&self) {
        loop {
            self.notify.beat("", self.check_progress().is_ok());
            if let Some(trouble) = self.notify.complaint() {
                note(format_args!("warning: {trouble}"));
            }
            std::thread::sleep(PULSE);
        }
    }
}
