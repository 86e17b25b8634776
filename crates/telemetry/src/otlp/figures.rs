//! What events become: gauges and sums, by the names of [`table`].
//!
//! # What
//! The figures of the Prometheus page that events carry, and the time of each phase. Actors, queues, probes and the phase of
//! the moment are asked for and not said: the page has them.
//!
//! # Definition
//! - A gauge is what was last said. Its time is that of the export, as OpenTelemetry's own exporters have it;
//!   `cloze.report.timestamp` says how old the numbers are.
//! - A sum is cumulative over one process and begins at 0 with it: that is the start of its points. What a run has learnt
//!   from since its first step would begin anew with each process at what the ones before had done, and whoever adds up
//!   processes would count that twice; so this is a gauge (`cloze.rows.seen`). What is learnt again after a run went back is
//!   work too, and counts again in the sum.
//! - Units are those of UCUM. Losses, metrics, rates and norms have none.

use std::collections::BTreeMap;

use super::wire::{Data, Gauge, KeyValue, Metric, Point, Sum, nanoseconds};
use crate::preparation::PrepareProgress;
use crate::report_metrics::{OtlpGauge, REPORT_METRICS};
use crate::training::{StepReport, ValidReport};
use crate::{At, Event, What};

/// Which it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Gauge,
    Sum,
}

use Form::{Gauge as G, Sum as S};

/// Metrics that are not rows of [`REPORT_METRICS`]: name, form, unit, description.
const OTHER_METRICS: &[(&str, Form, &str, &str)] = &[
    ("cloze.loss", G, "", "The sum of the terms with their weights: since the last report, or of the last validation."),
    ("cloze.term.loss", G, "", "Each term of the loss."),
    ("cloze.metric", G, "", "Metrics beside the loss."),
    ("cloze.validation.mlm.loss", G, "", "Plain masked language modelling on the fixed mask."),
    ("cloze.validation.mlm.accuracy", G, "1", "Its accuracy."),
    ("cloze.step", G, "{step}", "Steps done, at the last report."),
    ("cloze.steps.planned", G, "{step}", "Steps by plan."),
    ("cloze.epoch", G, "{epoch}", "Passes over the data."),
    ("cloze.rows.seen", G, "{row}", "Rows learnt from since the run's first step."),
    ("cloze.tokens.seen", G, "{token}", "Real tokens learnt from since the run's first step."),
    ("cloze.rows", S, "{row}", "Rows learnt from by this process."),
    ("cloze.tokens", S, "{token}", "Real tokens learnt from by this process."),
    ("cloze.phase.time", S, "s", "Time of each phase of the loop."),
    ("cloze.uptime", G, "s", "Time since the process began to say something."),
    ("cloze.report.timestamp", G, "s", "When the last report was said, since the epoch of Unix."),
    ("cloze.checkpoints", S, "{checkpoint}", "Checkpoints kept."),
    ("cloze.checkpoint.write.time", S, "s", "Time that writing them took, beside training."),
    ("cloze.checkpoint.stall.time", S, "s", "Time that steps waited for them."),
    ("cloze.validations", S, "{validation}", "Validations."),
    ("cloze.validation.time", S, "s", "Time that they took."),
    ("cloze.warnings", S, "{warning}", "Warnings."),
    ("cloze.leaps", S, "{step}", "Steps that leapt."),
    ("cloze.rows.left_out", S, "{row}", "Rows that cannot be made."),
    ("cloze.starved.time", S, "s", "Time that steps waited for data being prepared."),
    ("cloze.prepare.parts", G, "{part}", "Parts that are there."),
    ("cloze.prepare.parts.planned", G, "{part}", "Parts of the corpus."),
    ("cloze.prepare.text", S, "By", "Text tokenized."),
    ("cloze.prepare.tokens", S, "{token}", "Tokens made."),
    ("cloze.otlp.lost", S, "{record}", "Events and log records that did not reach the collector."),
];

/// All metrics: name, form, unit, description.
pub(super) fn table() -> impl Iterator<Item = (&'static str, Form, &'static str, &'static str)> {
    let of_reports = REPORT_METRICS.iter().filter_map(|metric| {
        let OtlpGauge { name, unit } = metric.otlp?;
        Some((name, Form::Gauge, unit, metric.description))
    });
    OTHER_METRICS.iter().copied().chain(of_reports)
}

/// Sums that a training has from its first word on, and those of a preparation: who looks at a rate has to see the 0.
const OF_TRAINING: &[&str] = &[
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
const OF_PREPARATION: &[&str] = &["cloze.prepare.text", "cloze.prepare.tokens"];

/// Attributes of a point, in the order in which they are said.
type Labels = Vec<(&'static str, String)>;

/// Figures of one process, from what it has said so far.
#[derive(Debug)]
pub(super) struct Figures {
    /// Milliseconds since the epoch of Unix: the start of every sum.
    begun: u64,
    /// Steps by plan.
    steps: Option<u64>,
    values: BTreeMap<&'static str, BTreeMap<Labels, f64>>,
    rows: Course,
    tokens: Course,
    text: Course,
    made: Course,
}

/// A count that goes on through the processes of a run, and the share of this one.
#[derive(Clone, Copy, Debug, Default)]
struct Course {
    at: Option<u64>,
}

impl Course {
    /// It stands there, and nothing of it is this process's.
    fn stands(&mut self, at: Option<u64>) {
        self.at = at.or(self.at);
    }

    /// How much further it is. Where it went back, what is done again is seen by the next.
    fn reach(&mut self, now: Option<u64>) -> f64 {
        let Some(now) = now else { return 0.0 };
        let before = self.at.replace(now).unwrap_or(now);
        now.saturating_sub(before) as f64
    }
}

impl Figures {
    /// Nothing is said so far, at that time.
    pub(super) fn new(begun: u64, steps: Option<u64>) -> Self {
        let course = Course::default();
        Self { begun, steps, values: BTreeMap::new(), rows: course, tokens: course, text: course, made: course }
    }

    /// One more event; whether a figure changed by it.
    pub(super) fn hear(&mut self, event: &Event) -> bool {
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
                self.zero(OF_PREPARATION);
                // Of one corpus after another each counts from nothing.
                self.text.stands(Some(0));
                self.made.stands(Some(0));
                self.set("cloze.prepare.parts.planned", start.parts as f64);
            }
            What::PrepareProgress(progress) => self.progress(event, progress),
            What::PrepareEnd(end) => {
                let text = self.text.reach(Some(end.text_bytes_made));
                self.add("cloze.prepare.text", text);
                self.set("cloze.prepare.parts", (end.parts_made + end.parts_kept) as f64);
                self.set("cloze.progress", 1.0);
                self.eta(None);
            }
            _ => return false,
        }
        true
    }

    /// So many events or records did not reach the collector so far.
    pub(super) fn lost(&mut self, lost: u64) {
        self.put("cloze.otlp.lost", Vec::new(), lost as f64);
    }

    /// All of them, as they are sent at that time (milliseconds since the epoch of Unix).
    pub(super) fn metrics(&self, now: u64) -> Vec<Metric> {
        let uptime = BTreeMap::from([(Vec::new(), now.saturating_sub(self.begun) as f64 / 1e3)]);
        let metric = |(name, form, unit, description): (&'static str, Form, &str, &str)| {
            let values = if name == "cloze.uptime" { &uptime } else { self.values.get(name)? };
            let start = if form == Form::Sum { nanoseconds(self.begun) } else { 0 };
            let points = values.iter().map(|(labels, value)| Point {
                attributes: labels.iter().map(|(key, value)| KeyValue::text(key, value)).collect(),
                start_time_unix_nano: start,
                // A clock that was set back does not make a sum end before its start.
                time_unix_nano: nanoseconds(now.max(self.begun)),
                value: Some(*value),
            });
            let data = match form {
                Form::Gauge => Data::Gauge(Gauge { points: points.collect() }),
                Form::Sum => Data::Sum(Sum::growing(points.collect())),
            };
            let [name, description, unit] = [name, description, unit].map(str::to_owned);
            Some(Metric { name, description, unit, data: Some(data) })
        };
        table().filter_map(metric).collect()
    }

    fn start(&mut self, at: &At) {
        self.zero(OF_TRAINING);
        // The first step of a run is done, by this process.
        self.rows.at.get_or_insert(0);
        self.tokens.at.get_or_insert(0);
        self.stand(at);
        self.learn(at);
    }

    fn resume(&mut self, at: &At) {
        self.zero(OF_TRAINING);
        self.rows.stands(at.rows_seen);
        self.tokens.stands(at.tokens_seen);
        self.stand(at);
    }

    /// What this process has learnt from since it last said so.
    fn learn(&mut self, at: &At) {
        let (rows, tokens) = (self.rows.reach(at.rows_seen), self.tokens.reach(at.tokens_seen));
        self.add("cloze.rows", rows);
        self.add("cloze.tokens", tokens);
    }

    /// Where a run stands.
    fn stand(&mut self, at: &At) {
        let steps = at.step.map(|step| step.0 as f64);
        self.some("cloze.step", steps);
        self.some("cloze.epoch", at.epoch);
        self.some("cloze.rows.seen", at.rows_seen.map(|rows| rows as f64));
        self.some("cloze.tokens.seen", at.tokens_seen.map(|tokens| tokens as f64));
        let planned = self.steps.map(|steps| steps as f64);
        self.some("cloze.steps.planned", planned);
        self.some("cloze.progress", steps.zip(planned).map(|(steps, planned)| steps / planned.max(1.0)));
    }

    fn report(&mut self, event: &Event, report: &StepReport) {
        let figures = &report.figures;
        let values = REPORT_METRICS.iter().filter_map(|metric| Some((metric.otlp?.name, (metric.value)(report))));
        // A value that this report lacks is over: the estimate of a run that has ended must not stay.
        for (name, _) in values.clone() {
            self.values.remove(name);
        }
        self.stand(&event.at);
        self.learn(&event.at);
        self.set("cloze.report.timestamp", event.time as f64 / 1e3);
        self.losses("train", figures.loss, &figures.terms, &figures.metrics);
        for (name, value) in values {
            self.some(name, value);
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
                self.grow("cloze.phase.time", vec![("phase", phase.to_owned())], seconds);
            }
        }
    }

    fn validation(&mut self, report: &ValidReport) {
        self.losses("valid", report.loss, &report.terms, &report.metrics);
        self.some("cloze.validation.mlm.loss", report.mlm.map(|mlm| mlm.loss));
        self.some("cloze.validation.mlm.accuracy", report.mlm.map(|mlm| mlm.accuracy));
        self.add("cloze.validations", 1.0);
        self.add("cloze.validation.time", report.seconds);
    }

    fn losses(&mut self, split: &str, loss: f64, terms: &BTreeMap<String, f64>, metrics: &BTreeMap<String, f64>) {
        let split = || ("split", split.to_owned());
        self.put("cloze.loss", vec![split()], loss);
        for (term, value) in terms {
            self.put("cloze.term.loss", vec![split(), ("term", term.clone())], *value);
        }
        for (metric, value) in metrics {
            self.put("cloze.metric", vec![split(), ("metric", metric.clone())], *value);
        }
    }

    fn progress(&mut self, event: &Event, progress: &PrepareProgress) {
        self.set("cloze.report.timestamp", event.time as f64 / 1e3);
        self.set("cloze.progress", progress.share());
        self.eta(progress.eta_s);
        self.set("cloze.prepare.parts", progress.parts as f64);
        self.set("cloze.prepare.parts.planned", progress.parts_total as f64);
        let (text, tokens) = (self.text.reach(Some(progress.text_bytes)), self.made.reach(Some(progress.tokens)));
        self.add("cloze.prepare.text", text);
        self.add("cloze.prepare.tokens", tokens);
    }

    /// What is done has no time left: none is not the last that was said.
    fn eta(&mut self, seconds: Option<f64>) {
        self.values.remove("cloze.eta");
        self.some("cloze.eta", seconds);
    }

    fn set(&mut self, name: &'static str, value: f64) {
        self.put(name, Vec::new(), value);
    }

    fn some(&mut self, name: &'static str, value: Option<f64>) {
        if let Some(value) = value {
            self.set(name, value);
        }
    }

    fn put(&mut self, name: &'static str, labels: Labels, value: f64) {
        self.values.entry(name).or_default().insert(labels, value);
    }

    fn zero(&mut self, names: &[&'static str]) {
        for name in names {
            self.add(name, 0.0);
        }
    }

    fn add(&mut self, name: &'static str, more: f64) {
        self.grow(name, Vec::new(), more);
    }

    fn grow(&mut self, name: &'static str, labels: Labels, more: f64) {
        // What is not a number, or less than nothing, would end a sum for ever.
        let more = if more.is_finite() { more.max(0.0) } else { 0.0 };
        *self.values.entry(name).or_default().entry(labels).or_default() += more;
    }
}
