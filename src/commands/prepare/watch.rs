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

/// Prepares the corpus, then its changes. A first failure ends the command, unless the inputs have changed meanwhile. A
/// later one is printed. After a failure of the inputs, the next change tries again, and after any other one the next
/// check.
pub(super) fn run(
    config: &PrepareConfig,
    every: Duration,
    mut prepare: impl FnMut() -> pipeline::Result<()>,
) -> anyhow::Result<()> {
    watch(config, every, usize::MAX, &mut prepare)
}

/// Same, for a number of checks.
fn watch(
    config: &PrepareConfig,
    every: Duration,
    checks: usize,
    prepare: &mut dyn FnMut() -> pipeline::Result<()>,
) -> anyhow::Result<()> {
    let mut taken = check_inputs(config);
    let mut before = taken.clone();
    if let Err(error) = prepare() {
        before = check_inputs(config);
        if !error.is_about_inputs() || before == taken {
            return Err(error.into());
        }
        note(format_args!("warning: {error}; the inputs have changed meanwhile, the next check tries again"));
        // No listing equals it.
        taken = Err(String::new());
    }
    let mut failure = None;
    for _ in 0..checks {
        sleep(every);
        let now = check_inputs(config);
        let is_settled = now == before;
        before.clone_from(&now);
        if !is_settled || now == taken {
            continue;
        }
        match prepare() {
            Ok(()) => {
                taken = now;
                failure = None;
            }
            // Another process prepares it.
            Err(Error::Locked { .. }) => {}
            Err(error) if error.is_about_inputs() => {
                note(format_args!("warning: {error}; the next change of the inputs tries again"));
                taken = now;
            }
            // A full disk, for example. The same failure is printed once.
            Err(error) => {
                let message = error.to_string();
                if failure.as_ref() != Some(&message) {
                    note(format_args!("warning: {message}; the next check tries again"));
                }
                failure = Some(message);
            }
        }
    }
    Ok(())
}

fn check_inputs(config: &PrepareConfig) -> CorpusFingerprint {
    let corpus = Corpus::open(&config.corpus()).map_err(|error| error.to_string())?;
    Ok(corpus.files().iter().map(|file| (file.name.clone(), file.identity.clone())).collect())
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    /// Number of preparations until the third one, or until the fifth check without one.
    fn preparations(error: impl Fn() -> Error) -> usize {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = store::Store::folder(home.path()).expect("there");
        store.put("a.txt", b"text").expect("put");
        let config = PrepareConfig { inputs: vec![home.path().display().to_string()], ..PrepareConfig::default() };
        let mut calls = 0;
        let mut prepare = || {
            calls += 1;
            match calls {
                1 => {
                    store.put("b.txt", b"more").expect("put");
                    Ok(())
                }
                2 => Err(error()),
                _ => panic!("it tries again"),
            }
        };
        let short = Duration::from_millis(20);
        let _: std::thread::Result<_> = catch_unwind(AssertUnwindSafe(|| watch(&config, short, 8, &mut prepare)));
        calls
    }

    /// Number of preparations in three checks if the first one fails, and the result.
    fn preparations_after_first_failure(inputs_change: bool) -> (usize, anyhow::Result<()>) {
        let home = tempfile::tempdir().expect("a temporary folder");
        let store = store::Store::folder(home.path()).expect("there");
        store.put("a.txt", b"text").expect("put");
        store.put("b.txt", b"more").expect("put");
        let config = PrepareConfig { inputs: vec![home.path().display().to_string()], ..PrepareConfig::default() };
        let mut calls = 0;
        let mut prepare = || {
            calls += 1;
            if calls > 1 {
                return Ok(());
            }
            if inputs_change {
                store.delete("b.txt").expect("removed");
            }
            Err(Error::Corpus { path: "b.txt".into(), line: None, message: "it is missing".to_owned() })
        };
        let result = watch(&config, Duration::from_millis(20), 3, &mut prepare);
        (calls, result)
    }

    #[test]
    fn a_file_that_vanishes_during_the_first_preparation_does_not_end_the_command() {
        let (calls, result) = preparations_after_first_failure(true);
        result.expect("it tries again");
        assert_eq!(calls, 2, "and once is enough");
        let (calls, result) = preparations_after_first_failure(false);
        assert!(result.is_err() && calls == 1, "another try would fail in the same way");
    }

    #[test]
    fn failures_of_the_disk_are_tried_again_without_a_change() {
        assert_eq!(preparations(|| std::io::Error::other("the disk is full").into()), 3);
        assert_eq!(preparations(|| Error::UnusableCorpus("no text".to_owned())), 2, "only a change helps");
    }
}
