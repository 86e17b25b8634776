//! `--log`, `-v` and `-q`: flags of every verb.

use clap::{ArgAction, Args, ValueEnum};
use telemetry::terminal::{OutputFormat, OutputMode, Verbosity};

/// How much is said on stderr, and to whom.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct Said {
    /// Format of messages and events.
    #[arg(long, value_name = "FORM", global = true, help_heading = "Output")]
    log: Option<LogForm>,
    /// Print more; twice: everything.
    #[arg(short, long, action = ArgAction::Count, global = true, help_heading = "Output")]
    verbose: u8,
    /// Print only results and errors.
    #[arg(short, long, global = true, conflicts_with = "verbose", help_heading = "Output")]
    quiet: bool,
}

impl Said {
    pub(crate) fn manner(self) -> OutputMode {
        let form = match self.log {
            Some(LogForm::Text) => OutputFormat::Text,
            Some(LogForm::Json) => OutputFormat::Json,
            None => of_environment(),
        };
        let loudness = match self {
            Self { quiet: true, .. } => Verbosity::Quiet,
            Self { verbose: 0, .. } => Verbosity::Usual,
            Self { verbose: 1, .. } => Verbosity::More,
            Self { .. } => Verbosity::Most,
        };
        OutputMode { form, loudness }
    }
}

/// For whom stderr is if the command does not say it.
pub(super) fn of_environment() -> OutputFormat {
    let is_json = std::env::var_os("CLOZE_LOG_FORMAT").is_some_and(|form| form == "json");
    if is_json { OutputFormat::Json } else { OutputFormat::Text }
}

/// What `--log` takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogForm {
    /// Lines for people.
    Text,
    /// One object a line for programs.
    Json,
}
