//! Progress of a training run: a bar below its lines on a terminal, otherwise nothing.

use std::time::{Duration, Instant};

use indicatif::ProgressBar;

use super::bar;
use super::output_mode::OutputMode;
use crate::quantities::{count, eta};

/// Resolution of the bar, finer than the columns of any terminal.
const LENGTH: u64 = 10_000;

/// Current step and phase of a training run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PhaseText {
    /// Steps done.
    pub steps: u64,
    /// Phase, if it is to be shown.
    pub phase: Option<&'static str>,
}

/// Training run whose progress is drawn.
pub struct RunProgress {
    /// Last step. `None` if tokens or hours end the run.
    pub steps: Option<u64>,
    /// Function that returns the current step and phase.
    pub look: Box<dyn Fn() -> PhaseText + Send>,
}

/// Remaining part of a run, from a report.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct RunEstimate {
    /// Fraction of the run that is done.
    pub(super) progress: Option<f64>,
    /// Estimated seconds to the end.
    pub(super) eta_s: Option<f64>,
    /// Training loss.
    pub(super) loss: Option<f64>,
    /// Speed as text.
    pub(super) speed: Option<String>,
}

/// Progress bar of a training run.
pub(super) struct RunProgressBar {
    course: RunProgress,
    bar: ProgressBar,
    outlook: RunEstimate,
    since: Instant,
}

impl RunProgressBar {
    /// Interval of redraws.
    pub(super) const EVERY: Duration = Duration::from_millis(250);

    /// Draws the bar. Returns `None` if no bar may be drawn.
    pub(super) fn begin(course: RunProgress) -> Option<Self> {
        let bar = OutputMode::get().draws().then(|| bar::begin(LENGTH, "{wide_bar} {percent:>3} %  {msg}"))?;
        let drawn = Self { course, bar, outlook: RunEstimate::default(), since: Instant::now() };
        drawn.draw();
        Some(drawn)
    }

    /// Updates the bar from a report.
    pub(super) fn expect(&mut self, outlook: RunEstimate) {
        self.outlook = outlook;
        self.since = Instant::now();
        self.draw();
    }

    pub(super) fn draw(&self) {
        let doing = (self.course.look)();
        self.bar.set_position(position(self.course.steps, doing.steps, self.outlook.progress));
        self.bar.set_message(message(self.course.steps, doing, &self.outlook, self.since.elapsed()));
    }
}

impl Drop for RunProgressBar {
    fn drop(&mut self) {
        bar::end(&self.bar);
    }
}

/// Returns the position of the bar: the progress of the last report if it has one, otherwise the fraction of steps.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a fraction, clamped to the bar")]
fn position(last: Option<u64>, done: u64, progress: Option<f64>) -> u64 {
    let share = progress.or_else(|| last.map(|last| done as f64 / last.max(1) as f64)).unwrap_or_default();
    (share.clamp(0.0, 1.0) * LENGTH as f64) as u64
}

/// Returns the text of the bar, such as `step 1,234 of 10,000  loss 2.3456  745 k tok/s  ETA 2.1 h`.
fn message(last: Option<u64>, doing: PhaseText, outlook: &RunEstimate, since: Duration) -> String {
    let of = last.map_or(String::new(), |last| format!(" of {}", count(last)));
    let phase = doing.phase.map_or(String::new(), |phase| format!("  {phase}"));
    let loss = outlook.loss.map_or(String::new(), |loss| format!("  loss {loss:.4}"));
    let speed = outlook.speed.as_ref().map_or(String::new(), |speed| format!("  {speed}"));
    let left = outlook.eta_s.map(|eta_s| (eta_s - since.as_secs_f64()).max(0.0));
    format!("step {}{of}{phase}{loss}{speed}{}", count(doing.steps), eta(left))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_shows_step_phase_and_remaining_time() {
        let at = |steps, phase| PhaseText { steps, phase };
        let now = Duration::ZERO;
        assert_eq!(message(Some(10_000), at(1234, None), &RunEstimate::default(), now), "step 1,234 of 10,000");
        let later = Duration::from_secs(20);
        let ends_in = |seconds| RunEstimate { eta_s: Some(seconds), ..RunEstimate::default() };
        assert_eq!(message(None, at(5, Some("validation")), &ends_in(50.0), later), "step 5  validation  ETA 30 s");
        assert_eq!(message(None, at(5, None), &ends_in(5.0), later), "step 5  ETA 0 s", "never negative");
        let reported = RunEstimate { loss: Some(2.5), speed: Some("745 k tok/s".to_owned()), ..ends_in(50.0) };
        assert_eq!(message(None, at(5, None), &reported, later), "step 5  loss 2.5000  745 k tok/s  ETA 30 s");
        assert_eq!([position(Some(100), 25, None), position(None, 25, None)], [2500, 0]);
        assert_eq!(
            [position(None, 25, Some(0.5)), position(Some(20), 25, None), position(Some(0), 0, None)],
            [5000, 10_000, 0]
        );
    }
}
