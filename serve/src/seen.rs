//! What was said of a run, for all who look at it.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use observe::{Event, Observer, What, jsonl};
use serde::Serialize;
use store::{Lines, Store};

use crate::history::{History, Shown};
use crate::live::Live;

/// What is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// A training.
    Train,
    /// A preparation.
    Prepare,
}

/// What does not change while it is looked at.
#[derive(Clone, Debug, Serialize)]
pub struct About {
    /// A training or a preparation.
    pub kind: Kind,
    /// Its name, for people.
    pub name: String,
    /// Its folder.
    pub place: String,
    /// Who runs it: `cloze 0.1.0`.
    pub program: String,
}

/// What a run said so far, and says.
#[derive(Debug)]
pub struct Seen {
    pub(crate) about: About,
    pub(crate) live: Live,
    state: Mutex<State>,
    /// Where what was said before this process is read.
    log: OnceLock<Store>,
}

/// What events leave behind.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) history: History,
    /// The newest event that is one of a report, or of progress.
    pub(crate) newest: Option<Event>,
    pub(crate) validation: Option<Event>,
    pub(crate) counted: Counted,
}

/// What this process has done so far: numbers that only grow.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) checkpoints: u64,
    pub(crate) checkpoint_s: f64,
    pub(crate) stall_s: f64,
    pub(crate) validations: u64,
    pub(crate) validation_s: f64,
    pub(crate) warnings: u64,
    pub(crate) leaps: u64,
    pub(crate) left_out: u64,
    pub(crate) starved_s: f64,
}

impl Seen {
    /// Nothing is said so far.
    #[must_use]
    pub fn new(about: About) -> Arc<Self> {
        Arc::new(Self { about, live: Live::new(), state: Mutex::default(), log: OnceLock::new() })
    }

    /// There lies what the run said before this process, if it goes on.
    pub fn goes_on_in(&self, run: &Store) {
        let _ = self.log.set(run.clone());
    }

    /// What it becomes part of hears every event.
    #[must_use]
    pub fn observer(self: &Arc<Self>) -> Box<dyn Observer> {
        Box::new(Ear(Arc::clone(self)))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest report, for whoever says how a run is.
    #[must_use]
    pub fn newest(&self) -> Option<Event> {
        self.state().newest.clone()
    }

    fn hear(&self, event: &Event) {
        let line = jsonl::line(event);
        if matches!(event.what, What::Resume(_)) {
            // What came after the checkpoint is given up, and what this process has seen of it too.
            let history = self.log.get().map(|log| before(log, &line)).unwrap_or_default();
            self.state().history = history;
            self.live.begin_anew();
        }
        let mut state = self.state();
        state.history.push(event);
        state.count(event);
        // While the history is held: whoever reads both sees each event once.
        self.live.push(line);
    }

    /// Everything so far, as the page begins with it.
    pub(crate) fn history(&self) -> String {
        let state = self.state();
        let last = self.live.last();
        page_history(&self.about, &last.boot, last.number, &state.history)
    }
}

impl State {
    fn count(&mut self, event: &Event) {
        let counted = &mut self.counted;
        match &event.what {
            What::Report(_) | What::PrepareProgress(_) => self.newest = Some(event.clone()),
            What::Validation(report) => {
                counted.validations += 1;
                counted.validation_s += report.seconds;
                self.validation = Some(event.clone());
            }
            What::Checkpoint(report) => {
                counted.checkpoints += 1;
                counted.checkpoint_s += report.seconds;
                counted.stall_s += report.stall_s;
            }
            What::Warning(_) => counted.warnings += 1,
            What::Leap(_) => counted.leaps += 1,
            What::LeftOut(_) => counted.left_out += 1,
            What::Starved(report) => counted.starved_s += report.seconds,
            _ => {}
        }
    }
}

struct Ear(Arc<Seen>);

impl Observer for Ear {
    fn observe(&mut self, event: &Event) {
        self.0.hear(event);
    }
}

/// What the log of a run has before that line; what cannot be read is passed over.
fn before(run: &Store, line: &str) -> History {
    let mut history = History::default();
    let lines = match Lines::of(run, jsonl::LOG) {
        Ok(lines) => lines,
        Err(error) => {
            tracing::warn!(%error, "what the run said before is not shown");
            return history;
        }
    };
    for read in lines.map_while(Result::ok) {
        if read == line.as_bytes() {
            break;
        }
        if let Ok(event) = jsonl::parse(&read) {
            history.push(&event);
        }
    }
    history
}

/// All that a run has said, from its folder.
pub(crate) fn of_folder(run: &Store) -> History {
    before(run, "")
}

/// A history with what it is of, in JSON.
pub(crate) fn page_history(about: &About, boot: &str, last: u64, history: &History) -> String {
    #[derive(Serialize)]
    struct Page<'a> {
        version: u32,
        boot: &'a str,
        last: u64,
        #[serde(flatten)]
        about: &'a About,
        #[serde(flatten)]
        shown: Shown<'a>,
    }
    let page = Page { version: 1, boot, last, about, shown: history.shown() };
    serde_json::to_string(&page).expect("string keys, and every number has a form")
}
