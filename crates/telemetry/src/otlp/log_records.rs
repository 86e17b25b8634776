//! Log records of events. Reports, progress and finished parts have none: they are frequent, and their numbers are metrics.

use std::time::{Duration, SystemTime};

use opentelemetry::logs::{AnyValue, LogRecord as _, Logger as _, Severity};
use opentelemetry_sdk::logs::{SdkLogRecord, SdkLogger};

use crate::training::StopReason;
use crate::{Event, EventKind, event_text};

/// Converts an event, unless its numbers are metrics.
pub(super) fn from_event(logger: &SdkLogger, event: &Event) -> Option<SdkLogRecord> {
    let what = &event.what;
    if matches!(what, EventKind::Report(_) | EventKind::PrepareProgress(_) | EventKind::PartDone(_)) {
        return None;
    }
    let text = event_text::line(event).unwrap_or_else(|| match what {
        // The command line prints the error itself, so this event has no text.
        EventKind::Stop(stop) => format!("failed: {}", stop.error.as_deref().unwrap_or("unknown error")),
        what => what.kind().to_owned(),
    });
    let mut record = new_record(logger, event.time, severity(what), &text);
    record.set_event_name(what.otel_event_name());
    record.add_attribute("kind", what.kind().to_owned());
    if let Some(step) = event.at.step {
        record.add_attribute("step", integer(step.0));
    }
    if let Some(epoch) = event.at.epoch {
        record.add_attribute("epoch", epoch);
    }
    if let Some(row) = row(event) {
        record.add_attribute("row", integer(row));
    }
    if let Some((key, value)) = filter_attribute(what) {
        record.add_attribute(key, value);
    }
    Some(record)
}

/// Returns the record of a failure that no event reports. `time` is in milliseconds since the Unix epoch.
pub(super) fn from_failure(logger: &SdkLogger, time: u64, error: &str) -> SdkLogRecord {
    let mut record = new_record(logger, time, Severity::Error, &format!("failed: {error}"));
    record.set_event_name("cloze.failed");
    record.add_attribute("kind", "failed");
    record
}

fn new_record(logger: &SdkLogger, time: u64, severity: Severity, text: &str) -> SdkLogRecord {
    let time = SystemTime::UNIX_EPOCH + Duration::from_millis(time);
    let mut record = logger.create_log_record();
    record.set_timestamp(time);
    record.set_observed_timestamp(time);
    record.set_severity_number(severity);
    record.set_severity_text(severity.name());
    // The text of a preparation's end has several lines; the first one is the summary.
    record.set_body(text.lines().next().unwrap_or_default().to_owned().into());
    record
}

fn severity(what: &EventKind) -> Severity {
    match what {
        EventKind::Warning(_)
        | EventKind::LossSpike(_)
        | EventKind::Skip(_)
        | EventKind::BadRow(_)
        | EventKind::Starved(_) => Severity::Warn,
        EventKind::Stop(stop) if stop.why == StopReason::Failed => Severity::Error,
        _ => Severity::Info,
    }
}

/// Returns the row that the event names, else the position in the stream.
fn row(event: &Event) -> Option<u64> {
    match &event.what {
        EventKind::LossSpike(spike) => Some(spike.first_row.0),
        EventKind::Skip(skip) => Some(skip.spike.first_row.0),
        EventKind::BadRow(bad_row) => Some(bad_row.row.0),
        EventKind::DatasetVersion(dataset_version) => Some(dataset_version.row.0),
        _ => event.at.rows_seen,
    }
}

/// Returns an attribute that users filter the records of this kind by.
fn filter_attribute(what: &EventKind) -> Option<(&'static str, AnyValue)> {
    Some(match what {
        EventKind::Warning(warning) => ("topic", warning.topic.clone().into()),
        EventKind::Checkpoint(checkpoint) => ("place", checkpoint.place.clone().into()),
        EventKind::Audit(audit) => ("view", audit.view.clone().into()),
        EventKind::Validation(report) => ("loss", report.loss.into()),
        EventKind::LossSpike(spike) => ("sigmas", spike.sigmas.into()),
        EventKind::Starved(starved) => ("seconds", starved.seconds.into()),
        _ => return None,
    })
}

/// Converts a count; one that does not fit becomes the largest integer.
fn integer(count: u64) -> AnyValue {
    i64::try_from(count).unwrap_or(i64::MAX).into()
}
