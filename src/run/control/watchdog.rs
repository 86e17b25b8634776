//! Who looks every half second: for files that ask for a stop and for a profile, for the end of a grace, for who stands still; and gives a
//! sign of life to who asked for one.

use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

use store::Store;

use super::profile_file;
use super::signal::Signal;
use super::signal_state::{DeferredLog, SignalState};
use super::stop_file::asks;

/// Between two looks: nobody who asks by a file waits longer to be heard, and a look costs a system call.
const PULSE: Duration = Duration::from_millis(500);

/// Last words are printed by another thread, which somebody may keep waiting.
const LAST_WORDS: Duration = Duration::from_millis(300);

/// What a run says of its patience.
#[derive(Clone, Debug)]
pub struct Timeouts {
    /// The run's folder.
    pub folder: Store,
    /// How long a stop may take; none: as long as it takes.
    pub grace: Option<Duration>,
    /// How long nothing may happen before somebody hears of it.
    pub hang: Option<Duration>,
}

/// Looks for as long as the process lives.
pub(super) fn watch(heard: &Arc<SignalState>, patience: &Timeouts) {
    let (mut bark, mut is_told, mut misheard) = (WarnBackoff::new(patience.hang), false, None);
    loop {
        if heard.signal().is_none() {
            match asks(&patience.folder) {
                Ok(true) => {
                    // As SIGTERM does.
                    heard.stop(Signal::Terminate);
                }
                Err(found) if !is_told => {
                    is_told = true;
                    heard.say(DeferredLog::NoFile(found));
                }
                Ok(false) | Err(_) => {}
            }
        }
        if let Some(found) = profile_file::heard(&patience.folder) {
            let by = found.as_ref().ok().and_then(|wish| wish.by.clone());
            if let Err(problem) = found.and_then(|wish| heard.wishes.measure(wish)) {
                if let Some(by) = by {
                    // Who asked waits for it; where that cannot be written either, it is said here.
                    let _ = profile_file::refuse(&patience.folder, &by, &problem);
                }
                if misheard.as_ref() != Some(&problem) {
                    misheard = Some(problem.clone());
                    heard.say(DeferredLog::NoProfile(problem));
                }
            }
        }
        if let (Some(signal), Some(waited)) = (heard.signal(), heard.waited())
            && patience.grace.is_some_and(|grace| waited >= grace)
        {
            heard.say(DeferredLog::GraceOver(signal, heard.board.kept()));
            sleep(LAST_WORDS);
            runtime::exit_now(signal.exit_code());
        }
        let goes_on = heard.goes_on();
        heard.notify.beat(heard.board.phase().name(), goes_on.is_ok());
        if let Some(found) = bark.hears(goes_on.err()) {
            heard.say(DeferredLog::StandsStill(found));
        }
        if let Some(trouble) = heard.notify.complaint() {
            heard.say(DeferredLog::Unheard(trouble));
        }
        sleep(PULSE);
    }
}

/// Speaks up, and again when it has lasted twice as long.
struct WarnBackoff {
    first: Duration,
    next: Duration,
}

impl WarnBackoff {
    fn new(hang: Option<Duration>) -> Self {
        let first = hang.unwrap_or(Duration::MAX);
        Self { first, next: first }
    }

    fn hears(&mut self, still: Option<(Duration, String)>) -> Option<String> {
        let Some((age, found)) = still else {
            self.next = self.first;
            return None;
        };
        if age < self.next {
            return None;
        }
        self.next = age.saturating_mul(2);
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_watchdog_barks_once_and_again_ever_more_seldom() {
        let mut bark = WarnBackoff::new(Some(Duration::from_secs(10)));
        let mut heard = Vec::new();
        for age in (0..100).map(Duration::from_secs) {
            let still = (age >= Duration::from_secs(10)).then(|| (age, String::new()));
            heard.extend(bark.hears(still).map(|_| age.as_secs()));
        }
        assert_eq!(heard, [10, 20, 40, 80]);
        // Something has happened since.
        assert_eq!(bark.hears(None), None);
        assert!(bark.hears(Some((Duration::from_secs(10), "again".to_owned()))).is_some());
        assert!(WarnBackoff::new(None).hears(Some((Duration::from_secs(1 << 40), String::new()))).is_none());
    }
}
