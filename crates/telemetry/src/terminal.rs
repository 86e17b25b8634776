//! Terminal output: results on stdout, progress on stderr, colours only on a terminal.
//!
//! [`OutputMode`] sets the output on stderr. With `--log json`, each line is one JSON object for programs. With `-q`, only
//! errors are printed.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use schemas::{printable, printable_json};

pub use self::item_progress::ItemProgress;
pub use self::output_mode::{OutputFormat, OutputMode, Verbosity};
pub use self::printer::Printer;
pub use self::progress::Progress;
pub use self::run_progress::{PhaseText, RunProgress};
pub use self::wrapping::set_width;
use self::wrapping::wrapped;

mod bar;
mod item_progress;
mod output_mode;
mod printer;
mod progress;
mod run_progress;
mod wrapping;

/// Prints a line of results to stdout. Control characters are escaped, because names in it may be untrusted.
pub fn line(text: impl Display) {
    painted(on_stdout(&text.to_string()));
}

/// Returns a text for stdout: control characters are escaped, and lines are broken if it is a terminal.
fn on_stdout(text: &str) -> String {
    wrapped(&printable(text), io::stdout().is_terminal()).into_owned()
}

/// Prints a JSON document to stdout, indented. Characters that terminals obey are written as escapes of JSON.
pub fn json_document(document: &serde_json::Value) {
    painted(printable_json(&format!("{document:#}")));
}

/// Prints a line of results to stdout without escaping, so that it may have colours. The caller must make untrusted parts
/// [`printable`].
///
/// If the reader has closed the pipe (`| head`), the process exits silently with code 141. On any other error, it prints
/// the error and exits with code 1.
pub fn painted(text: impl Display) {
    if let Err(error) = bar::above(|| writeln!(io::stdout().lock(), "{text}")) {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // Exit code of a shell for a program that was killed by SIGPIPE.
            std::process::exit(141);
        }
        note(format_args!("error: stdout: {error}"));
        std::process::exit(1);
    }
}

/// Prints a line to stdout about work that is complete. If stdout fails, it prints a warning and does not exit.
pub fn outcome(text: impl Display) {
    if let Err(error) = bar::above(|| writeln!(io::stdout().lock(), "{}", on_stdout(&text.to_string()))) {
        note(format_args!("warning: stdout: {error}; the work is complete"));
    }
}

/// Prints a line to stderr, with control characters escaped. The prefix `error: ` or `warning: ` sets its severity, which
/// [`Verbosity`] filters by.
pub fn note(text: impl Display) {
    if let Some(line) = OutputMode::get().written(&text.to_string()) {
        err(format_args!("{line}\n"));
    }
}

/// Prints a line to stderr that the user requested. [`Verbosity`] does not filter it.
pub fn print(text: impl Display) {
    let mode = OutputMode { verbosity: Verbosity::Usual, ..OutputMode::get() };
    err(format_args!("{}\n", mode.written(&text.to_string()).unwrap_or_default()));
}

/// Writes to stderr, above the progress bar. Errors are ignored, because there is no other output to report them to.
pub(crate) fn err(text: std::fmt::Arguments<'_>) {
    let _ = bar::above(|| io::stderr().lock().write_fmt(text));
}

/// Text styles as ANSI escape sequences, or no styles.
#[derive(Clone, Copy, Debug)]
pub struct Paint(bool);

impl Paint {
    /// Styles for stdout. On if stdout is a terminal and `NO_COLOR` is unset, or if `CLICOLOR_FORCE` is set.
    pub fn stdout() -> Self {
        Self::detect(io::stdout().is_terminal())
    }

    /// Styles for stderr, by the same rules.
    pub(crate) fn stderr() -> Self {
        Self::detect(io::stderr().is_terminal())
    }

    fn detect(is_terminal: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        Self(set("CLICOLOR_FORCE") || (is_terminal && !set("NO_COLOR")))
    }

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// Returns the text in bold.
    pub fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    /// Returns the text dimmed.
    pub fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    /// Returns the text in red.
    pub fn red(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    /// Returns the text in green.
    pub fn green(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// Returns the text in yellow.
    pub fn yellow(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    /// Returns the text in cyan.
    pub fn cyan(self, text: impl Display) -> String {
        self.wrap("36", text)
    }
}
