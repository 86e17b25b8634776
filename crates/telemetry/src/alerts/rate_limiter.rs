//! Where alerts are accepted: of the topics that somebody wants, and no more than somebody can read.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemas::printable;
use serde_json::{Value, json};

use super::config::{AlertsConfig, Topic};
use crate::Event;

/// Alerts that may wait to be delivered. More are held back: there is one of each topic now and then.
const WAITING: usize = 32;

/// Something to tell.
#[derive(Clone, Debug)]
pub(super) struct Alert {
    pub(super) topic: Topic,
    pub(super) text: String,
    pub(super) run: String,
    /// The same for programs.
    pub(super) json: String,
}

/// Takes alerts. Clones count together.
#[derive(Clone)]
pub(super) struct RateLimiter {
    run: String,
    on: Vec<Topic>,
    every: Duration,
    queue: SyncSender<Alert>,
    /// That it ends, where nothing else finds room.
    last: Arc<Mutex<Option<Alert>>>,
    gates: Arc<Mutex<BTreeMap<Topic, Gate>>>,
}

/// What a desk has accepted, in order.
pub(super) struct Waiting {
    pub(super) queue: Receiver<Alert>,
    last: Arc<Mutex<Option<Alert>>>,
}

impl Iterator for Waiting {
    type Item = Alert;

    fn next(&mut self) -> Option<Alert> {
        let last = || self.last.lock().unwrap_or_else(PoisonError::into_inner).take();
        self.queue.recv().ok().or_else(last)
    }
}

/// What was told of a topic.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    last: Option<Instant>,
    /// How many came since and were not told.
    held_back: u64,
}

impl RateLimiter {
    /// A desk, and what it has accepted.
    pub(super) fn of(config: &AlertsConfig, run: &str) -> (Self, Waiting) {
        let (queue, waiting) = sync_channel(WAITING);
        let every = Duration::from_secs(config.min_interval_seconds);
        let last = Arc::<Mutex<Option<Alert>>>::default();
        let waiting = Waiting { queue: waiting, last: Arc::clone(&last) };
        (Self { run: run.to_owned(), on: config.events.clone(), every, queue, last, gates: Arc::default() }, waiting)
    }

    /// Whether somebody was told that it ends.
    pub(super) fn has_told_the_end(&self) -> bool {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.get(&Topic::Stop).is_some_and(|gate| gate.last.is_some())
    }

    /// Tells it, or counts it, and returns at once.
    pub(super) fn tell(&self, topic: Topic, text: &str, event: Option<&Event>) {
        if !self.on.contains(&topic) {
            return;
        }
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = gates.entry(topic).or_default();
        let is_due = topic == Topic::Stop || gate.last.is_none_or(|last| last.elapsed() >= self.every);
        let told = is_due && self.send(self.alert(topic, text, event, gate.held_back));
        *gate = if told {
            Gate { last: Some(Instant::now()), held_back: 0 }
        } else {
            Gate { held_back: gate.held_back + 1, ..*gate }
        };
    }

    /// Whether there is room for it. For one thing there always is.
    fn send(&self, alert: Alert) -> bool {
        match self.queue.try_send(alert) {
            Ok(()) => true,
            Err(TrySendError::Full(alert)) if alert.topic == Topic::Stop => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(alert);
                true
            }
            Err(_) => false,
        }
    }

    fn alert(&self, topic: Topic, text: &str, event: Option<&Event>, held_back: u64) -> Alert {
        let Self { run, .. } = self;
        let text = printable(&format!("{run}: {text}")).into_owned();
        let event = event.map_or(Value::Null, |event| serde_json::to_value(event).unwrap_or_default());
        let object = json!({ "topic": topic, "text": text, "run": run, "event": event, "held_back": held_back });
        Alert { topic, text, run: run.clone(), json: object.to_string() }
    }
}
