//! Events as JSON lines, in the format of the [`event`](crate::event) module.

use std::fmt;

use schemas::ordinal::Step;

use crate::event::Event;

/// Folder of the log in the store of a run.
pub const LOG: &str = "log";

/// Returns the event as one line without the final newline. Line breaks within texts are escaped.
#[must_use]
pub fn line(event: &Event) -> String {
    serde_json::to_string(event).expect("events have string keys and write every number")
}

/// Error of a line that is not an event.
#[derive(Debug)]
pub struct ParseError(serde_json::Error);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hint = if self.0.is_data() { "another program wrote it" } else { "it is truncated or damaged: skip it" };
        write!(f, "not an event: {}; {hint}", self.0)
    }
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Parses a line, with or without its newline. The line may contain any bytes: a killed process truncates lines, and a
/// disk may damage them.
///
/// # Errors
/// If the line is not a JSON object, or lacks a key of the envelope or of its kind.
pub fn parse(line: &[u8]) -> Result<Event, ParseError> {
    serde_json::from_slice(line).map_err(ParseError)
}

/// Returns whether the event of a line has no step or a step up to `step`. An unreadable line returns `false`.
#[must_use]
pub fn is_at_or_before(line: &[u8], step: Step) -> bool {
    parse(line).is_ok_and(|event| event.at.step.is_none_or(|event_step| event_step <= step))
}
