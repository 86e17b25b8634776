//! Rate limiter of alerts: accepts alerts of the configured topics, at most one of each topic per interval.

use std::collections::BTreeMap;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use schemas::printable;
use serde_json::{Value, json};

use super::config::{AlertTopic, AlertsConfig};
use crate::Event;

/// Capacity of the delivery queue. Alerts beyond it are held back and counted.
const WAITING: usize = 32;

/// Alert to deliver.
#[derive(Clone, Debug)]
pub(super) struct Alert {
    pub(super) topic: AlertTopic,
    pub(super) text: String,
    pub(super) run: String,
    /// JSON object of the alert.
    pub(super) json: String,
}

/// Rate limiter. Clones share their state.
#[derive(Clone)]
pub(super) struct RateLimiter {
    run: String,
    on: Vec<AlertTopic>,
    every: Duration,
    queue: SyncSender<Alert>,
    /// Alert of the end, if the queue has no room for it.
    last: Arc<Mutex<Option<Alert>>>,
    gates: Arc<Mutex<BTreeMap<AlertTopic, Gate>>>,
}

/// Accepted alerts, in order. The alert of the end that found no room comes last.
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

/// State of a topic.
#[derive(Clone, Copy, Debug, Default)]
struct Gate {
    last: Option<Instant>,
    /// Alerts that were held back since the last one.
    held_back: u64,
}

impl RateLimiter {
    /// Creates a rate limiter, and the receiver of its accepted alerts.
    pub(super) fn new(config: &AlertsConfig, run: &str) -> (Self, Waiting) {
        let (queue, waiting) = sync_channel(WAITING);
        let every = Duration::from_secs(config.min_interval_seconds);
        let last = Arc::<Mutex<Option<Alert>>>::default();
        let waiting = Waiting { queue: waiting, last: Arc::clone(&last) };
        (Self { run: run.to_owned(), on: config.events.clone(), every, queue, last, gates: Arc::default() }, waiting)
    }

    /// Returns whether an alert of the end was accepted.
    pub(super) fn has_sent_stop(&self) -> bool {
        let gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        gates.get(&AlertTopic::Stop).is_some_and(|gate| gate.last.is_some())
    }

    /// Queues an alert, or counts it as held back. It never blocks.
    pub(super) fn notify(&self, topic: AlertTopic, text: &str, event: Option<&Event>) {
        if !self.on.contains(&topic) {
            return;
        }
        let mut gates = self.gates.lock().unwrap_or_else(PoisonError::into_inner);
        let gate = gates.entry(topic).or_default();
        let is_due = topic == AlertTopic::Stop || gate.last.is_none_or(|last| last.elapsed() >= self.every);
        let is_sent = is_due && self.send(self.alert(topic, text, event, gate.held_back));
        *gate = if is_sent {
            Gate { last: Some(Instant::now()), held_back: 0 }
        } else {
            Gate { held_back: gate.held_back + 1, ..*gate }
        };
    }

    /// Returns whether the queue had room. The alert of the end always has room.
    fn send(&self, alert: Alert) -> bool {
        match self.queue.try_send(alert) {
            Ok(()) => true,
            Err(TrySendError::Full(alert)) if alert.topic == AlertTopic::Stop => {
                *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Some(alert);
                true
            }
            Err(_) => false,
        }
    }

    fn alert(&self, topic: AlertTopic, text: &str, event: Option<&Event>, held_back: u64) -> Alert {
        let Self { run, .. } = self;
        let text = printable(&format!("{run}: {text}")).into_owned();
        let event = event.map_or(Value::Null, |event| serde_json::to_value(event).unwrap_or_default());
        let object = json!({ "topic": topic, "text": text, "run": run, "event": event, "held_back": held_back });
        Alert { topic, text, run: run.clone(), json: object.to_string() }
    }
}
