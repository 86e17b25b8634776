//! Metrics of one process, computed from its events: one table of instruments, and the values that Prometheus and
//! OpenTelemetry export.
//!
//! - A gauge is the newest value. A value that the newest report lacks is not exported, nor are the values of a report that
//!   a rollback has undone.
//! - A counter is cumulative over one process, from 0. The totals of a run would start in each process where the one before
//!   ended, and a backend that adds processes would count them twice; so `cloze.rows.seen` is a gauge. Work that is repeated
//!   after a rollback counts again.
//! - Units are UCUM codes. Losses, metrics, rates and norms have none.
//!
//! A new instrument is a row of [`INSTRUMENTS`] and the line of [`RunMetrics::update`] that sets it. The metrics of a
//! training report have a table of their own, [`REPORT_METRICS`]. Workers, queues, probes and the current phase are read on
//! request: only Prometheus has them, from the server.

use std::collections::BTreeMap;

use crate::preparation::PrepareProgress;
use crate::report_metrics::REPORT_METRICS;
use crate::training::{StepReport, ValidReport};
use crate::{Event, EventKind, Position};

/// Kind of an instrument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InstrumentKind {
    /// The newest value.
    Gauge,
    /// A value that only grows.
    Counter,
}

/// Name of a metric for Prometheus. With a split, it has the values with that value of the label `split`, without the label.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PrometheusName {
    pub(crate) name: &'static str,
    pub(crate) split: Option<&'static str>,
}

/// Instrument: its names, UCUM unit and description.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Instrument {
    /// Name of the values in [`RunMetrics`], and for OpenTelemetry.
    pub(crate) name: &'static str,
    pub(crate) kind: InstrumentKind,
    /// UCUM unit. Only OpenTelemetry has it; `None`: only Prometheus has the instrument.
    pub(crate) unit: Option<&'static str>,
    pub(crate) description: &'static str,
    pub(crate) prometheus: &'static [PrometheusName],
}

impl Instrument {
    /// Adds a name for Prometheus.
    const fn named(mut self, prometheus: &'static [PrometheusName]) -> Self {
        self.prometheus = prometheus;
        self
    }

    /// Leaves the instrument out of the exports to OpenTelemetry.
    const fn prometheus_only(mut self) -> Self {
        self.unit = None;
        self
    }
}

const fn gauge(name: &'static str, unit: &'static str, description: &'static str) -> Instrument {
    Instrument { name, kind: InstrumentKind::Gauge, unit: Some(unit), description, prometheus: &[] }
}

const fn counter(name: &'static str, unit: &'static str, description: &'static str) -> Instrument {
    Instrument { name, kind: InstrumentKind::Counter, unit: Some(unit), description, prometheus: &[] }
}

const fn all(name: &'static str) -> PrometheusName {
    PrometheusName { name, split: None }
}

const fn of_split(name: &'static str, split: &'static str) -> PrometheusName {
    PrometheusName { name, split: Some(split) }
}

/// Instruments that are not rows of [`REPORT_METRICS`].
pub(crate) const INSTRUMENTS: &[Instrument] = &[
    gauge("cloze.loss", "", "Sum of the terms with their weights: since the last report, or of the last validation.")
        .named(&[of_split("cloze_validation_loss", VALID)]),
    gauge("cloze.term.loss", "", "Each term of the loss.")
        .named(&[of_split("cloze_term_loss", TRAIN), of_split("cloze_validation_term_loss", VALID)]),
    gauge("cloze.metric", "", "Metrics in addition to the loss.").named(&[of_split("cloze_metric", TRAIN)]),
    gauge("cloze.validation.mlm.loss", "", "Masked language modelling on the fixed mask.")
        .named(&[all("cloze_validation_mlm_loss")]),
    gauge("cloze.validation.mlm.accuracy", "1", "Accuracy of masked language modelling on the fixed mask.")
        .named(&[all("cloze_validation_mlm_accuracy_ratio")]),
    gauge("cloze.step", "{step}", "Steps done.").named(&[all("cloze_step")]),
    gauge("cloze.steps.planned", "{step}", "Planned steps."),
    gauge("cloze.epoch", "{epoch}", "Passes over the data.").named(&[all("cloze_epoch")]),
    gauge("cloze.rows.seen", "{row}", "Rows of all steps since the first step of the run; fewer after a rollback.")
        .named(&[all("cloze_rows_seen")]),
    gauge(
        "cloze.tokens.seen",
        "{token}",
        "Real tokens of all steps since the first step of the run; fewer after a rollback.",
    )
    .named(&[all("cloze_tokens_seen")]),
    counter("cloze.rows", "{row}", "Rows of the steps of this process.").named(&[all("cloze_rows_total")]),
    counter("cloze.tokens", "{token}", "Real tokens of the steps of this process.").named(&[all("cloze_tokens_total")]),
    counter(SKIPPED, "{step}", "Steps of this process that updated nothing.")
        .named(&[all("cloze_steps_skipped_total")])
        .prometheus_only(),
    counter("cloze.phase.time", "s", "Time of each phase of the loop."),
    gauge("cloze.report.timestamp", "s", "Time of the last report, since the Unix epoch.")
        .named(&[all("cloze_report_timestamp_seconds")]),
    counter("cloze.checkpoints", "{checkpoint}", "Checkpoints written.").named(&[all("cloze_checkpoints_total")]),
    counter("cloze.checkpoint.write.time", "s", "Time that writing checkpoints took, concurrently with training.")
        .named(&[all("cloze_checkpoint_write_seconds_total")]),
    counter("cloze.checkpoint.stall.time", "s", "Time that steps waited for checkpoints.")
        .named(&[all("cloze_checkpoint_stall_seconds_total")]),
    counter("cloze.validations", "{validation}", "Validations.").named(&[all("cloze_validations_total")]),
    counter("cloze.validation.time", "s", "Time that validations took.")
        .named(&[all("cloze_validation_seconds_total")]),
    counter("cloze.warnings", "{warning}", "Warnings.").named(&[all("cloze_warnings_total")]),
    counter("cloze.loss_spikes", "{step}", "Loss spikes.").named(&[all("cloze_loss_spikes_total")]),
    counter("cloze.bad_rows", "{row}", "Rows that could not be built.").named(&[all("cloze_bad_rows_total")]),
    counter("cloze.starved.time", "s", "Time that steps waited for data being prepared.")
        .named(&[all("cloze_starved_seconds_total")]),
    gauge("cloze.prepare.parts", "{part}", "Parts that are done.").named(&[all("cloze_prepare_parts")]),
    gauge("cloze.prepare.parts.planned", "{part}", "Parts of the corpus.").named(&[all("cloze_prepare_parts_planned")]),
    counter("cloze.prepare.text", "By", "Text tokenized.").named(&[all("cloze_prepare_text_bytes_total")]),
    counter("cloze.prepare.tokens", "{token}", "Tokens made.").named(&[all("cloze_prepare_tokens_total")]),
];

/// Names of the values of two rows of [`REPORT_METRICS`], which a preparation has too.
const PROGRESS: &str = "train/progress";
const ETA: &str = "time/eta_s";

const TRAIN: &str = "train";
const VALID: &str = "valid";
const SKIPPED: &str = "steps_skipped_by_process";

/// Counters that a training, or a preparation, exports from its first event on: a rate needs the 0.
const TRAINING_COUNTERS: &[&str] = &[
    "cloze.rows",
    "cloze.tokens",
    SKIPPED,
    "cloze.checkpoints",
    "cloze.checkpoint.write.time",
    "cloze.checkpoint.stall.time",
    "cloze.validations",
    "cloze.validation.time",
    "cloze.warnings",
    "cloze.loss_spikes",
    "cloze.bad_rows",
    "cloze.starved.time",
];
const PREPARATION_COUNTERS: &[&str] = &["cloze.prepare.text", "cloze.prepare.tokens"];

/// Attributes of a value, in a fixed order.
pub(crate) type Labels = Vec<(&'static str, String)>;

/// Metrics of one process, from its events so far.
#[derive(Debug, Default)]
pub struct RunMetrics {
    planned_steps: Option<u64>,
    values: BTreeMap<&'static str, BTreeMap<Labels, f64>>,
    rows: RunTotal,
    skipped: RunTotal,
    tokens: RunTotal,
    text_bytes: RunTotal,
    prepared_tokens: RunTotal,
}

/// Count that continues over the processes of a run, of which this process adds a part.
#[derive(Clone, Copy, Debug, Default)]
struct RunTotal(u64);

impl RunTotal {
    /// Sets the count without adding anything to this process.
    fn reset(&mut self, value: Option<u64>) {
        self.0 = value.unwrap_or(self.0);
    }

    /// Returns how much this process has added since the last value; 0 after a rollback.
    fn advance(&mut self, value: Option<u64>) -> f64 {
        let Some(value) = value else { return 0.0 };
        value.saturating_sub(std::mem::replace(&mut self.0, value)) as f64
    }
}

impl RunMetrics {
    /// Creates the metrics of a process before its first event.
    #[cfg(feature = "otlp")]
    pub(crate) fn new(planned_steps: Option<u64>) -> Self {
        Self { planned_steps, ..Self::default() }
    }

    /// Returns the known values of a metric.
    pub(crate) fn values(&self, name: &str) -> impl Iterator<Item = (&Labels, f64)> {
        self.values.get(name).into_iter().flatten().map(|(labels, value)| (labels, *value))
    }

    /// Updates the metrics by one more event.
    pub fn update(&mut self, event: &Event) {
        let at = &event.at;
        match &event.what {
            EventKind::Start(_) => self.start(at),
            EventKind::Resume(_) => self.resume(at),
            EventKind::Report(report) => self.report(event, report),
            EventKind::Validation(report) => self.validation(report),
            EventKind::Checkpoint(report) => {
                self.add("cloze.checkpoints", 1.0);
                self.add("cloze.checkpoint.write.time", report.seconds);
                self.add("cloze.checkpoint.stall.time", report.stall_s);
            }
            EventKind::Warning(_) => self.add("cloze.warnings", 1.0),
            EventKind::LossSpike(_) => self.add("cloze.loss_spikes", 1.0),
            EventKind::BadRow(_) => self.add("cloze.bad_rows", 1.0),
            EventKind::Starved(report) => self.add("cloze.starved.time", report.seconds),
            EventKind::PrepareStart(start) => {
                self.add_zeros(PREPARATION_COUNTERS);
                // Each corpus of several counts from 0.
                self.text_bytes.reset(Some(0));
                self.prepared_tokens.reset(Some(0));
                self.set("cloze.prepare.parts.planned", start.parts as f64);
            }
            EventKind::PrepareProgress(progress) => self.prepare_progress(event, progress),
            EventKind::PrepareEnd(end) => {
                let text_bytes = self.text_bytes.advance(Some(end.text_bytes_made));
                self.add("cloze.prepare.text", text_bytes);
                self.set("cloze.prepare.parts", (end.parts_made + end.parts_kept) as f64);
                self.set(PROGRESS, 1.0);
                self.replace(ETA, None);
            }
            _ => {}
        }
    }

    fn start(&mut self, at: &Position) {
        self.add_zeros(TRAINING_COUNTERS);
        self.set_position(at);
        self.add_rows(at);
    }

    fn resume(&mut self, at: &Position) {
        self.add_zeros(TRAINING_COUNTERS);
        self.rows.reset(at.rows_seen);
        self.tokens.reset(at.tokens_seen);
        self.remove_report();
        self.set_position(at);
    }

    fn add_rows(&mut self, at: &Position) {
        let rows = self.rows.advance(at.rows_seen);
        let tokens = self.tokens.advance(at.tokens_seen);
        self.add("cloze.rows", rows);
        self.add("cloze.tokens", tokens);
    }

    fn set_position(&mut self, at: &Position) {
        let steps = at.step.map(|step| step.0 as f64);
        let planned = self.planned_steps.map(|steps| steps as f64);
        self.set_known("cloze.step", steps);
        self.set_known("cloze.epoch", at.epoch);
        self.set_known("cloze.rows.seen", at.rows_seen.map(|rows| rows as f64));
        self.set_known("cloze.tokens.seen", at.tokens_seen.map(|tokens| tokens as f64));
        self.set_known("cloze.steps.planned", planned);
        self.set_known(PROGRESS, steps.zip(planned).map(|(steps, planned)| steps / planned.max(1.0)));
    }

    fn report(&mut self, event: &Event, report: &StepReport) {
        // A value that this report lacks is outdated, such as the remaining time of a run that has ended.
        self.remove_report();
        self.set_position(&event.at);
        self.add_rows(&event.at);
        self.set("cloze.report.timestamp", event.time as f64 / 1e3);
        let figures = &report.figures;
        self.set_losses(TRAIN, figures.loss, &figures.terms, &figures.metrics);
        for metric in REPORT_METRICS {
            self.set_known(metric.tensorboard, (metric.value)(report));
        }
        let skipped = self.skipped.advance(Some(figures.skipped));
        self.add(SKIPPED, skipped);
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

    /// Removes the values of the last report.
    fn remove_report(&mut self) {
        for metric in REPORT_METRICS {
            self.values.remove(metric.tensorboard);
        }
        self.values.remove("cloze.report.timestamp");
        for name in ["cloze.loss", "cloze.term.loss", "cloze.metric"] {
            let values = self.values.entry(name).or_default();
            values.retain(|labels, _| !labels.contains(&("split", TRAIN.to_owned())));
        }
    }

    fn validation(&mut self, report: &ValidReport) {
        self.set_losses(VALID, report.loss, &report.terms, &report.metrics);
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
        self.set(PROGRESS, progress.share());
        self.replace(ETA, progress.eta_s);
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
