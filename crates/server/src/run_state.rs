//! What was said of a run, for all who look at it.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use serde::Serialize;
use serde_json::Value;
use store::{Lines, Store};
use telemetry::run_metrics::RunMetrics;
use telemetry::{Event, EventKind, Observer, Position, event_text, jsonl};

use crate::broadcast::{Id, Live};
use crate::columns::Spread;
use crate::history::{History, Shown};

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

/// Figures that no event has, at this moment.
type Figures = Box<dyn Fn() -> Vec<(&'static str, f64)> + Send + Sync>;

/// What a run said so far, and says.
pub struct RunState {
    pub(crate) about: About,
    pub(crate) live: Live,
    state: Mutex<State>,
    /// Where what was said before this process is read.
    log: OnceLock<Store>,
    /// Asked with every report.
    figures: OnceLock<Figures>,
    /// The history in JSON as it was made last, and up to which event: it is the same for all who ask.
    made: Mutex<Option<(Id, Bytes)>>,
}

impl fmt::Debug for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Seen").field("about", &self.about).finish_non_exhaustive()
    }
}

/// What events leave behind.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) history: History,
    /// The newest event that is one of a report, or of progress.
    pub(crate) newest: Option<Event>,
    /// When that was heard: clocks of walls jump.
    heard: Option<Instant>,
    /// Where the run stands, by the newest event that says it.
    pub(crate) at: Position,
    pub(crate) metrics: RunMetrics,
}

impl RunState {
    /// Nothing is said so far.
    #[must_use]
    pub fn new(about: About) -> Arc<Self> {
        Arc::new(Self {
            about,
            live: Live::new(),
            state: Mutex::default(),
            log: OnceLock::new(),
            figures: OnceLock::new(),
            made: Mutex::default(),
        })
    }

    /// There lies what the run said before this process, if it continues.
    pub fn goes_on_in(&self, run: &Store) {
        let _ = self.log.set(run.clone());
    }

    /// These figures are shown next to those of the reports.
    pub fn beside(&self, figures: impl Fn() -> Vec<(&'static str, f64)> + Send + Sync + 'static) {
        let _ = self.figures.set(Box::new(figures));
    }

    pub(crate) fn name(&self) -> &str {
        &self.about.name
    }

    /// A name that no other process has.
    #[must_use]
    pub fn instance(&self) -> &str {
        self.live.instance()
    }

    /// For how long there is none newer.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.state().heard.map_or(Duration::ZERO, |heard| heard.elapsed())
    }

    /// Where the run stands, as far as it was said.
    #[must_use]
    pub fn at(&self) -> Position {
        self.state().at
    }

    /// What it becomes part of hears every event.
    #[must_use]
    pub fn observer(self: &Arc<Self>) -> Box<dyn Observer> {
        Box::new(StateObserver(Arc::clone(self)))
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
        if matches!(event.what, EventKind::Resume(_)) {
            // What came after the checkpoint is given up, and what this process has seen of it too.
            let history = self.log.get().map(|log| before(log, Some(&line))).unwrap_or_default();
            self.state().history = history;
            self.live.begin_anew();
        }
        let beside = match (&event.what, self.figures.get()) {
            (EventKind::Report(_), Some(figures)) => figures(),
            _ => Vec::new(),
        };
        let beside = beside.into_iter().map(|(name, value)| (name.to_owned(), Spread::of(value))).collect();
        let mut state = self.state();
        let point = state.history.push(event, beside);
        state.update(event);
        // While the history is held: whoever reads both sees each event once.
        self.live.push(with_extras(line, event_text::summary(event), point));
    }

    /// Everything so far, as the page begins with it.
    pub(crate) fn history(&self) -> Bytes {
        let state = self.state();
        let last = self.live.last();
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((of, json)) = &*made
            && *of == last
        {
            return json.clone();
        }
        let json = Bytes::from(page_history(&self.about, &last.boot, last.number, &state.history));
        *made = Some((last, json.clone()));
        json
    }
}

impl State {
    fn update(&mut self, event: &Event) {
        self.metrics.update(event);
        if event.at.step.is_some() {
            self.at = event.at;
        }
        match &event.what {
            EventKind::Report(_) | EventKind::PrepareProgress(_) => {
                (self.newest, self.heard) = (Some(event.clone()), Some(Instant::now()));
            }
            // What the newest report said was undone with its step.
            EventKind::Resume(_) => self.newest = None,
            _ => {}
        }
    }
}

struct StateObserver(Arc<RunState>);

impl Observer for StateObserver {
    fn observe(&mut self, event: &Event) {
        self.0.hear(event);
    }
}

/// The line of an event with what the page shows of it: its text, and the point of the curves.
fn with_extras(line: String, summary: Option<String>, point: Option<String>) -> String {
    let Some(open) = line.strip_suffix('}') else { return line };
    let summary = summary.map(|text| format!(",\"summary\":{}", Value::from(text))).unwrap_or_default();
    let point = point.map(|point| format!(",\"point\":{point}")).unwrap_or_default();
    format!("{open}{summary}{point}}}")
}

/// What the log of a run has before that line, if there is one; what cannot be read is skipped, and said.
fn before(run: &Store, line: Option<&str>) -> History {
    let mut history = History::default();
    let lines = match Lines::of(run, jsonl::LOG) {
        Ok(lines) => lines,
        Err(error) => {
            tracing::warn!(%error, "what the run said before is not shown");
            return history;
        }
    };
    let (mut strange, mut first) = (0_u64, None);
    for read in lines {
        let event = match read {
            Ok(read) if line.is_some_and(|line| read == line.as_bytes()) => break,
            Ok(read) if read.is_empty() => continue,
            Ok(read) => jsonl::parse(&read).map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match event {
            Ok(event) => drop(history.push(&event, Vec::new())),
            Err(why) => {
                strange += 1;
                first.get_or_insert(why);
            }
        }
    }
    if let Some(why) = first {
        let place = run.place(jsonl::LOG);
        tracing::warn!("{place}: {strange} lines or segments cannot be read, and are not shown; the first: {why}");
    }
    history
}

/// All that a run has said, from its folder.
pub(crate) fn of_folder(run: &Store) -> History {
    before(run, None)
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
