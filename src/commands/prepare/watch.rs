//! `cloze prepare --watch`: prepares changes until a signal ends it.
//!
//! Files are compared by name, length and time at each interval; their contents are not read. A change is prepared when
//! two consecutive checks agree. This prevents reading a file that is still being written or copied.

use std::thread::sleep;
use std::time::Duration;

use pipeline::Error;
use pipeline::corpus::{Corpus, FileIdentity};
use pipeline::prepare::PrepareConfig;
use telemetry::terminal::note;

use crate::exit::Usage;

/// Shortest and longest interval between two checks, in seconds. The longest is a day.
const SECONDS: std::ops::RangeInclusive<f64> = 0.1..=86_400.0;

/// Interval between two checks.
pub(super) fn every(seconds: f64) -> anyhow::Result<Duration> {
    if SECONDS.contains(&seconds) {
        return Ok(Duration::from_secs_f64(seconds));
    }
    let least = SECONDS.start();
    let most = SECONDS.end();
    Err(Usage(format!("--watch={seconds}: give a number of seconds from {least} to {most}")).into())
}

/// Names and identities of the input files, or the error of listing them.
type CorpusFingerprint = Result<Vec<(String, FileIdentity)>, String>;

/// Prepares the corpus, then its changes. A first failure ends the command. A later one is printed, and the next change
/// tries again.
pub(super) fn run(
    config: &PrepareConfig,
    every: Duration,
    mut prepare: impl FnMut() -> pipeline::Result<()>,
) -> anyhow::Result<()> {
    let mut taken = check_inputs(config);
    prepare()?;
    let mut before = taken.clone();
    loop {
        sleep(every);
        let now = check_inputs(config);
        let is_settled = now == before;
        before.clone_from(&now);
        if !is_settled || now == taken {
            continue;
        }
        match prepare() {
            Ok(()) => taken = now,
            // Another process prepares it.
            Err(Error::Locked { .. }) => {}
            Err(error) => {
                note(format_args!("warning: {error}; the next change of the inputs tries again"));
                taken = now;
            }
        }
    }
}

fn check_inputs(config: &PrepareConfig) -> CorpusFingerprint {
    let corpus = Corpus::open(&config.corpus()).map_err(|error| error.to_string())?;
    Ok(corpus.files().iter().map(|file| (file.name.clone(), file.identity)).collect())
}
