//! Progress of a preparation: a bar on a terminal, otherwise a plain line every 10 s.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::output_mode::OutputMode;
use super::{bar, note};
use crate::preparation::PrepareProgress;

/// Progress display of a preparation: a bar on a terminal, otherwise plain lines.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    printed: Instant,
}

impl Progress {
    /// Interval of plain lines.
    const PLAIN_EVERY: Duration = Duration::from_secs(10);

    /// Creates a progress display: a bar if one may be drawn, otherwise plain lines.
    pub fn new(name: &'static str, now: &PrepareProgress) -> Self {
        let bar = OutputMode::get().draws().then(|| {
            let bar = bar::begin(now.bytes_total, "{prefix} {wide_bar} {percent:>3} %  {msg}  ETA {eta}");
            bar.set_position(now.bytes);
            bar.reset_eta();
            bar.set_prefix(name);
            bar
        });
        Self { bar, printed: Instant::now() }
    }

    /// Updates the progress. `line` is the plain line.
    pub fn set(&mut self, now: &PrepareProgress, line: impl std::fmt::Display) {
        self.set_beside(now, crate::event_text::beside_progress_bar(now), line);
    }

    /// Updates the progress with another text next to the bar.
    pub fn set_beside(&mut self, now: &PrepareProgress, message: String, line: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(now.bytes_total);
                bar.set_position(now.bytes);
                bar.set_message(message);
            }
            None if self.printed.elapsed() >= Self::PLAIN_EVERY => {
                self.printed = Instant::now();
                note(line);
            }
            None => {}
        }
    }

    /// Removes the bar.
    pub fn finish(&self) {
        self.bar.iter().for_each(bar::end);
    }
}
