//! Printer of training events. A background thread prints them, so that a slow or blocked terminal never delays a step.

use std::io::{self, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use super::run_progress::{RunEstimate, RunProgress, RunProgressBar};
use super::{OutputFormat, OutputMode, bar, note, on_stdout};
use crate::quantities::{count, eta, tokens_per_s};
use crate::{EarlyProgress, Event, EventKind, Observer};

/// Capacity of the line queue.
const LINES: usize = 1024;

/// Maximum time for printing the last lines.
const SHUTDOWN_TIMEOUT: Duration = Duration::from_secs(2);

/// Observer that prints events as text. A closed or blocked stdout neither ends nor blocks a run.
#[derive(Debug)]
pub struct Printer {
    /// Whether the end of a run is printed.
    ends: bool,
    lines: Option<SyncSender<Line>>,
    /// Lines that were dropped since the last queued line.
    dropped: u64,
    /// Closed when all lines are printed.
    done: Receiver<()>,
}

#[derive(Debug)]
struct Line {
    text: String,
    is_result: bool,
    /// Remaining time of the run, from a report.
    outlook: Option<RunEstimate>,
}

impl Printer {
    /// Starts the printer. It prints the end of a run if `ends` is set, and draws a progress bar below the lines.
    pub fn start(ends: bool, course: RunProgress) -> runtime::Result<Self> {
        let (lines, waiting) = sync_channel::<Line>(LINES);
        let (alive, done) = sync_channel(0);
        runtime::spawn("printer", move || {
            let _alive = alive;
            let mut out = OutputStream::default();
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
            let text = format!(
                "{} lines were not printed, because the terminal is too slow; the run log has them",
                self.dropped
            );
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
                EventKind::Report(report) => Some(RunEstimate {
                    progress: report.progress,
                    eta_s: report.speed.eta_s,
                    loss: Some(report.figures.loss),
                    speed: Some(speed_text(report.speed.tokens_per_s, report.speed.mfu)),
                }),
                _ => None,
            };
            let is_result = crate::event_text::is_result(event);
            // In JSON mode, results are printed as in the log.
            let is_json = is_result && OutputMode::get().form == OutputFormat::Json;
            let text = if is_json { crate::jsonl::line(event) } else { text };
            self.send(Line { text, is_result, outlook });
        }
    }

    fn progress(&mut self, progress: &EarlyProgress) {
        let EarlyProgress { step, loss, tokens_per_s: rate, mfu, eta_s } = *progress;
        let speed = speed_text(rate, mfu);
        let text = format!("step {}  loss {loss:.4}  {speed}{}", count(step), eta(eta_s));
        let outlook = Some(RunEstimate { progress: None, eta_s, loss: Some(loss), speed: Some(speed) });
        self.send(Line { text, is_result: false, outlook });
    }
}

/// Formats a speed: `745 k tok/s, MFU 31.2 %`.
fn speed_text(rate: f64, mfu: Option<f64>) -> String {
    let mfu = mfu.map_or(String::new(), |mfu| format!(", MFU {:.1} %", 100.0 * mfu));
    format!("{}{mfu}", tokens_per_s(rate))
}

impl Drop for Printer {
    fn drop(&mut self) {
        self.lines = None;
        // Later output must come after these lines, unless the terminal is blocked.
        let _: Result<(), RecvTimeoutError> = self.done.recv_timeout(SHUTDOWN_TIMEOUT);
    }
}

#[derive(Default)]
struct OutputStream {
    /// Whether writing to stdout has failed. The first failure is reported.
    has_failed: bool,
}

impl OutputStream {
    fn print(&mut self, line: &Line) {
        if !line.is_result {
            return note(&line.text);
        }
        let printed = bar::above(|| writeln!(io::stdout().lock(), "{}", on_stdout(&line.text)));
        let Err(error) = printed else { return };
        if !std::mem::replace(&mut self.has_failed, true) {
            note(format_args!("warning: stdout: {error}; the run continues, and its log has the missing lines"));
        }
    }
}
