//! What people see: results on stdout, progress on stderr, colour only where someone looks.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use observe::preparation::PrepareProgress;
#[cfg(feature = "train")]
pub(crate) use observe::terminal::estimate;
pub(crate) use observe::terminal::{bytes, count};
use schemas::printable;

#[cfg(feature = "train")]
pub(crate) use self::printer::Printer;

#[cfg(feature = "train")]
mod printer;

/// Prints one line of result, in which nothing is obeyed by the terminal: names in it may be anybody's.
pub(crate) fn line(text: impl Display) {
    painted(printable(&text.to_string()));
}

/// The same as it is, with colours: whoever paints has made what is foreign [`printable`]. A reader that has gone away
/// (`| head`) ends the program quietly, anything else that stands in the way is said.
pub(crate) fn painted(text: impl Display) {
    if let Err(error) = writeln!(io::stdout().lock(), "{text}") {
        if error.kind() == io::ErrorKind::BrokenPipe {
            // What a shell shows for a program that SIGPIPE ended.
            std::process::exit(141);
        }
        note(format_args!("error: stdout: {error}"));
        std::process::exit(1);
    }
}

/// Says what has been done. Where nobody can be told, it is done all the same.
pub(crate) fn told(text: impl Display) {
    if let Err(error) = writeln!(io::stdout().lock(), "{}", printable(&text.to_string())) {
        note(format_args!("warning: stdout: {error}; everything is done all the same"));
    }
}

/// Prints one line for people, apart from results; as careful of names.
pub(crate) fn note(text: impl Display) {
    // Where stderr is gone there is nobody to tell.
    let _ = writeln!(io::stderr().lock(), "{}", printable(&text.to_string()));
}

/// Colours, as ANSI or as nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Paint(bool);

impl Paint {
    /// For stdout: on where it is a terminal and `NO_COLOR` is unset, or where `CLICOLOR_FORCE` is set.
    pub(crate) fn stdout() -> Self {
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

    pub(crate) fn bold(self, text: impl Display) -> String {
        self.wrap("1", text)
    }

    pub(crate) fn dim(self, text: impl Display) -> String {
        self.wrap("2", text)
    }

    pub(crate) fn red(self, text: impl Display) -> String {
        self.wrap("31", text)
    }

    pub(crate) fn green(self, text: impl Display) -> String {
        self.wrap("32", text)
    }

    pub(crate) fn yellow(self, text: impl Display) -> String {
        self.wrap("33", text)
    }

    pub(crate) fn cyan(self, text: impl Display) -> String {
        self.wrap("36", text)
    }
}

/// A preparation's progress bar on a terminal; elsewhere a plain line now and then.
#[derive(Debug)]
pub(crate) struct Progress {
    bar: ProgressBar,
    plain: bool,
    printed: Instant,
}

impl Progress {
    /// Between plain lines.
    const PLAIN_EVERY: Duration = Duration::from_secs(10);

    pub(crate) fn new(name: &'static str, now: &PrepareProgress) -> Self {
        let plain = !io::stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(now.bytes_total), target).with_position(now.bytes);
        let style = ProgressStyle::with_template("{prefix} {wide_bar} {percent:>3} %  {msg}  ETA {eta}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_prefix(name);
        Self { bar, plain, printed: Instant::now() }
    }

    /// How far it is, and the same as a plain line.
    pub(crate) fn set(&mut self, now: &PrepareProgress, line: impl Display) {
        self.bar.set_length(now.bytes_total);
        self.bar.set_position(now.bytes);
        self.bar.set_message(observe::terminal::beside_bar(now));
        if self.plain && self.printed.elapsed() >= Self::PLAIN_EVERY {
            self.printed = Instant::now();
            note(line);
        }
    }

    pub(crate) fn finish(&self) {
        self.bar.finish_and_clear();
    }
}

/// `745 k`, `1.2 M`: a rate at a glance.
pub(crate) fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e4 => format!("{:.0} k", v / 1e3),
        v if v >= 1e3 => format!("{:.1} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_at_a_glance() {
        assert_eq!([999.0, 1500.0, 745_000.0, 1.23e6].map(short), ["999", "1.5 k", "745 k", "1.23 M"]);
    }
}
