//! What people see of a training, printed by its own thread: who reads slowly, or not at all, keeps no step waiting.

use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use schemas::printable;

use super::run_progress::{RunEstimate, RunProgress, RunProgressBar};
use super::{OutputFormat, OutputMode, bar, note};
use crate::{Event, EventKind, Observer};

/// Lines that may wait to be read.
const LINES: usize = 1024;

/// How long the last lines may take.
const PATIENCE: Duration = Duration::from_secs(2);

/// Prints what people see of events. That nobody sees it any more ends no run, and that nobody reads it stops none.
#[derive(Debug)]
pub struct Printer {
    /// Whether the end of a run is worth a line.
    ends: bool,
    lines: Option<SyncSender<Line>>,
    /// Lines that nobody had room for, since the last that somebody had.
    dropped: u64,
    /// Closed when all is printed.
    done: Receiver<()>,
}

#[derive(Debug)]
struct Line {
    text: String,
    is_result: bool,
    /// What a report says of the rest.
    outlook: Option<RunEstimate>,
}

impl Printer {
    /// Prints everything, and the end of a run if that is worth a line; below it a bar that says how far the run is.
    pub fn start(ends: bool, course: RunProgress) -> runtime::Result<Self> {
        let (lines, waiting) = sync_channel::<Line>(LINES);
        let (alive, done) = sync_channel(0);
        runtime::spawn("printer", move || {
            let _alive = alive;
            let mut out = Out::default();
            let Some(mut bar) = RunProgressBar::begin(course) else {
                return waiting.into_iter().for_each(|line| out.print(&line));
            };
            loop {
                match waiting.recv_timeout(RunProgressBar::EVERY) {
                    Ok(line) => {
                        out.print(&line);
                        line.outlook.into_iter().for_each(|outlook| bar.expect(outlook));
                    }
                    Err(RecvTimeoutError::Timeout) => bar.draw(),
                    Err(RecvTimeoutError::Disconnected) => break,
                }
            }
        })?;
        Ok(Self { ends, lines: Some(lines), dropped: 0, done })
    }

    fn send(&mut self, line: Line) {
        let Some(lines) = &self.lines else { return };
        if self.dropped > 0 {
            let text = format!("{} lines were read too late to be printed; the log of the run has them", self.dropped);
            match lines.try_send(Line { text, is_result: false, outlook: None }) {
                Ok(()) => self.dropped = 0,
                Err(_) => return self.dropped += 1,
            }
        }
        if let Err(TrySendError::Full(_)) = lines.try_send(line) {
            self.dropped += 1;
        }
    }
}

impl Observer for Printer {
    fn observe(&mut self, event: &Event) {
        if matches!(event.what, EventKind::Stop(_)) && !self.ends {
            return;
        }
        if let Some(text) = crate::event_text::line(event) {
            let outlook = match &event.what {
                EventKind::Report(report) => Some(RunEstimate { progress: report.progress, eta_s: report.speed.eta_s }),
                _ => None,
            };
            let is_result = crate::event_text::is_result(event);
            // For programs what is known of it, as the log has it.
            let is_json = is_result && OutputMode::get().form == OutputFormat::Json;
            let text = if is_json { crate::jsonl::line(event) } else { text };
            self.send(Line { text, is_result, outlook });
        }
    }
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.lines = None;
        // What comes after it is to stand below, unless nobody reads this either.
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(PATIENCE);
    }
}

#[derive(Default)]
struct Out {
    /// Whether stdout takes nothing any more, which was said once.
    deaf: bool,
}

impl Out {
    fn print(&mut self, line: &Line) {
        if !line.is_result {
            return note(&line.text);
        }
        let printed = bar::above(|| writeln!(io::stdout().lock(), "{}", printable(&line.text)));
        let Err(error) = printed else { return };
        if !std::mem::replace(&mut self.deaf, true) {
            note(format_args!("warning: stdout: {error}; the run continues, its log has what is not printed"));
        }
    }
}
