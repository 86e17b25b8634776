//! How a process speaks on stderr: how much of it, and to whom. Decided once, by the command line.

use std::io::IsTerminal as _;
use std::sync::OnceLock;

use schemas::printable;
use serde_json::json;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::{FormatTime as _, SystemTime};

/// For whom stderr is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OutputFormat {
    /// For people: lines.
    #[default]
    Text,
    /// For programs: one JSON object a line.
    Json,
}

/// How much is said.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verbosity {
    /// Results and errors.
    Quiet,
    /// What somebody who waits wants to know.
    #[default]
    Usual,
    /// What this program does.
    More,
    /// What the libraries do that it uses, too.
    Most,
}

/// How to speak.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputMode {
    /// The form of stderr.
    pub form: OutputFormat,
    /// How much is printed.
    pub loudness: Verbosity,
}

static MANNER: OnceLock<OutputMode> = OnceLock::new();

impl OutputMode {
    /// From now on, for the whole process. The first one stays.
    pub fn set(self) {
        let _ = MANNER.set(self);
    }

    pub(crate) fn get() -> Self {
        MANNER.get().copied().unwrap_or_default()
    }

    /// Whether a bar may be drawn on stderr.
    pub(super) fn draws(self) -> bool {
        self.form == OutputFormat::Text && self.loudness > Verbosity::Quiet && std::io::stderr().is_terminal()
    }

    /// A line as it is to be written, or nothing where it is not to be said.
    pub(super) fn written(self, line: &str) -> Option<String> {
        let level = Level::of(line);
        if self.loudness == Verbosity::Quiet && level != Level::Error {
            return None;
        }
        Some(match self.form {
            OutputFormat::Text => printable(line).into_owned(),
            OutputFormat::Json => object(level, line),
        })
    }
}

/// As `tracing` writes its events, so that one reader reads both.
fn object(level: Level, line: &str) -> String {
    let mut timestamp = String::new();
    // Writing to a text does not fail; a line without a time is a line nevertheless.
    let _ = SystemTime.format_time(&mut Writer::new(&mut timestamp));
    let message = line.strip_prefix(level.prefix()).unwrap_or(line);
    json!({ "timestamp": timestamp, "level": level.name(), "fields": { "message": message }, "target": "cloze" })
        .to_string()
}

/// How grave a line is: it begins with that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    Error,
    Warning,
    Info,
}

impl Level {
    fn of(line: &str) -> Self {
        match line {
            // A hint belongs to the error that it stands next to.
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
    fn who_is_quiet_says_errors_and_nothing_else() {
        let said = |loudness, line: &str| OutputMode { form: OutputFormat::Text, loudness }.written(line);
        for loudness in [Verbosity::Usual, Verbosity::More, Verbosity::Most] {
            for line in ["error: a", "warning: b", "c"] {
                assert_eq!(said(loudness, line).as_deref(), Some(line));
            }
        }
        assert_eq!(said(Verbosity::Quiet, "error: a").as_deref(), Some("error: a"));
        assert_eq!([said(Verbosity::Quiet, "warning: b"), said(Verbosity::Quiet, "c")], [None, None]);
    }

    #[test]
    fn for_programs_a_line_is_one_object_whatever_is_in_it() {
        let manner = OutputMode { form: OutputFormat::Json, loudness: Verbosity::Usual };
        for (line, level, message) in [
            ("error: no such \"file\"\n hint: a\tb", "ERROR", "no such \"file\"\n hint: a\tb"),
            ("warning: \u{1b}[31mred", "WARN", "\u{1b}[31mred"),
            ("continuing after step 5", "INFO", "continuing after step 5"),
        ] {
            let written = manner.written(line).expect("it is said");
            assert!(!written.contains(['\n', '\u{1b}']), "{written}");
            let object: Value = serde_json::from_str(&written).expect("JSON");
            assert_eq!((&object["level"], &object["fields"]["message"]), (&level.into(), &message.into()));
            let time = object["timestamp"].as_str().expect("a time");
            assert!(time.ends_with('Z') && time.contains('T'), "{time}");
        }
    }
}
