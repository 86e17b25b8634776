//! Metrics of one process, computed from its events, and the instruments that report them.
//!
//! They are the values of the Prometheus page that events carry, and the time of each phase. Workers, queues, probes and the
//! current phase are read on request, so only that page has them.
//!
//! - A gauge is the newest value. `cloze.report.timestamp` tells its age. A value that the newest report lacks is not
//!   exported, nor is one that is not finite.
//! - A sum is cumulative over one process, from 0. The totals of a run would start in each process where the one before
//!   ended, and a backend that adds processes would count them twice; so `cloze.rows.seen` is a gauge. Work that is repeated
//!   after a rollback counts again.
//! - Units are UCUM codes. Losses, metrics, rates and norms have none.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use opentelemetry::KeyValue;
use opentelemetry::metrics::{AsyncInstrument, Meter};

use super::delivery::DeliveryCounts;
use crate::preparation::PrepareProgress;
use crate::report_metrics::REPORT_METRICS;
use crate::training::{StepReport, ValidReport};
use crate::{At, Clock, Event, What};

/// Kind of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Gauge,
    Sum,
}

/// Instrument: name, UCUM unit and description.
#[derive(Clone, Copy, Debug)]
pub(super) struct Instrument {
    pub(super) name: &'static str,
    pub(super) kind: Kind,
    pub(super) unit: &'static str,
    pub(super) description: &'static str,
}

const fn gauge(name: &'static str, unit: &'static str, description: &'static str) -> Instrument {
    Instrument { name, kind: Kind::Gauge, unit, description }
}

const fn sum(name: &'static str, unit: &'static str, description: &'static str) -> Instrument {
    Instrument { name, kind: Kind::Sum, unit, description }
}

const UPTIME: &str = "cloze.uptime";
const LOST: &str = "cloze.otlp.lost";

/// Instruments that are not rows of [`REPORT_METRICS`].
const OTHER_INSTRUMENTS: &[Instrument] = &[
    gauge(
        "cloze.loss",
        "",
        "The sum of the terms with their weights: since the last report, or of the last validation.",
    ),
    gauge("cloze.term.loss", "", "Each term of the loss."),
    gauge("cloze.metric", "", "Metrics beside the loss."),
    gauge("cloze.validation.mlm.loss", "", "Plain masked language modelling on the fixed mask."),
    gauge("cloze.validation.mlm.accuracy", "1", "Its accuracy."),
    gauge("cloze.step", "{step}", "Steps done, at the last report."),
    gauge("cloze.steps.planned", "{step}", "Steps by plan."),
    gauge("cloze.epoch", "{epoch}", "Passes over the data."),
    gauge("cloze.rows.seen", "{row}", "Rows learnt from since the run's first step."),
    gauge("cloze.tokens.seen", "{token}", "Real tokens learnt from since the run's first step."),
    sum("cloze.rows", "{row}", "Rows learnt from by this process."),
    sum("cloze.tokens", "{token}", "Real tokens learnt from by this process."),
    sum("cloze.phase.time", "s", "Time of each phase of the loop."),
    gauge(UPTIME, "s", "Time since the process began to say something."),
    gauge("cloze.report.timestamp", "s", "When the last report was said, since the epoch of Unix."),
    sum("cloze.checkpoints", "{checkpoint}", "Checkpoints kept."),
    sum("cloze.checkpoint.write.time", "s", "Time that writing them took, beside training."),
    sum("cloze.checkpoint.stall.time", "s", "Time that steps waited for them."),
    sum("cloze.validations", "{validation}", "Validations."),
    sum("cloze.validation.time", "s", "Time that they took."),
    sum("cloze.warnings", "{warning}", "Warnings."),
    sum("cloze.leaps", "{step}", "Steps that leapt."),
    sum("cloze.rows.left_out", "{row}", "Rows that cannot be made."),
    sum("cloze.starved.time", "s", "Time that steps waited for data being prepared."),
    gauge("cloze.prepare.parts", "{part}", "Parts that are there."),
    gauge("cloze.prepare.parts.planned", "{part}", "Parts of the corpus."),
    sum("cloze.prepare.text", "By", "Text tokenized."),
    sum("cloze.prepare.tokens", "{token}", "Tokens made."),
    sum(LOST, "{record}", "Log records that did not reach the collector."),
];

/// Returns all instruments.
pub(super) fn instruments() -> impl Iterator<Item = Instrument> {
    let of_reports = REPORT_METRICS
        .iter()
        .filter_map(|metric| Some(gauge(metric.otlp?.name, metric.otlp?.unit, metric.description)));
    OTHER_INSTRUMENTS.iter().copied().chain(of_reports)
}

/// Sums that a training, or a preparation, reports from its first event on: a rate needs the 0.
const TRAINING_SUMS: &[&str] = &[
    "cloze.rows",
    "cloze.tokens",
    "cloze.checkpoints",
    "cloze.checkpoint.write.time",
    "cloze.checkpoint.stall.time",
    "cloze.validations",
    "cloze.validation.time",
    "cloze.warnings",
    "cloze.leaps",
    "cloze.rows.left_out",
    "cloze.starved.time",
];
const PREPARATION_SUMS: &[&str] = &["cloze.prepare.text", "cloze.prepare.tokens"];

/// Creates all instruments. Their callbacks read `state`.
pub(super) fn register(meter: &Meter, state: &Arc<MetricState>) {
    for Instrument { name, kind, unit, description } in instruments() {
        let state = Arc::clone(state);
        let callback = move |instrument: &dyn AsyncInstrument<f64>| state.observe(name, instrument);
        // The SDK keeps the callback, whatever happens to the instrument.
        match kind {
            Kind::Gauge => {
                let builder = meter.f64_observable_gauge(name).with_unit(unit).with_description(description);
                let _ = builder.with_callback(callback).build();
            }
            Kind::Sum => {
                let builder = meter.f64_observable_counter(name).with_unit(unit).with_description(description);
                let _ = builder.with_callback(callback).build();
            }
        }
    }
}

/// Metrics that an observer updates and the SDK reads.
#[derive(Debug)]
pub(super) struct MetricState {
    metrics: Mutex<Metrics>,
    clock: Clock,
    counts: Arc<DeliveryCounts>,
}

impl MetricState {
    /// Creates the state of a process that begins with `clock`.
    pub(super) fn new(planned_steps: Option<u64>, clock: Clock, counts: Arc<DeliveryCounts>) -> Self {
        Self { metrics: Mutex::new(Metrics::new(planned_steps)), clock, counts }
    }

    pub(super) fn update(&self, event: &Event) {
        self.metrics.lock().unwrap_or_else(PoisonError::into_inner).update(event);
    }

    /// Reports the known values of an instrument.
    fn observe(&self, name: &str, instrument: &dyn AsyncInstrument<f64>) {
        match name {
            UPTIME => instrument.observe(self.clock.elapsed_s(), &[]),
            LOST => instrument.observe(self.counts.lost() as f64, &[]),
            _ => {
                let metrics = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
                for (labels, value) in metrics.values(name) {
                    let attributes: Vec<_> =
                        labels.iter().map(|(key, value)| KeyValue::new(*key, value.clone())).collect();
                    instrument.observe(value, &attributes);
                }
            }
        }
    }
}

/// Attributes of a value, in a fixed order.
pub(super) type Labels = Vec<(&'static str, String)>;

/// Metrics of one process, from its events so far.
#[derive(Debug)]
pub(super) struct Metrics {
    planned_steps: Option<u64>,
    values: BTreeMap<&'static str, BTreeMap<Labels, f64>>,
    rows: RunTotal,
    tokens: RunTotal,
    text_bytes: RunTotal,
    prepared_tokens: RunTotal,
}

/// Count that continues over the processes of a run, of which this process adds a part.
#[derive(Clone, Copy, Debug, Default)]
struct RunTotal {
    value: Option<u64>,
}

impl RunTotal {
    /// Sets the count without adding anything to this process.
    fn reset(&mut self, value: Option<u64>) {
        self.value = value.or(self.value);
    }

    /// Returns how much this process has added since the last value; 0 after a rollback.
    fn advance(&mut self, value: Option<u64>) -> f64 {
        let Some(value) = value else { return 0.0 };
        let before = self.value.replace(value).unwrap_or(value);
        value.saturating_sub(before) as f64
    }
}

impl Metrics {
    pub(super) fn new(planned_steps: Option<u64>) -> Self {
        let total = RunTotal::default();
        let values = BTreeMap::new();
        Self { planned_steps, values, rows: total, tokens: total, text_bytes: total, prepared_tokens: total }
    }

    /// Returns the known values of a metric.
    pub(super) fn values(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.values.get(name).into_iter().flatten().map(|(labels, value)| (labels, *value))
    }

    /// Updates the metrics by one more event.
    pub(super) fn update(&mut self, event: &Event) {
        let at = &event.at;
        match &event.what {
            What::Start(_) => self.start(at),
            What::Resume(_) => self.resume(at),
            What::Report(report) => self.report(event, report),
            What::Validation(report) => self.validation(report),
            What::Checkpoint(report) => {
                self.add("cloze.checkpoints", 1.0);
                self.add("cloze.checkpoint.write.time", report.seconds);
                self.add("cloze.checkpoint.stall.time", report.stall_s);
            }
            What::Warning(_) => self.add("cloze.warnings", 1.0),
            What::Leap(_) => self.add("cloze.leaps", 1.0),
            What::LeftOut(_) => self.add("cloze.rows.left_out", 1.0),
            What::Starved(report) => self.add("cloze.starved.time", report.seconds),
            What::PrepareStart(start) => {
                self.add_zeros(PREPARATION_SUMS);
                // Each corpus of several counts from 0.
                self.text_bytes.reset(Some(0));
                self.prepared_tokens.reset(Some(0));
                self.set("cloze.prepare.parts.planned", start.parts as f64);
            }
            What::PrepareProgress(progress) => self.prepare_progress(event, progress),
            What::PrepareEnd(end) => {
                let text_bytes = self.text_bytes.advance(Some(end.text_bytes_made));
                self.add("cloze.prepare.text", text_bytes);
                self.set("cloze.prepare.parts", (end.parts_made + end.parts_kept) as f64);
                self.set("cloze.progress", 1.0);
                self.replace("cloze.eta", None);
            }
            _ => {}
        }
    }

    fn start(&mut self, at: &At) {
        self.add_zeros(TRAINING_SUMS);
        // This process has done the first step of the run.
        self.rows.value.get_or_insert(0);
        self.tokens.value.get_or_insert(0);
        self.set_position(at);
        self.add_rows(at);
    }

    fn resume(&mut self, at: &At) {
        self.add_zeros(TRAINING_SUMS);
        self.rows.reset(at.rows_seen);
        self.tokens.reset(at.tokens_seen);
        self.set_position(at);
    }

    fn add_rows(&mut self, at: &At) {
        let (rows, tokens) = (self.rows.advance(at.rows_seen), self.tokens.advance(at.tokens_seen));
        self.add("cloze.rows", rows);
        self.add("cloze.tokens", tokens);
    }

    fn set_position(&mut self, at: &At) {
        let steps = at.step.map(|step| step.0 as f64);
        let planned = self.planned_steps.map(|steps| steps as f64);
        self.set_known("cloze.step", steps);
        self.set_known("cloze.epoch", at.epoch);
        self.set_known("cloze.rows.seen", at.rows_seen.map(|rows| rows as f64));
        self.set_known("cloze.tokens.seen", at.tokens_seen.map(|tokens| tokens as f64));
        self.set_known("cloze.steps.planned", planned);
        self.set_known("cloze.progress", steps.zip(planned).map(|(steps, planned)| steps / planned.max(1.0)));
    }

    fn report(&mut self, event: &Event, report: &StepReport) {
        let values = REPORT_METRICS.iter().filter_map(|metric| Some((metric.otlp?.name, (metric.value)(report))));
        // A value that this report lacks is outdated, such as the remaining time of a run that has ended.
        for (name, _) in values.clone() {
            self.values.remove(name);
        }
        self.set_position(&event.at);
        self.add_rows(&event.at);
        self.set("cloze.report.timestamp", event.time as f64 / 1e3);
        let figures = &report.figures;
        self.set_losses("train", figures.loss, &figures.terms, &figures.metrics);
        for (name, value) in values {
            self.set_known(name, value);
        }
        if let Some(phases) = &report.phases {
            let times = [
                ("data", phases.data),
                ("step", phases.step),
                ("read", phases.read),
                ("validation", phases.validation),
                ("checkpoint", phases.checkpoint),
            ];
            for (phase, seconds) in times {
                self.add_labelled("cloze.phase.time", vec![("phase", phase.to_owned())], seconds);
            }
        }
    }

    fn validation(&mut self, report: &ValidReport) {
        self.set_losses("valid", report.loss, &report.terms, &report.metrics);
        self.set_known("cloze.validation.mlm.loss", report.mlm.map(|mlm| mlm.loss));
        self.set_known("cloze.validation.mlm.accuracy", report.mlm.map(|mlm| mlm.accuracy));
        self.add("cloze.validations", 1.0);
        self.add("cloze.validation.time", report.seconds);
    }

    fn set_losses(&mut self, split: &str, loss: f64, terms: &BTreeMap<String, f64>, metrics: &BTreeMap<String, f64>) {
        let split = || ("split", split.to_owned());
        self.set_labelled("cloze.loss", vec![split()], loss);
        for (term, value) in terms {
            self.set_labelled("cloze.term.loss", vec![split(), ("term", term.clone())], *value);
        }
        for (metric, value) in metrics {
            self.set_labelled("cloze.metric", vec![split(), ("metric", metric.clone())], *value);
        }
    }

    fn prepare_progress(&mut self, event: &Event, progress: &PrepareProgress) {
        self.set("cloze.report.timestamp", event.time as f64 / 1e3);
        self.set("cloze.progress", progress.share());
        self.replace("cloze.eta", progress.eta_s);
        self.set("cloze.prepare.parts", progress.parts as f64);
        self.set("cloze.prepare.parts.planned", progress.parts_total as f64);
        let text_bytes = self.text_bytes.advance(Some(progress.text_bytes));
        let tokens = self.prepared_tokens.advance(Some(progress.tokens));
        self.add("cloze.prepare.text", text_bytes);
        self.add("cloze.prepare.tokens", tokens);
    }

    /// Sets a gauge, or removes it if the value is not known.
    fn replace(&mut self, name: &'static str, value: Option<f64>) {
        self.values.remove(name);
        self.set_known(name, value);
    }

    /// Sets a gauge if the value is known.
    fn set_known(&mut self, name: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    fn set(&mut self, name: &'static str, value: f64) {
        self.set_labelled(name, Vec::new(), value);
    }

    fn set_labelled(&mut self, name: &'static str, labels: Labels, value: f64) {
        self.values.entry(name).or_default().insert(labels, value);
    }

    fn add_zeros(&mut self, names: &[&'static str]) {
        for name in names {
            self.add(name, 0.0);
        }
    }

    fn add(&mut self, name: &'static str, increment: f64) {
        self.add_labelled(name, Vec::new(), increment);
    }

    fn add_labelled(&mut self, name: &'static str, labels: Labels, increment: f64) {
        // A NaN would make the sum NaN for the rest of the process, and a sum never decreases.
        let increment = if increment.is_finite() { increment.max(0.0) } else { 0.0 };
        *self.values.entry(name).or_default().entry(labels).or_default() += increment;
    }
}
