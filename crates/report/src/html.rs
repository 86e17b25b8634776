//! Common parts of all pages: frame with head, title and style; tables, bars and lists of metrics.
//!
//! Markup is written with `maud`, which escapes every value. [`text`] also escapes control characters, which HTML
//! escaping does not cover.

use std::borrow::Cow;

use maud::{DOCTYPE, Markup, PreEscaped, Render, html};

/// Content of a table cell.
pub enum Cell {
    /// Plain text.
    Text(String),
    /// Text of a corpus or a command, in a monospaced font.
    Code(String),
    /// Name of a file, on one line. A browser would break it at its hyphens.
    File(String),
    /// Number, aligned to the right.
    Number(String),
    /// At most two fractions of the full width, one bar below the other.
    Bars(Vec<f64>),
    /// Fractions of the full width in one bar, each with its CSS class.
    Stack(Vec<(&'static str, f64)>),
    /// Name after a swatch with the color of its CSS class.
    Swatch(&'static str, String),
}

/// Escapes control characters and direction overrides of a text, for example as `\u{1b}`.
pub fn text(text: &str) -> Cow<'_, str> {
    schemas::printable(text)
}

/// Returns a complete page without scripts and external resources. `style` is appended to the common style sheet.
pub fn static_page(title: &str, style: &str, body: &Markup) -> String {
    let policy = "default-src 'none'; style-src 'unsafe-inline'";
    frame(title, &[include_str!("html.css"), style].concat(), Some(policy), body).into_string()
}

/// Returns a complete page. `policy` is its content security policy, for pages that are not sent by a server.
pub fn frame(title: &str, style: &str, policy: Option<&str>, body: &Markup) -> Markup {
    html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                @if let Some(policy) = policy { meta http-equiv="Content-Security-Policy" content=(policy); }
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta name="referrer" content="no-referrer";
                title { (text(title)) }
                style { (PreEscaped(style)) }
            }
            body { (body) }
        }
    }
}

/// Formats names between backticks as code. An unpaired backtick is kept.
pub fn with_code(words: &str) -> Markup {
    // A number and its percent sign stay on one line.
    let words = words.replace(" %", "\u{a0}%");
    let parts: Vec<&str> = words.split('`').collect();
    html! {
        @for (at, part) in parts.iter().enumerate() {
            @if at % 2 == 0 { (text(part)) }
            @else if at + 1 < parts.len() { code { (text(part)) } }
            @else { "`" (text(part)) }
        }
    }
}

/// Returns a list of metrics, each below its name.
pub fn figures(figures: &[(&str, String)]) -> Markup {
    html! { dl { @for (name, figure) in figures { div { dt { (text(name)) } dd { (text(figure)) } } } } }
}

/// Returns the legend of two [`Bars`](Cell::Bars).
pub fn bars_legend(first: &str, second: &str) -> Markup {
    html! {
        p.key { span.a { "■" } " " (text(first)) " \u{a0} " span.b { "■" } " " (text(second)) }
    }
}

/// Returns the legend of CSS classes.
pub fn classes_legend(classes: &[(&str, &str)]) -> Markup {
    html! { p.key { @for (class, name) in classes { span { (swatch(class)) " " (text(name)) } } } }
}

/// Returns a table, or nothing if there are no rows. The first row determines which columns are numbers.
pub fn table(columns: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) -> Markup {
    let rows: Vec<Vec<Cell>> = rows.into_iter().collect();
    html! {
        @if let Some(first) = rows.first() {
            table {
                thead {
                    tr {
                        @for (column, cell) in columns.iter().zip(first) {
                            th scope="col" class=[matches!(cell, Cell::Number(_)).then_some("n")] { (text(column)) }
                        }
                    }
                }
                tbody { @for row in &rows { tr { @for cell in row { (cell) } } } }
            }
        }
    }
}

impl Render for Cell {
    fn render(&self) -> Markup {
        html! {
            @match self {
                Self::Text(words) => { td { (text(words)) } }
                Self::Code(words) => { td { code { (text(words)) } } }
                Self::File(name) => { td.file { (text(name)) } }
                Self::Number(number) => { td.n { (text(number)) } }
                Self::Bars(shares) => {
                    td.bar aria-hidden="true" { @for (share, class) in shares.iter().zip(["a", "b"]) { (stack(&[(class, *share)])) } }
                }
                Self::Stack(parts) => { td.bar aria-hidden="true" { (stack(parts)) } }
                Self::Swatch(class, name) => { td { (swatch(class)) " " (text(name)) } }
            }
        }
    }
}

fn swatch(class: &str) -> Markup {
    html! {
        svg.swatch viewBox="0 0 10 10" aria-hidden="true" { rect class=(class) width="10" height="10" rx="2" {} }
    }
}

/// Returns one bar that consists of the given fractions of the width.
fn stack(parts: &[(&str, f64)]) -> Markup {
    let mut end = 0.0;
    let bars = parts.iter().map(|(class, share)| {
        let begin = end;
        let width = if share.is_finite() { share.clamp(0.0, 1.0) * 1000.0 } else { 0.0 };
        end += width;
        html! { rect class=(class) x=(format_args!("{begin:.1}")) width=(format_args!("{width:.1}")) height="10" {} }
    });
    html! { svg viewBox="0 0 1000 10" preserveAspectRatio="none" { @for bar in bars { (bar) } } }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_code_and_text_never_becomes_an_element() {
        let marked = |words| with_code(words).into_string();
        assert_eq!(
            marked("`a<b` 2 → 4 & `<script>`, `open"),
            "<code>a&lt;b</code> 2 → 4 &amp; <code>&lt;script&gt;</code>, `open"
        );
        assert_eq!((marked(""), marked("`")), (String::new(), "`".to_owned()));
        let stacked = stack(&[("busy", 0.5), ("blocked", f64::NAN), ("idle", 7.0)]).into_string();
        assert!(!stacked.contains("NaN") && stacked.contains("x=\"500.0\" width=\"1000.0\""), "{stacked}");
    }

    #[test]
    fn a_page_escapes_every_text() {
        let hostile = "</title><script>\u{1b}[2J\"";
        let cells = [Cell::Text, Cell::Code, Cell::File, Cell::Number].map(|cell| cell(hostile.to_owned()));
        let page = static_page(hostile, "", &table(&[hostile; 4], [cells.into()]));
        assert!(!page.contains("<script") && !page.contains('\u{1b}'), "{page}");
        assert_eq!(page.matches("&lt;/title&gt;&lt;script&gt;\\u{1b}[2J&quot;").count(), 9, "{page}");
    }
    #[test]
    fn file_names_are_not_broken() {
        let page = static_page("a", "", &table(&["file"], [vec![Cell::File("a-long-name.txt".to_owned())]]));
        assert!(
            page.contains("<td class=\"file\">a-long-name.txt</td>") && page.contains(".file { white-space: nowrap; }")
        );
    }
}
