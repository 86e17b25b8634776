//! What a run said so far, as its page begins with it.

use std::collections::{BTreeMap, VecDeque};

use report::line_chart::Curve;
use serde::Serialize;
use serde_json::Value;
use telemetry::preparation::PrepareProgress;
use telemetry::report_metrics::{REPORT_METRICS, ReportMetric};
use telemetry::training::{PhaseSeconds, StepReport, ValidReport};
use telemetry::{Event, EventKind, event_text};

use crate::columns::{Columns, Place, Spread};

/// Events of one kind that are kept: the newest.
const EVENTS_MAX: usize = 256;

/// Kinds of events that are kept.
const KINDS_MAX: usize = 64;

/// What a run said: numbers in columns, everything else as events.
#[derive(Debug, Default)]
pub(crate) struct History {
    reports: Columns,
    validations: Columns,
    preparation: Columns,
    /// By kind, each with its number, so that they can be put in order again.
    events: BTreeMap<String, VecDeque<(u64, Value)>>,
    said: u64,
    working: Working,
}

/// Hours of work over processes that each count from their own beginning.
#[derive(Clone, Copy, Debug, Default)]
struct Working {
    before_s: f64,
    last_s: f64,
}

impl Working {
    fn hours(&mut self, elapsed_s: f64) -> f64 {
        if elapsed_s < self.last_s {
            self.before_s += self.last_s;
        }
        self.last_s = elapsed_s;
        (self.before_s + elapsed_s) / 3600.0
    }
}

impl History {
    /// One more event, with figures that it does not have itself. The point that it makes, in JSON, if it makes one.
    pub(crate) fn push(&mut self, event: &Event, beside: Vec<(String, Spread)>) -> Option<String> {
        let place = self.place(event);
        let (of, columns, mut figures) = match &event.what {
            EventKind::Report(report) => ("reports", &mut self.reports, report_values(report)),
            EventKind::Validation(report) => ("validations", &mut self.validations, validated(report)),
            EventKind::PrepareProgress(progress) => ("preparation", &mut self.preparation, prepared(progress)),
            // One for each part: progress says how many.
            EventKind::PartDone(_) => return None,
            _ => {
                self.keep(event);
                return None;
            }
        };
        figures.extend(beside);
        let point =
            Point { of, place, values: figures.iter().map(|(name, spread)| (name.as_str(), *spread)).collect() };
        let json = serde_json::to_string(&point).expect("string keys, and every number has a form");
        columns.push(place, figures);
        Some(json)
    }

    fn place(&mut self, event: &Event) -> Place {
        let at = &event.at;
        Place {
            step: at.step.map_or(0, |step| step.0),
            tokens: at.tokens_seen.unwrap_or(0),
            rows: at.rows_seen.unwrap_or(0),
            hours: self.working.hours(event.elapsed_s),
            epoch: at.epoch.unwrap_or(0.0),
            time: event.time,
        }
    }

    fn keep(&mut self, event: &Event) {
        let kind = event.what.kind();
        if !self.events.contains_key(kind) && self.events.len() == KINDS_MAX {
            return;
        }
        let mut value = serde_json::to_value(event).expect("events have string keys and write every number");
        if let (Some(fields), Some(summary)) = (value.as_object_mut(), event_text::summary(event)) {
            fields.insert("summary".to_owned(), summary.into());
        }
        self.said += 1;
        let kept = self.events.entry(kind.to_owned()).or_default();
        if kept.len() == EVENTS_MAX {
            kept.pop_front();
        }
        kept.push_back((self.said, value));
    }

    /// Each figure of the reports, and of the validations with `valid/` before its name, as a curve.
    pub(crate) fn curves(&self) -> BTreeMap<String, Curve> {
        let reports = self.reports.curves().map(|(name, curve)| (name.to_owned(), curve));
        let validations = self.validations.curves().map(|(name, curve)| (format!("valid/{name}"), curve));
        reports.chain(validations).collect()
    }

    /// As the page reads it.
    pub(crate) fn shown(&self) -> Shown<'_> {
        let mut events: Vec<(u64, &Value)> =
            self.events.values().flatten().map(|(number, event)| (*number, event)).collect();
        events.sort_unstable_by_key(|(number, _)| *number);
        Shown {
            reports: &self.reports,
            validations: &self.validations,
            preparation: &self.preparation,
            events: events.into_iter().map(|(_, event)| event).collect(),
        }
    }
}

/// What an event adds to the curves, as a page that is open appends it.
#[derive(Serialize)]
struct Point<'a> {
    of: &'static str,
    #[serde(flatten)]
    place: Place,
    values: BTreeMap<&'a str, Spread>,
}

/// A history in JSON.
#[derive(Debug, Serialize)]
pub(crate) struct Shown<'a> {
    reports: &'a Columns,
    validations: &'a Columns,
    preparation: &'a Columns,
    events: Vec<&'a Value>,
}

fn one(name: &str, value: f64) -> (String, Spread) {
    (name.to_owned(), Spread::of(value))
}

fn named<'a>(family: &'a str, of: &'a BTreeMap<String, f64>) -> impl Iterator<Item = (String, Spread)> + use<'a> {
    of.iter().map(move |(name, value)| one(&format!("{family}/{name}"), *value))
}

fn report_values(report: &StepReport) -> Vec<(String, Spread)> {
    let series = |metric: &ReportMetric| {
        let value = (metric.value)(report)?;
        Some((metric.series?.to_owned(), Spread::among(value, (metric.steps)(report))))
    };
    let mut found: Vec<(String, Spread)> = REPORT_METRICS.iter().filter_map(series).collect();
    found.extend(report.phases.into_iter().flat_map(phases));
    found.extend(named("terms", &report.figures.terms));
    found.extend(named("metrics", &report.figures.metrics));
    found.extend(named("source_epochs", &report.source_epochs));
    found
}

/// The share of wall time that each phase took.
fn phases(of: PhaseSeconds) -> [(String, Spread); 5] {
    let share = |name: &str, seconds: f64| one(&format!("phase/{name}"), seconds / of.wall.max(1e-9));
    [
        share("data", of.data),
        share("step", of.step),
        share("read", of.read),
        share("validation", of.validation),
        share("checkpoint", of.checkpoint),
    ]
}

fn validated(report: &ValidReport) -> Vec<(String, Spread)> {
    let mut found = vec![one("loss", report.loss), one("seconds", report.seconds)];
    found.extend(named("terms", &report.terms));
    found.extend(named("metrics", &report.metrics));
    if let Some(mlm) = &report.mlm {
        found.push(one("mlm/loss", mlm.loss));
        found.push(one("mlm/accuracy", mlm.accuracy));
        found.push(one("mlm/ln_vocab", mlm.ln_vocab));
        found.push(one("mlm/unigram_entropy", mlm.unigram_entropy));
        found.extend(mlm.unigram_cross_entropy.map(|value| one("mlm/unigram_cross_entropy", value)));
    }
    found
}

fn prepared(progress: &PrepareProgress) -> Vec<(String, Spread)> {
    vec![
        one("share", progress.share()),
        one("parts", progress.parts as f64),
        one("text_bytes_per_s", progress.text_bytes_per_s),
        one("tokens_per_s", progress.tokens_per_s),
    ]
}
