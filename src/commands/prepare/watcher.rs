//! What people see of a preparation.

use telemetry::terminal::{Progress, note, told};
use telemetry::{Event, EventKind, Observer};

/// Shows how a preparation begins and how far it is, and keeps how it ended: the result comes when nothing can go wrong.
#[derive(Default)]
pub(super) struct Watcher {
    bar: Option<Progress>,
    parts: u64,
    // Of them, those that are done.
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
            // What was kept from before is no progress, and has no rate.
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
            told(text);
        }
    }

    /// What somebody who asks wants to know.
    pub(super) fn so_far(&self) -> String {
        let Self { parts, done, .. } = self;
        if *parts == 0 {
            "planning; nothing is written yet".to_owned()
        } else {
            format!("{done} of {parts} parts are done")
        }
    }

    /// What somebody who stops it wants to know.
    pub(super) fn stopped(&self) -> String {
        let Self { parts, done, .. } = self;
        let kept = if *parts > 0 { format!(" after {done} of {parts} parts, which are kept") } else { String::new() };
        format!("stopped{kept}; the same command continues")
    }
}
