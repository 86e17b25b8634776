//! Events of a run, kept in memory for the clients of the server.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use axum::body::Bytes;
use serde::Serialize;
use serde_json::Value;
use store::{Lines, Store};
use telemetry::run_metrics::RunMetrics;
use telemetry::{Event, EventKind, Observer, Position, event_text, jsonl};

use crate::broadcast::{Id, LiveEvents};
use crate::columns::Spread;
use crate::history::{History, HistoryJson};

/// Task of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Training.
    Train,
    /// Preparation of a dataset.
    Prepare,
}

/// Constant description of a run.
#[derive(Clone, Debug, Serialize)]
pub struct RunInfo {
    /// Task of the run.
    pub kind: Kind,
    /// Display name.
    pub name: String,
    /// Folder of the run.
    pub place: String,
    /// Name and version of the program, such as `cloze 0.1.0`.
    pub program: String,
}

/// Function that returns the current values of metrics that no event contains.
type ExtraMetrics = Box<dyn Fn() -> Vec<(&'static str, f64)> + Send + Sync>;

/// Past events of a run, and the broadcast of new ones.
pub struct RunState {
    pub(crate) about: RunInfo,
    pub(crate) live: LiveEvents,
    state: Mutex<State>,
    /// Store with the event log of earlier processes of the run.
    log: OnceLock<Store>,
    /// Called for every report.
    extra_metrics: OnceLock<ExtraMetrics>,
    /// Latest history in JSON, and the id of its last event. All clients get the same bytes.
    cached_history: Mutex<Option<(Id, Bytes)>>,
}

impl fmt::Debug for RunState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RunState").field("about", &self.about).finish_non_exhaustive()
    }
}

/// State that events update.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) history: History,
    /// Newest report or progress event.
    pub(crate) newest: Option<Event>,
    /// Arrival time of the newest event. Monotonic, because the wall clock can jump.
    newest_at: Option<Instant>,
    /// Position of the newest event that has a step.
    pub(crate) at: Position,
    pub(crate) metrics: RunMetrics,
}

impl RunState {
    /// Creates the state of a run without events.
    #[must_use]
    pub fn new(about: RunInfo) -> Arc<Self> {
        Arc::new(Self {
            about,
            live: LiveEvents::new(),
            state: Mutex::default(),
            log: OnceLock::new(),
            extra_metrics: OnceLock::new(),
            cached_history: Mutex::default(),
        })
    }

    /// Sets the store that contains the event log of earlier processes of a resumed run.
    pub fn goes_on_in(&self, run: &Store) {
        let _ = self.log.set(run.clone());
    }

    /// Sets a function whose values are added to the metrics of every report.
    pub fn with_extra_figures(&self, extra_metrics: impl Fn() -> Vec<(&'static str, f64)> + Send + Sync + 'static) {
        let _ = self.extra_metrics.set(Box::new(extra_metrics));
    }

    pub(crate) fn name(&self) -> &str {
        &self.about.name
    }

    /// Identifier that is unique to this process.
    #[must_use]
    pub fn instance(&self) -> &str {
        self.live.instance()
    }

    /// Time since the newest report or progress event; zero before the first one.
    #[must_use]
    pub fn silence(&self) -> Duration {
        self.state().newest_at.map_or(Duration::ZERO, |arrival| arrival.elapsed())
    }

    /// Position of the newest event that has a step.
    #[must_use]
    pub fn at(&self) -> Position {
        self.state().at
    }

    /// Returns an observer that records every event in this state.
    #[must_use]
    pub fn observer(self: &Arc<Self>) -> Box<dyn Observer> {
        Box::new(StateObserver(Arc::clone(self)))
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Newest report or progress event.
    #[must_use]
    pub fn newest(&self) -> Option<Event> {
        self.state().newest.clone()
    }

    fn record(&self, event: &Event) {
        let line = jsonl::line(event);
        if matches!(event.what, EventKind::Resume(_)) {
            // A resume discards the events after the checkpoint, also those that this process recorded.
            let history = self.log.get().map(|log| read_log(log, Some(&line))).unwrap_or_default();
            self.state().history = history;
            self.live.reset();
        }
        let extra = match (&event.what, self.extra_metrics.get()) {
            (EventKind::Report(_), Some(extra_metrics)) => extra_metrics(),
            _ => Vec::new(),
        };
        let extra = extra.into_iter().map(|(name, value)| (name.to_owned(), Spread::single(value))).collect();
        let mut state = self.state();
        let point = state.history.push(event, extra);
        state.update(event);
        // Under the lock of the history: a client that reads the history and then the broadcast gets each event once.
        self.live.push(with_extras(line, event_text::summary(event), point));
    }

    /// Returns the history in the JSON format that the page loads first.
    pub(crate) fn history(&self) -> Bytes {
        let state = self.state();
        let last = self.live.last();
        let mut cached = self.cached_history.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((id, json)) = &*cached
            && *id == last
        {
            return json.clone();
        }
        let json = Bytes::from(page_history(&self.about, &last.boot, last.number, &state.history));
        *cached = Some((last, json.clone()));
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
                self.newest = Some(event.clone());
                self.newest_at = Some(Instant::now());
            }
            // The step of the newest report is rolled back.
            EventKind::Resume(_) => self.newest = None,
            _ => {}
        }
    }
}

struct StateObserver(Arc<RunState>);

impl Observer for StateObserver {
    fn observe(&mut self, event: &Event) {
        self.0.record(event);
    }
}

/// Adds the summary text and the curve point, which the page shows, to the line of an event.
fn with_extras(line: String, summary: Option<String>, point: Option<String>) -> String {
    let Some(open) = line.strip_suffix('}') else { return line };
    let summary = summary.map(|text| format!(",\"summary\":{}", Value::from(text))).unwrap_or_default();
    let point = point.map(|point| format!(",\"point\":{point}")).unwrap_or_default();
    format!("{open}{summary}{point}}}")
}

/// Reads the event log of a run, up to `line` if it is given. Unreadable lines are skipped and logged.
fn read_log(run: &Store, line: Option<&str>) -> History {
    let mut history = History::default();
    let lines = match Lines::new(run, jsonl::LOG) {
        Ok(lines) => lines,
        Err(error) => {
            tracing::warn!(%error, "server: cannot read the event log; earlier events are not shown");
            return history;
        }
    };
    let mut unreadable = 0_u64;
    let mut first = None;
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
                unreadable += 1;
                first.get_or_insert(why);
            }
        }
    }
    if let Some(why) = first {
        let place = run.place(jsonl::LOG);
        tracing::warn!("server: {place}: {unreadable} unreadable lines or segments are not shown; first error: {why}");
    }
    history
}

/// Reads the complete history of a run from its folder.
pub(crate) fn of_folder(run: &Store) -> History {
    read_log(run, None)
}

/// Serializes a history with the description of its run to JSON.
pub(crate) fn page_history(about: &RunInfo, boot: &str, last: u64, history: &History) -> String {
    #[derive(Serialize)]
    struct Page<'a> {
        version: u32,
        boot: &'a str,
        last: u64,
        #[serde(flatten)]
        about: &'a RunInfo,
        #[serde(flatten)]
        shown: HistoryJson<'a>,
    }
    let page = Page { version: 1, boot, last, about, shown: history.shown() };
    serde_json::to_string(&page).expect("string keys and serializable numbers")
}
