//! `cloze prepare --watch`: takes in what changes, until a signal ends it.
//!
//! The files are looked at, not read, every so many seconds: names, lengths, times. A change is taken in once two looks
//! that follow one another agree, so that a file that is still being written, or copied, is not cut in its middle.

use std::thread::sleep;
use std::time::Duration;

use pipeline::Error;
use pipeline::corpus::{Corpus, FileIdentity};
use pipeline::prepare::PrepareConfig;
use telemetry::terminal::note;

use crate::exit::Usage;

/// The shortest pause between two looks, in seconds, and the longest: a day.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;

/// The pause between two looks.
pub(super) fn every(seconds: f64) -> anyhow::Result<Duration> {
    if SECONDS.contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    let (least, most) = (SECONDS.start(), SECONDS.end());
    Err(Usage(format!("--watch={seconds}: give a number of seconds from {least} to {most}")).into())
}

/// What a corpus looks like from outside, or why it cannot be looked at.
type Look = Result<Vec<(String, FileIdentity)>, String>;

/// Lets `prepare` take in what there is, then what changes. That the first time fails ends it; a later failure is told, and
/// tried again at the next change.
pub(super) fn run(
    config: &PrepareConfig,
    every: Duration,
    mut prepare: impl FnMut() -> pipeline::Result<()>,
) -> anyhow::Result<()> {
    let mut taken = look(config);
    prepare()?;
    let mut before = taken.clone();
    loop {
        sleep(every);
        let now = look(config);
        let is_settled = now == before;
        before.clone_from(&now);
        if !is_settled || now == taken {
            continue;
        }
        match prepare() {
            Ok(()) => taken = now,
            // Somebody else takes it in.
            Err(Error::Locked { .. }) => {}
            Err(error) => {
                note(format_args!("warning: {error}; it is tried again when the inputs have changed"));
                taken = now;
            }
        }
    }
}

fn look(config: &PrepareConfig) -> Look {
    let corpus = Corpus::open(&config.corpus()).map_err(|error| error.to_string())?;
    Ok(corpus.files().iter().map(|file| (file.name.clone(), file.identity)).collect())
}
