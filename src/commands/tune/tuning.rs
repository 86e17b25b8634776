//! State of tuning: the gains, and the reasons of unchanged keys.

use profiler::statistics::{Estimate, percent};
use telemetry::terminal::note;

use crate::cli::{ConfigArgs, TuneArgs};

/// Minimum gain, as a fraction, that changes a file.
pub const GAIN_MIN: f64 = 0.02;

/// Maximum loss of speed with fewer workers, as a fraction, by the lower end of the interval.
pub(super) const FEWER_MAX: f64 = 0.05;

/// Key with a gain.
#[derive(Clone, Debug)]
pub struct TunedKey {
    /// Configuration key.
    pub key: &'static str,
    /// Value before.
    pub from: u64,
    /// Value after.
    pub to: u64,
    /// Relative speed.
    pub ratio: Estimate,
    /// Present and former state, in words.
    pub words: String,
}

/// State of tuning.
pub struct TuneSession<'a> {
    /// Options of the command.
    pub options: &'a TuneArgs,
    /// Arguments with the gains so far.
    pub(super) args: ConfigArgs,
    pub(super) changes: Vec<TunedKey>,
    /// Reasons of unchanged keys, and other notes.
    pub(super) notes: Vec<String>,
}

impl TuneSession<'_> {
    /// Whether the command line sets a key. Tuning then does not write it.
    pub fn is_given(&self, key: &str) -> bool {
        let key_set = self.args.set.iter().filter_map(|set| set.split('=').next()).map(str::trim);
        key_set.into_iter().any(|set| set == key || key.strip_prefix(set).is_some_and(|rest| rest.starts_with('.')))
    }

    /// Arguments with one more key.
    pub fn with(&self, key: &str, value: u64) -> ConfigArgs {
        let mut args = self.args.clone();
        args.set.push(format!("{key}={value}"));
        args
    }

    /// Adopts a change for the following measurements.
    pub fn apply(&mut self, change: TunedKey) {
        self.args = self.with(change.key, change.to);
        self.changes.push(change);
    }

    /// Records a note for the result and prints it.
    pub fn report(&mut self, text: String) {
        note(&text);
        self.notes.push(text);
    }
}

/// Formats a relative speed: `2.41 times as fast (2.38 to 2.45)`.
pub fn times(Estimate { mean, low, high }: Estimate) -> String {
    let times = if (mean - 1.0).abs() < GAIN_MIN { "as fast".to_owned() } else { format!("{mean:.2} times as fast") };
    format!("{times} ({low:.2} to {high:.2})")
}

/// Formats the fraction of time that a trainer waits.
pub(super) fn waits(now: f64, before: f64) -> String {
    format!("the trainer waits {} of the time, before {}", percent(now), percent(before))
}
