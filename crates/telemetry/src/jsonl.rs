//! Events for programs: one JSON object a line, as the [`event`](crate::event) module defines it.

use std::fmt;

use schemas::ordinal::Step;

use crate::event::Event;

/// The log of a run, in its store.
pub const LOG: &str = "log";

/// The event as one line, without the newline that ends it. Line breaks within texts are escaped.
#[must_use]
pub fn line(event: &Event) -> String {
    serde_json::to_string(event).expect("events have string keys and write every number")
}

/// Why a line is no event.
#[derive(Debug)]
pub struct ParseError(serde_json::Error);

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let way_out = if self.0.is_data() { "another program wrote it" } else { "it is cut or damaged: skip it" };
        write!(f, "not an event: {}; {way_out}", self.0)
    }
}

impl std::error::Error for ParseError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.0)
    }
}

/// Reads a line, with or without its newline. Any bytes may stand there: a kill cuts lines, a disk damages them.
///
/// # Errors
/// For what is no JSON object, lacks a key of the envelope, or lacks a key of its kind.
pub fn parse(line: &[u8]) -> Result<Event, ParseError> {
    serde_json::from_slice(line).map_err(ParseError)
}

/// Whether a line was said up to that step, or of none. What nobody can read was not.
#[must_use]
pub fn is_said_by(line: &[u8], step: Step) -> bool {
    parse(line).is_ok_and(|event| event.at.step.is_none_or(|said| said <= step))
}
