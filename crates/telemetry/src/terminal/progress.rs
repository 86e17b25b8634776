//! How far a preparation is: a bar on a terminal, a plain line now and then elsewhere.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::output_mode::OutputMode;
use super::{bar, note};
use crate::preparation::PrepareProgress;

/// A preparation's progress bar on a terminal; elsewhere a plain line now and then.
#[derive(Debug)]
pub struct Progress {
    bar: Option<ProgressBar>,
    printed: Instant,
}

impl Progress {
    /// Between plain lines.
    const PLAIN_EVERY: Duration = Duration::from_secs(10);

    /// A progress display: a bar where one may be drawn, else lines.
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

    /// How far it is, and the same as a plain line.
    pub fn set(&mut self, now: &PrepareProgress, line: impl std::fmt::Display) {
        self.set_beside(now, crate::event_text::beside_bar(now), line);
    }

    /// The same with something else next to the bar.
    pub fn set_beside(&mut self, now: &PrepareProgress, beside: String, line: impl std::fmt::Display) {
        match &self.bar {
            Some(bar) => {
                bar.set_length(now.bytes_total);
                bar.set_position(now.bytes);
                bar.set_message(beside);
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
