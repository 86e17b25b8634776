//! What events become beside: log records, one for each that is not one of many.

use super::wire::{AnyValue, KeyValue, LogRecord, Value, nanoseconds};
use crate::training::Why;
use crate::{Event, What, event_text};

/// How grave it is, by the numbers of OpenTelemetry's log data model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Severity {
    Info,
    Warn,
    Error,
}

impl Severity {
    fn of(what: &What) -> Self {
        match what {
            What::Warning(_) | What::Leap(_) | What::Skip(_) | What::LeftOut(_) | What::Starved(_) => Self::Warn,
            What::Stop(stop) if stop.why == Why::Failed => Self::Error,
            _ => Self::Info,
        }
    }

    fn number_and_text(self) -> (i32, &'static str) {
        match self {
            Self::Info => (9, "INFO"),
            Self::Warn => (13, "WARN"),
            Self::Error => (17, "ERROR"),
        }
    }
}

/// The record of an event; none of those whose numbers are metrics and that come all the time.
pub(super) fn record(event: &Event) -> Option<LogRecord> {
    let what = &event.what;
    if matches!(what, What::Report(_) | What::PrepareProgress(_) | What::PartDone(_)) {
        return None;
    }
    let text = event_text::line(event).unwrap_or_else(|| match what {
        // People are told that by the error itself.
        What::Stop(stop) => format!("failed: {}", stop.error.as_deref().unwrap_or("nobody knows why")),
        what => what.kind().to_owned(),
    });
    let mut attributes = vec![KeyValue::text("kind", what.kind())];
    attributes.extend(event.at.step.map(|step| KeyValue::int("step", step.0)));
    attributes.extend(event.at.epoch.map(|epoch| KeyValue::double("epoch", epoch)));
    attributes.extend(row(event).map(|row| KeyValue::int("row", row)));
    attributes.extend(beside(what));
    Some(written(event.time, Severity::of(what), what.kind(), &text, attributes))
}

/// That the work failed in a way that no event tells, at that time (milliseconds since the epoch of Unix).
pub(super) fn failure(time: u64, error: &str) -> LogRecord {
    let attributes = vec![KeyValue::text("kind", "failed")];
    written(time, Severity::Error, "failed", &format!("failed: {error}"), attributes)
}

fn written(time: u64, severity: Severity, kind: &str, text: &str, attributes: Vec<KeyValue>) -> LogRecord {
    let (severity_number, name) = severity.number_and_text();
    // What a preparation ends with are several lines: the first says what was done.
    let sentence = text.lines().next().unwrap_or_default().to_owned();
    LogRecord {
        time_unix_nano: nanoseconds(time),
        observed_time_unix_nano: nanoseconds(time),
        severity_number,
        severity_text: name.to_owned(),
        body: Some(AnyValue { value: Some(Value::Text(sentence)) }),
        attributes,
        event_name: format!("cloze.{kind}"),
    }
}

/// The row that it is about, else where in the stream it was said.
fn row(event: &Event) -> Option<u64> {
    match &event.what {
        What::Leap(leap) => Some(leap.first_row.0),
        What::Skip(skip) => Some(skip.leap.first_row.0),
        What::LeftOut(left_out) => Some(left_out.row.0),
        What::Generation(generation) => Some(generation.row.0),
        _ => event.at.rows_seen,
    }
}

/// What one would filter by, of some kinds.
fn beside(what: &What) -> Option<KeyValue> {
    Some(match what {
        What::Warning(warning) => KeyValue::text("topic", &warning.topic),
        What::Checkpoint(checkpoint) => KeyValue::text("place", &checkpoint.place),
        What::Audit(audit) => KeyValue::text("view", &audit.view),
        What::Validation(report) => KeyValue::double("loss", report.loss),
        What::Leap(leap) => KeyValue::double("sigmas", leap.sigmas),
        What::Starved(starved) => KeyValue::double("seconds", starved.seconds),
        _ => return None,
    })
}
