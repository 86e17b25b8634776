//! What the page is made of: tables, bars, figures. Every text is escaped here and nowhere else.

use std::fmt::{Display, Write as _};

use serve::plot::escaped;

/// HTML in the making.
#[derive(Debug, Default)]
pub(super) struct Html(String);

/// What stands in a cell.
pub(super) enum Cell {
    /// Words.
    Text(String),
    /// Letters as they are in a corpus.
    Code(String),
    /// A number, at the right.
    Number(String),
    /// Shares of the whole width, one bar above another.
    Bars(Vec<f64>),
}

impl Html {
    /// A heading of that level.
    pub(super) fn heading(&mut self, level: u8, text: impl Display) {
        self.element(&format!("h{level}"), text);
    }

    /// A sentence.
    pub(super) fn say(&mut self, text: impl Display) {
        self.element("p", text);
    }

    /// What two bars beside one another are.
    pub(super) fn key(&mut self, first: &str, second: &str) {
        let (first, second) = (escaped(first), escaped(second));
        let _ = writeln!(
            self.0,
            "<p class=\"key\"><span class=\"a\">■</span> {first} &#160; <span class=\"b\">■</span> {second}</p>"
        );
    }

    /// Figures with what they are.
    pub(super) fn figures(&mut self, figures: &[(&str, String)]) {
        self.0.push_str("<dl>\n");
        for (name, figure) in figures {
            let _ = writeln!(self.0, "<div><dt>{}</dt><dd>{}</dd></div>", escaped(name), escaped(figure));
        }
        self.0.push_str("</dl>\n");
    }

    /// A table with these columns.
    pub(super) fn table(&mut self, columns: &[&str], rows: impl IntoIterator<Item = Vec<Cell>>) {
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
        };
    }

    fn element(&mut self, name: &str, text: impl Display) {
        let _ = writeln!(self.0, "<{name}>{}</{name}>", escaped(&text.to_string()));
    }

    /// The whole page.
    pub(super) fn into_page(self, title: &str) -> String {
        let (title, style, body) = (escaped(title), include_str!("style.css"), self.0);
        // Nothing runs and nothing is fetched, whatever stands in a corpus.
        format!(
            "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\
             <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\
             <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"><title>{title}</title>\n\
             <style>\n{style}</style></head><body>\n{body}</body></html>\n"
        )
    }
}

/// A bar of that share of the width.
fn bar(share: f64, class: &str) -> String {
    let width = if share.is_finite() { share.clamp(0.0, 1.0) * 1000.0 } else { 0.0 };
    format!(
        "<svg viewBox=\"0 0 1000 10\" preserveAspectRatio=\"none\"><rect class=\"{class}\" width=\"{width:.1}\" \
         height=\"10\"/></svg>"
    )
}
