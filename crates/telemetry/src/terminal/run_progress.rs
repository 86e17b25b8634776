//! How far a training is, below its lines: a bar on a terminal, nothing elsewhere.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::bar;
use super::output_mode::OutputMode;
use crate::quantities::{count, eta};

/// How finely a bar is drawn: more than the columns of any terminal.
const LENGTH: u64 = 10_000;

/// What a training is doing now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Doing {
    /// Steps done.
    pub steps: u64,
    /// In which phase it is, where that is worth a word.
    pub phase: Option<&'static str>,
}

/// A training whose course is drawn.
pub struct RunProgress {
    /// Its last step; none where something else ends it.
    pub steps: Option<u64>,
    /// What it does when it is asked.
    pub look: Box<dyn Fn() -> Doing + Send>,
}

/// What a report says of the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct RunEstimate {
    /// The share that is done.
    pub(super) progress: Option<f64>,
    /// Seconds to the end.
    pub(super) eta_s: Option<f64>,
}

/// The bar of a training.
pub(super) struct RunProgressBar {
    course: RunProgress,
    bar: ProgressBar,
    outlook: RunEstimate,
    since: Instant,
}

impl RunProgressBar {
    /// Between two looks.
    pub(super) const EVERY: Duration = Duration::from_millis(250);

    /// None where it is not to be drawn.
    pub(super) fn begin(course: RunProgress) -> Option<Self> {
        let bar = OutputMode::get().draws().then(|| bar::begin(LENGTH, "{wide_bar} {percent:>3} %  {msg}"))?;
        let drawn = Self { course, bar, outlook: RunEstimate::default(), since: Instant::now() };
        drawn.draw();
        Some(drawn)
    }

    /// A report came.
    pub(super) fn expect(&mut self, outlook: RunEstimate) {
        (self.outlook, self.since) = (outlook, Instant::now());
        self.draw();
    }

    pub(super) fn draw(&self) {
        let doing = (self.course.look)();
        self.bar.set_position(position(self.course.steps, doing.steps, self.outlook.progress));
        self.bar.set_message(message(self.course.steps, doing, self.outlook.eta_s, self.since.elapsed()));
    }
}

impl Drop for RunProgressBar {
    fn drop(&mut self) {
        bar::end(&self.bar);
    }
}

/// By steps, which are known at every moment, or as the last report had it.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share, cut to what a bar has")]
fn position(last: Option<u64>, done: u64, progress: Option<f64>) -> u64 {
    let share = progress.or_else(|| last.map(|last| done as f64 / last.max(1) as f64)).unwrap_or_default();
    (share.clamp(0.0, 1.0) * LENGTH as f64) as u64
}

/// `step 1,234 of 10,000  validation  ETA 2.1 h`
fn message(last: Option<u64>, doing: Doing, eta_s: Option<f64>, since: Duration) -> String {
    let of = last.map_or(String::new(), |last| format!(" of {}", count(last)));
    let phase = doing.phase.map_or(String::new(), |phase| format!("  {phase}"));
    let left = eta_s.map(|eta_s| (eta_s - since.as_secs_f64()).max(0.0));
    format!("step {}{of}{phase}{}", count(doing.steps), eta(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_says_where_a_run_is_and_what_it_does() {
        let at = |steps, phase| Doing { steps, phase };
        let now = Duration::ZERO;
        assert_eq!(message(Some(10_000), at(1234, None), None, now), "step 1,234 of 10,000");
        let later = Duration::from_secs(20);
        assert_eq!(message(None, at(5, Some("validation")), Some(50.0), later), "step 5  validation  ETA 30 s");
        assert_eq!(message(None, at(5, None), Some(5.0), later), "step 5  ETA 0 s", "never less than nothing");
        assert_eq!([position(Some(100), 25, None), position(None, 25, None)], [2500, 0]);
        assert_eq!(
            [position(None, 25, Some(0.5)), position(Some(20), 25, None), position(Some(0), 0, None)],
            [5000, 10_000, 0]
        );
    }
}
