//! What people see: results on stdout, progress on stderr, colour only where someone looks.
//!
//! [`manner`](OutputMode) is how a process speaks on stderr: with `--log json` each line of it is one object for programs, with
//! `-q` only errors are left of it.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};

use schemas::printable;

pub use self::output_mode::{OutputFormat, OutputMode, Verbosity};
pub use self::printer::Printer;
pub use self::progress::Progress;
pub use self::run_progress::{Doing, RunProgress};

mod bar;
mod output_mode;
mod printer;
mod progress;
mod run_progress;

/// Prints one line of result, in which nothing is obeyed by the terminal: names in it may be anybody's.
pub fn line(text: impl Display) {
    painted(printable(&text.to_string()));
}

/// The same as it is, with colours: whoever paints has made what is foreign [`printable`]. A reader that has gone away
/// (`| head`) ends the program quietly, anything else that stands in the way is said.
pub fn painted(text: impl Display) {
    if let Err(error) = bar::above(|| writeln!(io::stdout().lock(), "{text}")) {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // What a shell shows for a program that SIGPIPE ended.
            std::process::exit(141);
        }
        note(format_args!("error: stdout: {error}"));
        std::process::exit(1);
    }
}

/// Says what has been done. Where nobody can be told, it is done nevertheless.
pub fn told(text: impl Display) {
    if let Err(error) = bar::above(|| writeln!(io::stdout().lock(), "{}", printable(&text.to_string()))) {
        note(format_args!("warning: stdout: {error}; everything is done nevertheless"));
    }
}

/// Prints one line for people, apart from results; as careful of names. It begins with `error: ` or `warning: ` where it is
/// one, by which it is also known what is left of it where somebody wants less.
pub fn note(text: impl Display) {
    if let Some(line) = OutputMode::get().written(&text.to_string()) {
        err(format_args!("{line}\n"));
    }
}

/// The same for who asks: it is said whatever else is not.
pub fn answer(text: impl Display) {
    let manner = OutputMode { loudness: Verbosity::Usual, ..OutputMode::get() };
    err(format_args!("{}\n", manner.written(&text.to_string()).unwrap_or_default()));
}

/// Writes to stderr, above a bar that is drawn there. Where stderr is gone there is nobody to tell.
pub(crate) fn err(text: std::fmt::Arguments<'_>) {
    let _ = bar::above(|| io::stderr().lock().write_fmt(text));
}

/// Colours, as ANSI or as nothing.
#[derive(Clone, Copy, Debug)]
pub struct Paint(bool);

impl Paint {
    /// For stdout: on where it is a terminal and `NO_COLOR` is unset, or where `CLICOLOR_FORCE` is set.
    pub fn stdout() -> Self {
        Self::of(io::stdout().is_terminal())
    }

    /// The same for stderr.
    pub(crate) fn stderr() -> Self {
        Self::of(io::stderr().is_terminal())
    }

    fn of(is_terminal: bool) -> Self {
        let set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty() && value != "0");
        Self(set("CLICOLOR_FORCE") || (is_terminal && !set("NO_COLOR")))
    }

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    fn wrap(self, code: &str, text: impl Display) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_string() }
    }

    /// The text in bold.
    pub fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    /// The text dimmed.
    pub fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    /// The text in red.
    pub fn red(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    /// The text in green.
    pub fn green(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    /// The text in yellow.
    pub fn yellow(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    /// The text in cyan.
    pub fn cyan(self, text: impl Display) -> String {
        self.wrap("36", text)
    }
}
