//! What is tuned so far: what gains, and why the rest stays.

use profiler::statistics::{Estimate, percent};
use telemetry::terminal::note;

use crate::cli::{ConfigArgs, TuneArgs};

/// A gain below this share changes nothing in a file.
pub const GAIN_MIN: f64 = 0.02;

/// The share of speed that fewer workers may surely not lose, by the lower end of the interval.
pub(super) const FEWER_MAX: f64 = 0.05;

/// A key that gains.
#[derive(Clone, Debug)]
pub struct TunedKey {
    /// The key of the configuration.
    pub key: &'static str,
    /// Its value before.
    pub from: u64,
    /// Its value after.
    pub to: u64,
    /// How many times as fast.
    pub ratio: Estimate,
    /// How it is and how it was.
    pub words: String,
}

/// What was found so far.
pub struct Tuning<'a> {
    /// The options of the command.
    pub options: &'a TuneArgs,
    /// As on the command line, and with what gains.
    pub(super) args: ConfigArgs,
    pub(super) changes: Vec<TunedKey>,
    /// Why other keys stay as they are, and what else is worth a word.
    pub(super) notes: Vec<String>,
}

impl Tuning<'_> {
    /// Whether the command line has a say about a key: then it is not ours to write.
    pub fn is_given(&self, key: &str) -> bool {
        let said = self.args.set.iter().filter_map(|set| set.split('=').next()).map(str::trim);
        said.into_iter().any(|said| said == key || key.strip_prefix(said).is_some_and(|rest| rest.starts_with('.')))
    }

    /// The command line with one key more.
    pub fn with(&self, key: &str, value: u64) -> ConfigArgs {
        let mut args = self.args.clone();
        args.set.push(format!("{key}={value}"));
        args
    }

    /// Takes a change: what is measured from now on has it.
    pub fn take(&mut self, change: TunedKey) {
        self.args = self.with(change.key, change.to);
        self.changes.push(change);
    }

    /// Notes a remark for the result, and prints it.
    pub fn say(&mut self, text: String) {
        note(&text);
        self.notes.push(text);
    }
}

/// `2.41 times as fast (2.38 to 2.45)`.
pub fn times(Estimate { mean, low, high }: Estimate) -> String {
    let times = if (mean - 1.0).abs() < GAIN_MIN { "as fast".to_owned() } else { format!("{mean:.2} times as fast") };
    format!("{times} ({low:.2} to {high:.2})")
}

/// A share of the time that a trainer waits, in words.
pub(super) fn waits(now: f64, before: f64) -> String {
    format!("the trainer waits {} of the time, before {}", percent(now), percent(before))
}
