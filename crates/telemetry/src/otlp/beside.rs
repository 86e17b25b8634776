//! The thread that sends, beside those who read beside the work.
//!
//! # Definition
//! - Events wait in a queue of [`EVENTS`], records in one of [`RECORDS`], and [`RECORDS_AT_ONCE`] go in one post. What there is
//!   no room for is left out and counted, in `cloze.otlp.lost` too.
//! - Metrics go when something has changed, at most every `Pace::every`, and [`HEARTBEAT`] later in any case: whoever
//!   draws them looks a few minutes back. Metrics that did not arrive are not kept: the next have all that they had.
//! - At the end the last figures and records go, and whoever ends waits for that no longer than [`PATIENCE`].

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, OnceLock};
use std::thread::sleep;
use std::time::{Duration, Instant};

use prost::Message as _;

use super::figures::Figures;
use super::post_office::{Pace, Sent, Way};
use super::records::{failure, record};
use super::resource::resource;
use super::settings::{Settings, Signal};
use super::speaker::Speaker;
use super::wire::{
    LogRecord, LogsRequest, MetricsRequest, Resource, ResourceLogs, ResourceMetrics, Scope, ScopeLogs, ScopeMetrics,
};
use crate::{Clock, Event, Observer};

/// Events that may wait to be heard: a post takes 10 seconds at the most, and at a report a second few come in that time.
const EVENTS: usize = 1024;

/// Records that may wait to be sent: of a collector that is away for an hour, those of a stormy run.
const RECORDS: usize = 2048;

/// Records of one post: some 100 KB.
const RECORDS_AT_ONCE: usize = 256;

/// Metrics go so often where nothing changes.
const HEARTBEAT: Duration = Duration::from_secs(60);

/// What the end of a run waits for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);

/// Something for the thread.
enum Told {
    Event(Box<Event>),
    /// The work failed in a way that no event tells.
    Failed(String),
    /// There is no more.
    End,
}

/// Who sends, until this is dropped.
pub struct Otlp {
    told: SyncSender<Told>,
    /// Events that there was no room for.
    missed: Arc<AtomicU64>,
    /// When everything has to be sent, once that is known.
    closing: Arc<OnceLock<Instant>>,
    /// Closed when all is sent.
    done: Receiver<()>,
}

impl Otlp {
    /// Sends what is said to whom the environment names. None where nobody wants it.
    pub fn start(is_wanted: bool, speaker: &Speaker) -> runtime::Result<Option<Self>> {
        if !is_wanted {
            return Ok(None);
        }
        let Some(settings) = Settings::of(|name| std::env::var(name).ok()) else {
            tracing::info!("`OTEL_SDK_DISABLED` is set: nothing goes to an OpenTelemetry collector");
            return Ok(None);
        };
        for remark in &settings.remarks {
            tracing::warn!("OpenTelemetry: {remark}");
        }
        Self::with(settings, speaker, Pace::USUAL, Clock::system()).map(Some)
    }

    /// The same with settings of one's own.
    pub(super) fn with(settings: Settings, speaker: &Speaker, pace: Pace, clock: Clock) -> runtime::Result<Self> {
        let (told, waiting) = sync_channel(EVENTS);
        let (alive, done) = sync_channel(0);
        let (missed, closing) = (Arc::<AtomicU64>::default(), Arc::<OnceLock<Instant>>::default());
        let resource = resource(speaker, &settings);
        let way = |signal, target: Option<_>| target.map(|target| Way::new(signal, target, pace));
        let sender = Sender {
            figures: Figures::new(clock.time(), speaker.steps),
            is_changed: true,
            records: VecDeque::new(),
            batch: 0,
            dropped: 0,
            missed: Arc::clone(&missed),
            metrics: way(Signal::Metrics, settings.metrics),
            logs: way(Signal::Logs, settings.logs),
            resource,
            clock,
        };
        let ends = Arc::clone(&closing);
        runtime::spawn("otlp", move || {
            let _alive = alive;
            sender.run(&waiting, &ends);
        })?;
        Ok(Self { told, missed, closing, done })
    }

    /// Who hears events for it.
    pub fn reader(&self) -> Box<dyn Observer> {
        Box::new(Reader { told: self.told.clone(), missed: Arc::clone(&self.missed) })
    }

    /// The work failed in a way that no event tells.
    pub fn failed(&self, error: &dyn std::fmt::Display) {
        let _ = self.told.try_send(Told::Failed(format!("{error:#}")));
    }
}

impl Drop for Otlp {
    fn drop(&mut self) {
        let _ = self.closing.set(Instant::now() + PATIENCE);
        // Where there is no room the thread is awake, and sees that it is to close.
        let _ = self.told.try_send(Told::End);
        // A post that ends with the patience still has to be buried.
        if self.done.recv_timeout(PATIENCE + Duration::from_millis(200)) == Err(RecvTimeoutError::Timeout) {
            tracing::warn!("the last figures did not reach the OpenTelemetry collector in {} s", PATIENCE.as_secs());
        }
    }
}

struct Reader {
    told: SyncSender<Told>,
    missed: Arc<AtomicU64>,
}

impl Observer for Reader {
    fn observe(&mut self, event: &Event) {
        if self.told.try_send(Told::Event(Box::new(event.clone()))).is_err() {
            self.missed.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// What is on its way, and both ways.
struct Sender {
    figures: Figures,
    /// Since they were last sent.
    is_changed: bool,
    records: VecDeque<LogRecord>,
    /// How many of the records, from the front, are being tried; none between two posts.
    batch: usize,
    /// Records that did not reach the collector.
    dropped: u64,
    missed: Arc<AtomicU64>,
    metrics: Option<Way>,
    logs: Option<Way>,
    resource: Resource,
    clock: Clock,
}

impl Sender {
    fn run(mut self, waiting: &Receiver<Told>, closing: &OnceLock<Instant>) {
        while closing.get().is_none() {
            match waiting.recv_timeout(self.due().saturating_duration_since(Instant::now())) {
                Ok(Told::End) | Err(RecvTimeoutError::Disconnected) => break,
                Ok(told) => self.hear(told),
                Err(RecvTimeoutError::Timeout) => {}
            }
            self.export(None);
        }
        for told in waiting.try_iter() {
            self.hear(told);
        }
        self.flush(*closing.get_or_init(|| Instant::now() + PATIENCE));
        let lost = self.lost();
        if lost > 0 {
            tracing::warn!(
                lost,
                "so many events and records did not reach the OpenTelemetry collector; a run's log has them all"
            );
        }
    }

    fn hear(&mut self, told: Told) {
        let record = match told {
            Told::Event(event) => {
                self.is_changed |= self.figures.hear(&event);
                record(&event)
            }
            Told::Failed(error) => Some(failure(self.clock.time(), &error)),
            Told::End => None,
        };
        let Some(record) = record.filter(|_| self.logs.is_some()) else { return };
        if self.records.len() < RECORDS {
            self.records.push_back(record);
        } else {
            self.dropped += 1;
        }
    }

    fn lost(&self) -> u64 {
        self.dropped + self.missed.load(Ordering::Relaxed)
    }

    /// When metrics go.
    fn metrics_due(&self) -> Option<Instant> {
        let next = self.metrics.as_ref()?.next();
        Some(if self.is_changed { next } else { next + HEARTBEAT })
    }

    /// When records go, if there are any.
    fn logs_due(&self) -> Option<Instant> {
        self.logs.as_ref().filter(|_| !self.records.is_empty()).map(Way::next)
    }

    /// When the next post goes, if nothing comes.
    fn due(&self) -> Instant {
        let due = self.metrics_due().into_iter().chain(self.logs_due()).min();
        due.unwrap_or_else(|| Instant::now() + HEARTBEAT)
    }

    /// Sends what is due.
    fn export(&mut self, end: Option<Instant>) {
        let is_due = |due: Option<Instant>| due.is_some_and(|due| due <= Instant::now());
        if is_due(self.metrics_due()) {
            self.export_metrics(end);
        }
        if is_due(self.logs_due()) {
            self.export_logs(end);
        }
    }

    fn export_metrics(&mut self, end: Option<Instant>) {
        self.figures.lost(self.lost());
        let Some(way) = &mut self.metrics else { return };
        let metrics = self.figures.metrics(self.clock.time());
        let scopes = vec![ScopeMetrics { scope: Some(Scope::own()), metrics }];
        let of = vec![ResourceMetrics { resource: Some(self.resource.clone()), scopes }];
        let sent = way.send(&MetricsRequest { of }.encode_to_vec(), end);
        self.is_changed = sent == Sent::Later;
    }

    fn export_logs(&mut self, end: Option<Instant>) {
        let Some(way) = &mut self.logs else { return };
        if self.batch == 0 {
            self.batch = self.records.len().min(RECORDS_AT_ONCE);
        }
        let records = self.records.iter().take(self.batch).cloned().collect();
        let scopes = vec![ScopeLogs { scope: Some(Scope::own()), records }];
        let of = vec![ResourceLogs { resource: Some(self.resource.clone()), scopes }];
        let lost = match way.send(&LogsRequest { of }.encode_to_vec(), end) {
            Sent::Later => return,
            // No collector rejects more than it was given.
            Sent::Taken { rejected } => rejected.min(self.batch as u64),
            Sent::GivenUp => self.batch as u64,
        };
        self.dropped += lost;
        self.records.drain(..std::mem::take(&mut self.batch));
    }

    /// The last of both, until then.
    fn flush(&mut self, end: Instant) {
        self.is_changed = self.metrics.is_some();
        let hurry = |way: &mut Option<Way>| way.as_mut().into_iter().for_each(Way::hurry);
        hurry(&mut self.metrics);
        hurry(&mut self.logs);
        loop {
            self.export(Some(end));
            // What waited behind a post goes with the next.
            if self.batch == 0 {
                hurry(&mut self.logs);
            }
            let rest = self.metrics_due().filter(|_| self.is_changed).into_iter().chain(self.logs_due()).min();
            let Some(next) = rest.filter(|next| *next < end) else { break };
            sleep(next.saturating_duration_since(Instant::now()));
        }
        self.dropped += self.records.drain(..).len() as u64;
    }
}
