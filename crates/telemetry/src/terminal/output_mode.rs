//! Format and verbosity of stderr. The command line sets them once.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use schemas::printable;
use serde_json::json;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

use super::wrapping::wrapped;

/// Format of stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// Text lines for users.
    #[default]
    Text,
    /// One JSON object per line, for programs.
    Json,
}

/// Amount of output.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Results and errors.
    Quiet,
    /// Progress, notes and warnings.
    #[default]
    Usual,
    /// Debug messages of this program.
    More,
    /// Trace messages of this program, and debug messages of its libraries.
    Most,
}

/// Format and verbosity of stderr.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputMode {
    /// Format of stderr.
    pub form: OutputFormat,
    /// Amount of output.
    pub verbosity: Verbosity,
}

static MODE: OnceLock<OutputMode> = OnceLock::new();

impl OutputMode {
    /// Sets the mode of the process. Only the first call has an effect.
    pub fn set(self) {
        let _ = MODE.set(self);
    }

    pub(crate) fn get() -> Self {
        MODE.get().copied().unwrap_or_default()
    }

    /// Returns whether a bar may be drawn on stderr.
    pub(super) fn draws(self) -> bool {
        self.form == OutputFormat::Text && self.verbosity > Verbosity::Quiet && std::io::stderr().is_terminal()
    }

    /// Returns the line in the format of stderr. `None` if the verbosity excludes it.
    pub(super) fn written(self, line: &str) -> Option<String> {
        let level = Level::of_line(line);
        if self.verbosity == Verbosity::Quiet && level != Level::Error {
            return None;
        }
        Some(match self.form {
            OutputFormat::Text => wrapped(&printable(line), std::io::stderr().is_terminal()).into_owned(),
            OutputFormat::Json => object(level, line),
        })
    }
}

/// Returns a JSON object in the format of `tracing`, so that one parser can read both.
fn object(level: Level, line: &str) -> String {
    let mut timestamp = String::new();
    // Writing to a `String` does not fail.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let message = line.strip_prefix(level.prefix()).unwrap_or(line);
    json!({ "timestamp": timestamp, "level": level.name(), "fields": { "message": message }, "target": "cloze" })
        .to_string()
}

/// Severity of a line, from its prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
    Info,
}

impl Level {
    fn of_line(line: &str) -> Self {
        match line {
            // A hint follows an error and has its severity.
            _ if line.starts_with("error: ") || line.starts_with("hint: ") => Self::Error,
            _ if line.starts_with("warning: ") => Self::Warning,
            _ => Self::Info,
        }
    }

    fn prefix(self) -> &'static str {
        match self {
            Self::Error => "error: ",
            Self::Warning => "warning: ",
            Self::Info => "",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Error => "ERROR",
            Self::Warning => "WARN",
            Self::Info => "INFO",
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn quiet_mode_prints_only_errors() {
        let written = |verbosity, line: &str| OutputMode { form: OutputFormat::Text, verbosity }.written(line);
        for verbosity in [Verbosity::Usual, Verbosity::More, Verbosity::Most] {
            for line in ["error: a", "warning: b", "c"] {
                assert_eq!(written(verbosity, line).as_deref(), Some(line));
            }
        }
        assert_eq!(written(Verbosity::Quiet, "error: a").as_deref(), Some("error: a"));
        assert_eq!([written(Verbosity::Quiet, "warning: b"), written(Verbosity::Quiet, "c")], [None, None]);
    }

    #[test]
    fn in_json_mode_every_line_is_one_object() {
        let mode = OutputMode { form: OutputFormat::Json, verbosity: Verbosity::Usual };
        for (line, level, message) in [
            ("error: no such \"file\"\n hint: a\tb", "ERROR", "no such \"file\"\n hint: a\tb"),
            ("warning: \u{1b}[31mred", "WARN", "\u{1b}[31mred"),
            ("continuing after step 5", "INFO", "continuing after step 5"),
        ] {
            let written = mode.written(line).expect("it is not filtered");
            assert!(!written.contains(['\n', '\u{1b}']), "{written}");
            let object: Value = serde_json::from_str(&written).expect("JSON");
            assert_eq!((&object["level"], &object["fields"]["message"]), (&level.into(), &message.into()));
            let time = object["timestamp"].as_str().expect("a time");
            assert!(time.ends_with('Z') && time.contains('T'), "{time}");
        }
    }
}
