//! Time budget of a run: it ends after `train.max_hours`, and can still be replayed.
//!
//! # What
//! `RUN/time_budget.json`, [sealed](schemas::sealed), has the readings of the clock: the step and the training time so
//! far.
//!
//! # Why
//! The learning rate depends on the fraction of the hours that is spent, and clock readings are not reproducible. So
//! the clock is read only when a report is made. A reading is written before a step uses it. Steps that are repeated
//! after a kill use the first reading.
//!
//! # Definition
//! A reading is recorded when another [4096th](PARTS) of the hours is spent. It applies from the step after it. The
//! time of steps that a kill loses does not count.

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::config::TrainConfig;
use crate::error::Error;

/// Name of the file in the run's store.
pub(super) const NAME: &str = "time_budget.json";
/// Number of parts of the budget. The steps of the rate are invisible in a curve, and the list stays short.
const PARTS: f64 = 4096.0;

/// Readings of the clock: the content of the file.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeReadings {
    /// Readings, oldest first.
    readings: Vec<TimeReading>,
}

/// One reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TimeReading {
    /// Steps done.
    step: Step,
    /// Seconds of training so far.
    seconds: f64,
}

impl Sealed for TimeReadings {
    const FORMAT: &'static str = "cloze time budget";
    const VERSION: u32 = 1;
    const PRETTY: bool = false;
}

impl TimeReadings {
    /// Reads the readings of a run. A run without a time budget has none.
    pub fn read(run: &Store) -> Result<Self, Error> {
        let Some((bytes, _)) = run.get_with_stat(NAME)? else { return Ok(Self::default()) };
        let refuse = |problem: String| Error::Checkpoint { path: run.place(NAME).into(), problem };
        let list = Self::unseal(&bytes).map_err(|error| {
            refuse(format!("{error}; restore the file, or continue without it in a branch of this run"))
        })?;
        let is_forward = list.readings.is_sorted_by(|a, b| a.step < b.step && a.seconds <= b.seconds);
        if is_forward && list.readings.first().is_none_or(|first| first.seconds >= 0.0) {
            Ok(list)
        } else {
            Err(refuse("the readings are not in order".to_owned()))
        }
    }
}

/// Time budget of a run.
#[derive(Debug)]
pub struct TimeBudget {
    list: TimeReadings,
    budget_s: f64,
    // Seconds of training before the budget was opened, and the process clock at that time. A process may open it more
    // than once.
    before_s: f64,
    begun_s: f64,
}

impl TimeBudget {
    /// Creates the time budget of a run with these readings. `before_s` seconds are spent when the process clock shows
    /// `begun_s`.
    #[must_use]
    pub fn new(list: TimeReadings, hours: f64, before_s: f64, begun_s: f64) -> Self {
        Self { list, budget_s: 3600.0 * hours, before_s, begun_s }
    }

    /// Opens the time budget of a run, as [`Self::new`] with the readings of its folder.
    pub fn open(run: &Store, hours: f64, before_s: f64, begun_s: f64) -> Result<Self, Error> {
        Ok(Self::new(TimeReadings::read(run)?, hours, before_s, begun_s))
    }

    /// Number of readings.
    pub fn readings(&self) -> usize {
        self.list.readings.len()
    }

    /// Number of readings after at most `done` steps.
    pub fn readings_until(&self, done: Step) -> usize {
        self.list.readings.partition_point(|reading| reading.step <= done)
    }

    /// Seconds of training of the run when the process clock shows `elapsed_s`.
    pub fn trained_s(&self, elapsed_s: f64) -> f64 {
        self.before_s + elapsed_s - self.begun_s
    }

    /// Reads the clock after `done` steps, unless the list already has a reading of that step or a later one.
    pub fn record(&mut self, run: &Store, done: Step, elapsed_s: f64) -> Result<(), Error> {
        let last = self.list.readings.last();
        if last.is_some_and(|last| last.step >= done) {
            return Ok(());
        }
        let seconds = self.trained_s(elapsed_s).max(last.map_or(0.0, |last| last.seconds));
        let part = |seconds: f64| (PARTS * seconds / self.budget_s).floor();
        if part(seconds) > part(last.map_or(0.0, |last| last.seconds)) {
            let mut list = self.list.clone();
            list.readings.push(TimeReading { step: done, seconds });
            // Written before any step uses it.
            run.put(NAME, &list.seal())?;
            self.list = list;
        }
        Ok(())
    }

    /// Fraction of the budget that is spent, as the step after `done` uses it.
    pub fn share(&self, done: Step) -> f64 {
        let behind = self.list.readings.partition_point(|reading| reading.step <= done);
        behind.checked_sub(1).map_or(0.0, |last| self.list.readings[last].seconds / self.budget_s)
    }
}

/// Fraction of the budgets of tokens and hours that is spent before the step after `done`: the larger of both. `None`
/// if only steps end the run.
///
/// The learning rate depends on it ([`LrSchedule::set_share`](crate::schedule::LrSchedule::set_share)), also when the
/// step is repeated.
pub fn share_spent(train: &TrainConfig, done: Step, tokens: u64, hours: Option<&TimeBudget>) -> Option<f64> {
    let of_tokens = train.max_tokens.map(|budget| tokens as f64 / budget as f64);
    let of_hours = hours.map(|hours| hours.share(done));
    of_tokens.into_iter().chain(of_hours).reduce(f64::max)
}

/// Writes the readings of `from` up to `step` to `to`, which may be the same run.
pub fn cut(from: &Store, to: &Store, step: Step) -> Result<(), Error> {
    let mut list = TimeReadings::read(from)?;
    let all = list.readings.len();
    list.readings.retain(|reading| reading.step <= step);
    let is_new = to.head(NAME)?.is_none();
    if list.readings.len() < all || (is_new && all > 0) {
        to.put(NAME, &list.seal())?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests {
    use store::FaultConfig;

    use super::*;

    /// Two readings of the clock.
    pub(crate) fn seed() -> Vec<u8> {
        let readings = [(3, 1.5), (6, 2.75)].map(|(step, seconds)| TimeReading { step: Step(step), seconds });
        TimeReadings { readings: readings.to_vec() }.seal()
    }

    #[test]
    fn repeated_steps_use_the_first_reading() {
        let run = Store::in_memory(FaultConfig::none());
        let mut hours = TimeBudget::open(&run, 1.0, 0.0, 0.0).expect("none yet");
        for (step, elapsed_s) in [(2, 900.0), (4, 900.1), (6, 1800.0)] {
            hours.record(&run, Step(step), elapsed_s).expect("kept");
        }
        let shares = |hours: &TimeBudget| (0..8).map(|done| hours.share(Step(done))).collect::<Vec<_>>();
        let expected = [0.0, 0.0, 0.25, 0.25, 0.25, 0.25, 0.5, 0.5];
        assert_eq!(shares(&hours), expected, "no further 4096th has passed at step 4");
        // Killed, and continued from step 2, on a slower machine.
        let mut again = TimeBudget::open(&run, 1.0, 900.0, 0.0).expect("as written");
        again.record(&run, Step(4), 500.0).expect("nothing to keep");
        again.record(&run, Step(6), 1000.0).expect("nothing to keep");
        assert_eq!(shares(&again), expected);
        again.record(&run, Step(8), 2700.0).expect("kept");
        assert_eq!((again.share(Step(8)), again.trained_s(2700.0)), (1.0, 3600.0));
        // Opened a second time in the same process, which has trained in the meantime.
        let reopened = TimeBudget::open(&run, 1.0, 900.0, 400.0).expect("as written");
        assert_eq!(reopened.trained_s(500.0).to_bits(), 1000.0_f64.to_bits());
        let other = Store::in_memory(FaultConfig::none());
        cut(&run, &other, Step(5)).expect("kept");
        let branched = TimeBudget::open(&other, 1.0, 0.0, 0.0).expect("as written");
        assert_eq!(branched.share(Step(9)).to_bits(), 0.25_f64.to_bits());
    }
}
