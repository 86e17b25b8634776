//! History of a run in bounded memory, which the page loads first.

use std::collections::{BTreeMap, VecDeque};

use report::line_chart::Curve;
use serde::Serialize;
use serde_json::Value;
use telemetry::preparation::PrepareProgress;
use telemetry::report_metrics::{REPORT_METRICS, ReportMetric};
use telemetry::training::{PhaseSeconds, RankReport, StepReport, ValidReport};
use telemetry::{Event, EventKind, event_text};

use crate::columns::{AxisPosition, Columns, Spread};

/// Maximum number of events kept per kind; the oldest are dropped.
const EVENTS_MAX: usize = 256;

/// Maximum number of event kinds.
const KINDS_MAX: usize = 64;

/// Metrics of a run in columns, and its other events.
#[derive(Debug, Default)]
pub(crate) struct History {
    reports: Columns,
    validations: Columns,
    preparation: Columns,
    /// Ranks of the newest report.
    ranks: Vec<RankReport>,
    /// Events by kind, each with its sequence number for sorting.
    events: BTreeMap<String, VecDeque<(u64, Value)>>,
    event_count: u64,
    work_time: WorkTime,
}

/// Total work time of a run over all its processes. Each process counts its elapsed time from 0.
#[derive(Clone, Copy, Debug, Default)]
struct WorkTime {
    before_s: f64,
    last_s: f64,
}

impl WorkTime {
    fn hours(&mut self, elapsed_s: f64) -> f64 {
        if elapsed_s < self.last_s {
            self.before_s += self.last_s;
        }
        self.last_s = elapsed_s;
        (self.before_s + elapsed_s) / 3600.0
    }
}

impl History {
    /// Adds an event, and for a report the extra metrics. Returns the new curve point in JSON, if there is one.
    pub(crate) fn push(&mut self, event: &Event, extra: Vec<(String, Spread)>) -> Option<String> {
        match &event.what {
            EventKind::Report(report) => self.ranks.clone_from(&report.ranks),
            // The run may continue on other hosts.
            EventKind::Resume(_) => self.ranks.clear(),
            _ => {}
        }
        let place = self.position_of(event);
        let (table, columns, mut values) = match &event.what {
            EventKind::Report(report) => ("reports", &mut self.reports, report_values(report)),
            EventKind::Validation(report) => ("validations", &mut self.validations, validation_values(report)),
            EventKind::PrepareProgress(progress) => ("preparation", &mut self.preparation, progress_values(progress)),
            // One event per part; progress events contain the count.
            EventKind::PartDone(_) => return None,
            _ => {
                self.record(event);
                return None;
            }
        };
        values.extend(extra);
        let point =
            Point { of: table, place, values: values.iter().map(|(name, spread)| (name.as_str(), *spread)).collect() };
        let json = serde_json::to_string(&point).expect("string keys and serializable numbers");
        columns.push(place, values);
        Some(json)
    }

    fn position_of(&mut self, event: &Event) -> AxisPosition {
        let at = &event.at;
        AxisPosition {
            step: at.step.map_or(0, |step| step.0),
            tokens: at.tokens_seen.unwrap_or(0),
            rows: at.rows_seen.unwrap_or(0),
            hours: self.work_time.hours(event.elapsed_s),
            epoch: at.epoch.unwrap_or(0.0),
            time: event.time,
        }
    }

    fn record(&mut self, event: &Event) {
        let kind = event.what.kind();
        if !self.events.contains_key(kind) && self.events.len() == KINDS_MAX {
            return;
        }
        let mut value = serde_json::to_value(event).expect("events have string keys and serializable numbers");
        if let (Some(fields), Some(summary)) = (value.as_object_mut(), event_text::summary(event)) {
            fields.insert("summary".to_owned(), summary.into());
        }
        self.event_count += 1;
        let kept = self.events.entry(kind.to_owned()).or_default();
        if kept.len() == EVENTS_MAX {
            kept.pop_front();
        }
        kept.push_back((self.event_count, value));
    }

    /// Returns one curve per metric. Names of validation metrics begin with `valid/`.
    pub(crate) fn curves(&self) -> BTreeMap<String, Curve> {
        let reports = self.reports.curves().map(|(name, curve)| (name.to_owned(), curve));
        let validations = self.validations.curves().map(|(name, curve)| (format!("valid/{name}"), curve));
        reports.chain(validations).collect()
    }

    /// Returns the serializable form for the page.
    pub(crate) fn shown(&self) -> HistoryJson<'_> {
        let mut events: Vec<(u64, &Value)> =
            self.events.values().flatten().map(|(number, event)| (*number, event)).collect();
        events.sort_unstable_by_key(|(number, _)| *number);
        HistoryJson {
            reports: &self.reports,
            validations: &self.validations,
            preparation: &self.preparation,
            ranks: &self.ranks,
            events: events.into_iter().map(|(_, event)| event).collect(),
        }
    }
}

/// Curve point of an event, which an open page appends.
#[derive(Serialize)]
struct Point<'a> {
    of: &'static str,
    #[serde(flatten)]
    place: AxisPosition,
    values: BTreeMap<&'a str, Spread>,
}

/// Serializable form of a history.
#[derive(Debug, Serialize)]
pub(crate) struct HistoryJson<'a> {
    reports: &'a Columns,
    validations: &'a Columns,
    preparation: &'a Columns,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    ranks: &'a [RankReport],
    events: Vec<&'a Value>,
}

fn one(name: &str, value: f64) -> (String, Spread) {
    (name.to_owned(), Spread::single(value))
}

fn named<'a>(family: &'a str, values: &'a BTreeMap<String, f64>) -> impl Iterator<Item = (String, Spread)> + use<'a> {
    values.iter().map(move |(name, value)| one(&format!("{family}/{name}"), *value))
}

fn report_values(report: &StepReport) -> Vec<(String, Spread)> {
    let series = |metric: &ReportMetric| {
        let value = (metric.value)(report)?;
        Some((metric.series?.to_owned(), Spread::with_range(value, (metric.steps)(report))))
    };
    let mut found: Vec<(String, Spread)> = REPORT_METRICS.iter().filter_map(series).collect();
    found.extend(report.phases.into_iter().flat_map(phases));
    found.extend(named("terms", &report.figures.terms));
    found.extend(named("metrics", &report.figures.metrics));
    found.extend(named("source_epochs", &report.source_epochs));
    found
}

/// Fraction of wall time per phase.
fn phases(seconds: PhaseSeconds) -> [(String, Spread); 5] {
    let share = |name: &str, of_phase: f64| one(&format!("phase/{name}"), of_phase / seconds.wall.max(1e-9));
    [
        share("data", seconds.data),
        share("step", seconds.step),
        share("read", seconds.read),
        share("validation", seconds.validation),
        share("checkpoint", seconds.checkpoint),
    ]
}

fn validation_values(report: &ValidReport) -> Vec<(String, Spread)> {
    let mut found = vec![one("loss", report.loss), one("seconds", report.seconds)];
    found.extend(named("terms", &report.terms));
    found.extend(named("metrics", &report.metrics));
    if let Some(mlm) = &report.mlm {
        found.push(one("mlm/loss", mlm.loss));
        found.push(one("mlm/accuracy", mlm.accuracy));
        found.push(one("mlm/ln_vocab", mlm.ln_vocab));
        found.extend(mlm.unigram_cross_entropy.map(|value| one("mlm/unigram_cross_entropy", value)));
    }
    found
}

fn progress_values(progress: &PrepareProgress) -> Vec<(String, Spread)> {
    vec![
        one("share", progress.share()),
        one("parts", progress.parts as f64),
        one("text_bytes_per_s", progress.text_bytes_per_s),
        one("tokens_per_s", progress.tokens_per_s),
    ]
}
