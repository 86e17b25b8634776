//! Progress of a preparation on the terminal.

use telemetry::terminal::{Progress, note, outcome};
use telemetry::{Event, EventKind, Observer};

/// Shows start and progress of a preparation, and keeps its result. The result is printed when nothing can fail any
/// more.
#[derive(Default)]
pub(super) struct Watcher {
    bar: Option<Progress>,
    parts: u64,
    // Finished parts among them.
    done: u64,
    end: Option<String>,
}

impl Observer for Watcher {
    fn observe(&mut self, event: &Event) {
        match &event.what {
            EventKind::PrepareStart(start) => self.parts = start.parts,
            EventKind::PartDone(_) => self.done += 1,
            _ => {}
        }
        let Some(text) = telemetry::event_text::line(event) else { return };
        match &event.what {
            // Parts kept from an earlier preparation are no progress and have no rate.
            EventKind::PrepareProgress(now) if now.bytes == now.bytes_kept => {}
            EventKind::PrepareProgress(now) => {
                self.bar.get_or_insert_with(|| Progress::new("prepare", now)).set(now, text);
            }
            EventKind::PrepareEnd(_) => self.end = Some(text),
            _ => note(text),
        }
    }
}

impl Watcher {
    pub(super) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }

    pub(super) fn report(&mut self) {
        if let Some(text) = self.end.take() {
            outcome(text);
        }
    }

    /// Progress in one line, for a signal.
    pub(super) fn so_far(&self) -> String {
        let Self { parts, done, .. } = self;
        if *parts == 0 {
            "planning; nothing is written yet".to_owned()
        } else {
            format!("{done} of {parts} parts are done")
        }
    }

    /// Progress in one line, at a stop.
    pub(super) fn stopped(&self) -> String {
        let Self { parts, done, .. } = self;
        let kept = if *parts > 0 { format!(" after {done} of {parts} parts, which are kept") } else { String::new() };
        format!("stopped{kept}; the same command continues")
    }
}
