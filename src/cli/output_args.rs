//! `--log`, `-v` and `-q`: flags of every verb.

use clap::{ArgAction, Args, ValueEnum};
use telemetry::terminal::{OutputFormat, OutputMode, Verbosity};

/// Format and verbosity of messages on stderr.
#[derive(Clone, Copy, Debug, Default, Args)]
pub(crate) struct OutputArgs {
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

impl OutputArgs {
    pub(crate) fn mode(self) -> OutputMode {
        let form = match self.log {
            Some(LogForm::Text) => OutputFormat::Text,
            Some(LogForm::Json) => OutputFormat::Json,
            None => of_environment(),
        };
        let verbosity = match self {
            Self { quiet: true, .. } => Verbosity::Quiet,
            Self { verbose: 0, .. } => Verbosity::Usual,
            Self { verbose: 1, .. } => Verbosity::More,
            Self { .. } => Verbosity::Most,
        };
        OutputMode { form, verbosity }
    }
}

/// Returns the message format of the environment. It applies if the command line does not set one.
pub(super) fn of_environment() -> OutputFormat {
    let is_json = std::env::var_os("CLOZE_LOG_FORMAT").is_some_and(|form| form == "json");
    if is_json { OutputFormat::Json } else { OutputFormat::Text }
}

/// Values of `--log`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum LogForm {
    /// Lines of text.
    Text,
    /// One JSON object per line.
    Json,
}
