//! What a manager of services is told of a preparation.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use telemetry::preparation::PrepareProgress;
use telemetry::systemd::{Notify, PULSE};
use telemetry::terminal::note;
use telemetry::{Event, EventKind};

/// Work that is done.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Done {
    bytes: u64,
    text_bytes: u64,
    tokens: u64,
}

/// A preparation as somebody manages it.
pub(super) struct Service {
    notify: Notify,
    /// What was done when more was done last, and when that was; none before the workers have started, and after the end.
    moved: Mutex<Option<(Done, Instant)>>,
    /// How long nothing may happen before it gives no sign of life.
    hang: Option<Duration>,
}

impl Service {
    /// For the life of this process, if its environment names a manager.
    pub(super) fn managed(hang: Option<Duration>) -> anyhow::Result<Arc<Self>> {
        let service = Arc::new(Self { notify: Notify::of_environment(), moved: Mutex::default(), hang });
        if service.notify.is_asked() {
            let beating = Arc::clone(&service);
            runtime::spawn("notify", move || beating.beat())?;
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
                // One that had nothing to do was ready for it: who manages it takes an end before that for a failure.
                self.notify.ready();
                *self.moved() = None;
            }
            _ => {}
        }
    }

    /// Nothing is to be done until something changes.
    pub(super) fn rests(&self) {
        *self.moved() = None;
        self.notify.progress("waiting for the corpus to change".to_owned());
    }

    /// The process is about to leave.
    pub(super) fn stops(&self) {
        self.notify.stopping();
    }

    fn moved(&self) -> MutexGuard<'_, Option<(Done, Instant)>> {
        self.moved.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// So much is done: that the same is said again is no sign of life.
    fn moves(&self, now: &PrepareProgress) {
        let done = Done { bytes: now.bytes, text_bytes: now.text_bytes, tokens: now.tokens };
        let mut moved = self.moved();
        if moved.is_none_or(|(before, _)| before != done) {
            *moved = Some((done, Instant::now()));
        }
    }

    /// Whether it continues, as far as anybody is patient.
    pub(super) fn goes_on(&self) -> Result<(), String> {
        let still = self.moved().map(|(_, since)| since.elapsed());
        match still.zip(self.hang) {
            Some((still, hang)) if still >= hang => Err(format!("no part has grown for {:.0} s", still.as_secs_f64())),
            _ => Ok(()),
        }
    }

    fn beat(&self) {
        loop {
            self.notify.beat("", self.goes_on().is_ok());
            if let Some(trouble) = self.notify.complaint() {
                note(format_args!("warning: {trouble}"));
            }
            std::thread::sleep(PULSE);
        }
    }
}
