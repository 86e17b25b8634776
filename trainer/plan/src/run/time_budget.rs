//! A run that ends after so many hours, and can be replayed nevertheless.
//!
//! # What
//! `RUN/time_budget.json`, [sealed](schemas::sealed): at which steps the run looked at the clock, and how long it had trained.
//!
//! # Why
//! The learning rate goes by the share of the hours that is spent, and a clock never shows the same twice. So it is looked
//! at only when a report is made, the reading is kept before a step goes by it, and steps that are done again, since a kill
//! has lost them, go by what was read the first time.
//!
//! # Definition
//! A reading is kept when another [4096th](PARTS) of the hours is spent, and counts from the step after it. The time of
//! steps that a kill loses does not count.

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::config::TrainConfig;
use crate::error::Error;

/// Its name in the run's store.
pub(super) const NAME: &str = "time_budget.json";
/// A rate moves in so many parts: none is seen in a curve, and the list stays short.
const PARTS: f64 = 4096.0;

/// What is written.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Readings {
    /// The oldest first.
    readings: Vec<Reading>,
}

/// One look at the clock.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Reading {
    /// Steps done.
    step: Step,
    /// Seconds that the run had trained.
    seconds: f64,
}

impl Sealed for Readings {
    const FORMAT: &'static str = "cloze time budget";
    const VERSION: u32 = 1;
    const PRETTY: bool = false;
}

/// The hours of a run.
#[derive(Debug)]
pub struct Hours {
    list: Readings,
    budget_s: f64,
    // Seconds that were trained before this was opened, and what the process's clock said then: it may be opened more than
    // once in a process.
    before_s: f64,
    begun_s: f64,
}

impl Hours {
    /// Those of the run in that store, of which `before_s` seconds are spent when the process's clock says `begun_s`.
    pub fn open(run: &Store, hours: f64, before_s: f64, begun_s: f64) -> Result<Self, Error> {
        let list = read(run)?;
        Ok(Self { list, budget_s: 3600.0 * hours, before_s, begun_s })
    }

    /// How often the clock was looked at.
    pub fn readings(&self) -> usize {
        self.list.readings.len()
    }

    /// How often that was after at most `done` steps.
    pub fn readings_until(&self, done: Step) -> usize {
        self.list.readings.partition_point(|reading| reading.step <= done)
    }

    /// Seconds that the run has trained when the process's clock says `elapsed_s`.
    pub fn trained_s(&self, elapsed_s: f64) -> f64 {
        self.before_s + elapsed_s - self.begun_s
    }

    /// Looks at the clock after `done` steps, unless that was done before.
    pub fn look(&mut self, run: &Store, done: Step, elapsed_s: f64) -> Result<(), Error> {
        let last = self.list.readings.last();
        if last.is_some_and(|last| last.step >= done) {
            return Ok(());
        }
        let seconds = self.trained_s(elapsed_s).max(last.map_or(0.0, |last| last.seconds));
        let part = |seconds: f64| (PARTS * seconds / self.budget_s).floor();
        if part(seconds) > part(last.map_or(0.0, |last| last.seconds)) {
            let mut list = self.list.clone();
            list.readings.push(Reading { step: done, seconds });
            // Kept before it is passed.
            run.put(NAME, &list.seal())?;
            self.list = list;
        }
        Ok(())
    }

    /// The share of the hours that is spent, as far as the step after `done` goes by it.
    pub fn share(&self, done: Step) -> f64 {
        let behind = self.list.readings.partition_point(|reading| reading.step <= done);
        behind.checked_sub(1).map_or(0.0, |last| self.list.readings[last].seconds / self.budget_s)
    }
}

/// The share of a run that is done before the step after `done`, where another budget than steps has a say: the largest of all
/// shares. The learning rate goes by it ([`LrSchedule::set_share`](crate::schedule::LrSchedule::set_share)), whenever that
/// step is done, or done again.
pub fn share_done(train: &TrainConfig, done: Step, tokens: u64, hours: Option<&Hours>) -> Option<f64> {
    let of_tokens = train.max_tokens.map(|budget| tokens as f64 / budget as f64);
    let of_hours = hours.map(|hours| hours.share(done));
    let share = of_tokens.into_iter().chain(of_hours).reduce(f64::max)?;
    Some(share.max(done.0 as f64 / train.steps as f64))
}

/// Keeps of a run's readings those up to a step, here or for another run.
pub fn cut(from: &Store, to: &Store, step: Step) -> Result<(), Error> {
    let mut list = read(from)?;
    let all = list.readings.len();
    list.readings.retain(|reading| reading.step <= step);
    let is_new = to.stat(NAME)?.is_none();
    if list.readings.len() < all || (is_new && all > 0) {
        to.put(NAME, &list.seal())?;
    }
    Ok(())
}

fn read(run: &Store) -> Result<Readings, Error> {
    let Some((bytes, _)) = run.read_with_stat(NAME)? else { return Ok(Readings::default()) };
    let refuse = |problem: String| Error::Checkpoint { path: run.place(NAME).into(), problem };
    let list = Readings::unseal(&bytes)
        .map_err(|error| refuse(format!("{error}; put it back, or go on without it in a branch of this run")))?;
    let is_forward = list.readings.is_sorted_by(|a, b| a.step < b.step && a.seconds <= b.seconds);
    if is_forward && list.readings.first().is_none_or(|first| first.seconds >= 0.0) {
        Ok(list)
    } else {
        Err(refuse("its readings are in no order".to_owned()))
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use store::FaultConfig;

    use super::*;

    /// Two looks at the clock.
    pub(crate) fn seed() -> Vec<u8> {
        let readings = [(3, 1.5), (6, 2.75)].map(|(step, seconds)| Reading { step: Step(step), seconds });
        Readings { readings: readings.to_vec() }.seal()
    }

    #[test]
    fn steps_that_are_done_again_go_by_the_first_reading() {
        let run = Store::memory(FaultConfig::calm());
        let mut hours = Hours::open(&run, 1.0, 0.0, 0.0).expect("none yet");
        for (step, elapsed_s) in [(2, 900.0), (4, 900.1), (6, 1800.0)] {
            hours.look(&run, Step(step), elapsed_s).expect("kept");
        }
        let shares = |hours: &Hours| (0..8).map(|done| hours.share(Step(done))).collect::<Vec<_>>();
        let expected = [0.0, 0.0, 0.25, 0.25, 0.25, 0.25, 0.5, 0.5];
        assert_eq!(shares(&hours), expected, "a part of 4096 has not passed at step 4");
        // Killed, and continued from step 2, on a slower machine.
        let mut again = Hours::open(&run, 1.0, 900.0, 0.0).expect("as written");
        again.look(&run, Step(4), 500.0).expect("nothing to keep");
        again.look(&run, Step(6), 1000.0).expect("nothing to keep");
        assert_eq!(shares(&again), expected);
        again.look(&run, Step(8), 2700.0).expect("kept");
        assert_eq!((again.share(Step(8)), again.trained_s(2700.0)), (1.0, 3600.0));
        // Opened once more in the same process, which has trained since.
        let anew = Hours::open(&run, 1.0, 900.0, 400.0).expect("as written");
        assert_eq!(anew.trained_s(500.0).to_bits(), 1000.0_f64.to_bits());
        let other = Store::memory(FaultConfig::calm());
        cut(&run, &other, Step(5)).expect("kept");
        let branched = Hours::open(&other, 1.0, 0.0, 0.0).expect("as written");
        assert_eq!(branched.share(Step(9)).to_bits(), 0.25_f64.to_bits());
    }
}
