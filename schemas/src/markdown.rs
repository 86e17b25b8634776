//! Foreign texts in Markdown, as their characters: no HTML, links, images or cells of their own.

use crate::printable;

/// Returns a text for a line or a table cell of a Markdown page.
pub fn markdown_text(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in printable(text).chars() {
        match character {
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '&' => escaped.push_str("&amp;"),
            '\n' | '\t' => escaped.push(' '),
            '\\' | '`' | '*' | '[' | ']' | '|' => escaped.extend(['\\', character]),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// Returns a text as code of a line or a table cell of a Markdown page. No escape exists there for backticks: they
/// become apostrophes.
pub fn markdown_code(text: &str) -> String {
    format!("`{}`", printable(text).replace(['\n', '\t'], " ").replace('`', "'").replace('|', "\\|"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn foreign_texts_are_neither_markup_nor_cells() {
        let hostile = "<img src=x onerror=alert(1)>|![a](http://b) `c` *d*\n# e & \u{1b}[2J";
        let text = markdown_text(hostile);
        assert_eq!(text, r"&lt;img src=x onerror=alert(1)&gt;\|!\[a\](http://b) \`c\` \*d\* # e &amp; \\u{1b}\[2J");
        assert_eq!(markdown_code("a`</code>|b\nc"), r"`a'</code>\|b c`");
        for plain in ["dev_matthews", "lr 3e-5", "0.4500 ± 0.4950", "möchte 中"] {
            assert_eq!(markdown_text(plain), plain);
        }
    }
}
