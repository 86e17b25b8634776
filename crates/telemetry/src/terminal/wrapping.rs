//! Line breaks between words, so that a terminal does not break lines within them.

use std::borrow::Cow;
use std::fmt::Write as _;
use std::sync::OnceLock;

/// Width of the terminal in columns.
static WIDTH: OnceLock<usize> = OnceLock::new();

/// Largest share of the width, as a divisor, that the indent of a continued line has.
const MAX_INDENT: usize = 2;

/// Sets the width of the terminal of the process. Only the first call has an effect. Without it, no line is broken.
pub fn set_width(columns: u16) {
    let _ = WIDTH.set(columns.into());
}

/// Breaks the lines of a text that are longer than the terminal is wide.
pub(super) fn wrapped(text: &str, is_terminal: bool) -> Cow<'_, str> {
    match WIDTH.get() {
        // A break within a text of JSON would change it.
        Some(&width) if is_terminal && !text.starts_with(['{', '[']) => wrapped_to(text, width),
        _ => Cow::Borrowed(text),
    }
}

/// Breaks lines between words. Continued lines are indented as the text after the first column of the line.
fn wrapped_to(text: &str, width: usize) -> Cow<'_, str> {
    if text.lines().all(|line| line.chars().count() <= width) {
        return Cow::Borrowed(text);
    }
    let lines = text.split('\n').map(|line| wrapped_line(line, width));
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

fn wrapped_line(line: &str, width: usize) -> String {
    let indent = text_column(line).min(width / MAX_INDENT);
    let mut written = String::new();
    let mut rest = line;
    // Bytes at the start of the rest that are not broken.
    let mut head = indent;
    loop {
        let room = if written.is_empty() { width } else { width.saturating_sub(indent) };
        let end = rest.char_indices().nth(room).map(|(at, _)| at);
        let Some(end) = end else { return written + rest };
        let before = rest[..end].rfind(' ').filter(|at| *at > head);
        let blank = if rest[end..].starts_with(' ') { Some(end) } else { before };
        // A word that is longer than the line is not broken.
        let Some(blank) = blank.or_else(|| rest[end..].find(' ').map(|at| end + at)) else { return written + rest };
        let next = rest[blank..].trim_start();
        if next.is_empty() {
            return written + rest[..blank].trim_end();
        }
        let _ = write!(written, "{}\n{:indent$}", rest[..blank].trim_end(), "");
        rest = next;
        head = 0;
    }
}

/// Returns the column of the text after a label and several blanks, or after the blanks at the start of a line.
fn text_column(line: &str) -> usize {
    let start = line.len() - line.trim_start().len();
    let label = line[start..].find(' ').unwrap_or(0);
    let after = &line[start + label..];
    let blanks = after.len() - after.trim_start().len();
    if start == 0 && blanks > 1 { label + blanks } else { start }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_broken_between_words_and_indented_as_their_text() {
        for (text, expected) in [
            ("short", "short"),
            ("energy     about 64.4 kWh at 700 W", "energy     about 64.4\n           kWh at 700 W"),
            ("           a rank needs about it", "           a rank\n           needs about\n           it"),
            ("  one two three four five six", "  one two three four\n  five six"),
            ("a sentence of twentytwo letters", "a sentence of\ntwentytwo letters"),
            ("see /a/very/long/path/that/is/kept whole", "see\n/a/very/long/path/that/is/kept\nwhole"),
            ("first line\nand a second one that is long", "first line\nand a second one that\nis long"),
            ("größer größer größer größer", "größer größer größer\ngrößer"),
            ("ends with blanks            ", "ends with blanks"),
        ] {
            assert_eq!(wrapped_to(text, if text.starts_with("energy") { 24 } else { 22 }), expected, "{text}");
        }
        assert_eq!(
            wrapped("a line without a terminal is not broken", false),
            "a line without a terminal is not broken"
        );
    }
}
