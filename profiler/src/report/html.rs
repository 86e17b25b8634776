//! What pages are made of: tables, bars, figures. Every text is escaped here; what is drawn comes escaped.

use std::fmt::{Display, Write as _};

use server::plot::escaped;

/// HTML in the making.
#[derive(Debug, Default)]
pub struct Html(String);

/// What stands in a cell.
pub enum Cell {
    /// Words.
    Text(String),
    /// Letters as they are in a corpus.
    Code(String),
    /// A number, at the right.
    Number(String),
    /// Shares of the whole width, one bar above another.
    Bars(Vec<f64>),
    /// Shares of the whole width behind one another, each of a class.
    Stack(Vec<(&'static str, f64)>),
    /// A name with the colour of a class.
    Swatch(&'static str, String),
}

impl Html {
    /// A heading of that level.
    pub fn heading(&mut self, level: u8, text: impl Display) {
        self.element(&format!("h{level}"), text);
    }

    /// A sentence.
    pub fn say(&mut self, text: impl Display) {
        self.element("p", text);
    }

    /// A sentence in which names stand between backticks, as an element of that name.
    pub(crate) fn marked(&mut self, name: &str, text: &str) {
        let _ = writeln!(self.0, "<{name}>{}</{name}>", with_code(text));
    }

    /// A list of such sentences.
    pub(crate) fn list(&mut self, items: &[String]) {
        if items.is_empty() {
            return;
        }
        self.0.push_str("<ul>\n");
        for item in items {
            self.marked("li", item);
        }
        self.0.push_str("</ul>\n");
    }

    /// A drawing twice: for wide screens, and for narrow ones. Both are SVG in which every text is escaped.
    pub(crate) fn drawing(&mut self, wide: &str, narrow: &str) {
        let _ =
            writeln!(self.0, "<figure><div class=\"wide\">{wide}</div><div class=\"narrow\">{narrow}</div></figure>");
    }

    /// What is told apart, from here to [`leave`](Self::leave), by a class.
    pub(crate) fn enter(&mut self, name: &str, class: &str) {
        let _ = writeln!(self.0, "<{name} class=\"{class}\">");
    }

    /// The end of what was [entered](Self::enter).
    pub(crate) fn leave(&mut self, name: &str) {
        let _ = writeln!(self.0, "</{name}>");
    }

    /// What two bars beside one another are.
    pub fn key(&mut self, first: &str, second: &str) {
        let (first, second) = (escaped(first), escaped(second));
        let _ = writeln!(
            self.0,
            "<p class=\"key\"><span class=\"a\">■</span> {first} &#160; <span class=\"b\">■</span> {second}</p>"
        );
    }

    /// Which class of colours is what.
    pub(crate) fn keys(&mut self, keys: &[(&str, &str)]) {
        self.0.push_str("<p class=\"key\">");
        for (class, name) in keys {
            let _ = write!(
                self.0,
                "<span><svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"{class}\" \
                 width=\"10\" height=\"10\" rx=\"2\"/></svg> {}</span>",
                escaped(name)
            );
        }
        self.0.push_str("</p>\n");
    }

    /// Figures with what they are.
    pub fn figures(&mut self, figures: &[(&str, String)]) {
        self.0.push_str("<dl>\n");
        for (name, figure) in figures {
            let _ = writeln!(self.0, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(figure));
        }
        self.0.push_str("</dl>\n");
    }

    /// A table with these columns.
    pub fn table(&mut self, columns: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) {
        let mut body = rows.into_iter().peekable();
        if body.peek().is_none() {
            return;
        }
        let numbers: Vec<bool> =
            body.peek().into_iter().flatten().map(|cell| matches!(cell, Cell::Number(_))).collect();
        self.0.push_str("<table><thead><tr>");
        for (column, is_number) in columns.iter().zip(numbers) {
            let class = if is_number { " class=\"n\"" } else { "" };
            let _ = write!(self.0, "<th scope=\"col\"{class}>{}</th>", escaped(column));
        }
        self.0.push_str("</tr></thead><tbody>\n");
        for row in body {
            self.0.push_str("<tr>");
            for cell in row {
                self.cell(cell);
            }
            self.0.push_str("</tr>\n");
        }
        self.0.push_str("</tbody></table>\n");
    }

    fn cell(&mut self, cell: Cell) {
        let _ = match cell {
            Cell::Text(text) => write!(self.0, "<td>{}</td>", escaped(&text)),
            Cell::Code(text) => write!(self.0, "<td><code>{}</code></td>", escaped(&text)),
            Cell::Number(text) => write!(self.0, "<td class=\"n\">{}</td>", escaped(&text)),
            Cell::Bars(shares) => {
                let bars: String = shares.iter().zip(["a", "b"]).map(|(share, class)| bar(*share, class)).collect();
                write!(self.0, "<td class=\"bar\" aria-hidden=\"true\">{bars}</td>")
            }
            Cell::Stack(parts) => write!(self.0, "<td class=\"bar\" aria-hidden=\"true\">{}</td>", stack(&parts)),
            Cell::Swatch(class, name) => write!(
                self.0,
                "<td><svg class=\"swatch\" viewBox=\"0 0 10 10\" aria-hidden=\"true\"><rect class=\"{class}\" width=\"10\" \
                 height=\"10\" rx=\"2\"/></svg> {}</td>",
                escaped(&name)
            ),
        };
    }

    fn element(&mut self, name: &str, text: impl Display) {
        let _ = writeln!(self.0, "<{name}>{}</{name}>", escaped(&text.to_string()));
    }

    /// The whole page, with what it looks like besides what every page does.
    pub fn into_page(self, title: &str, looks: &str) -> String {
        let (title, style, body) = (escaped(title), include_str!("html.css"), self.0);
        // Nothing runs and nothing is fetched, whatever stands in a corpus.
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n\
             <style>\n{style}{looks}</style></head><body>\n{body}</body></html>\n"
        )
    }
}

/// What stands between two backticks is code; one that nobody closes stays.
fn with_code(text: &str) -> String {
    // A number stays in the line of its unit.
    let text = text.replace(" %", "\u{a0}%");
    let mut html = String::new();
    let mut rest = text.as_str();
    while let Some((before, name, after)) =
        rest.split_once('`').and_then(|(before, rest)| rest.split_once('`').map(|(name, after)| (before, name, after)))
    {
        let _ = write!(html, "{}<code>{}</code>", escaped(before), escaped(name));
        rest = after;
    }
    html + &escaped(rest)
}

/// A bar of that share of the width.
fn bar(share: f64, class: &str) -> String {
    let width = if share.is_finite() { share.clamp(0.0, 1.0) * 1000.0 } else { 0.0 };
    format!(
        "<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\"><rect class=\"{class}\" width=\"{width:.1}\" \
         height=\"10\"/></svg>"
    )
}

/// Bars of those shares behind one another.
fn stack(parts: &[(&str, f64)]) -> String {
    let mut from = 0.0;
    let bars: String = parts
        .iter()
        .map(|(class, share)| {
            let width = if share.is_finite() { share.clamp(0.0, 1.0) * 1000.0 } else { 0.0 };
            let bar = format!("<rect class=\"{class}\" x=\"{from:.1}\" width=\"{width:.1}\" height=\"10\"/>");
            from += width;
            bar
        })
        .collect();
    format!("<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\">{bars}</svg>")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_code_and_nothing_becomes_an_element() {
        let said = with_code("`a<b` 2 → 4 & `<script>`, `open");
        assert_eq!(said, "<code>a&lt;b</code> 2 → 4 &amp; <code>&lt;script&gt;</code>, `open");
        assert_eq!((with_code(""), with_code("`")), (String::new(), "`".to_owned()));
        let stacked = stack(&[("busy", 0.5), ("blocked", f64::NAN), ("idle", 7.0)]);
        assert!(!stacked.contains("NaN") && stacked.contains("x=\"500.0\" width=\"1000.0\""), "{stacked}");
    }
}
