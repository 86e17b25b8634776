//! Escaping of untrusted names for display.

use std::borrow::Cow;
use std::fmt::Write as _;

/// Escapes characters that control a terminal, as in `\u{1b}`: control characters except line feeds and tabs, and
/// characters that change the writing direction. For names of files, keys, tokens and other untrusted text.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    escape_obeyed(text, |shown, character| shown.extend(character.escape_unicode()))
}

/// Returns a JSON document in which characters that terminals obey are escaped, as JSON escapes them. They occur in
/// strings only.
pub fn printable_json(document: &str) -> Cow<'_, str> {
    // All of them are in the basic multilingual plane.
    escape_obeyed(document, |shown, character| write!(shown, "\\u{:04x}", u32::from(character)).expect("into memory"))
}

/// Returns the text with each character that terminals obey replaced by what `escape` appends.
fn escape_obeyed(text: &str, escape: impl Fn(&mut String, char)) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_obeyed(character) {
            escape(&mut shown, character);
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_obeyed(character: char) -> bool {
    (character.is_control() && !matches!(character, '\n' | '\t'))
        || matches!(character, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_stays_json() {
        let document = "{\"a\": \"\u{9b}b\u{202e}\"}";
        assert_eq!(printable_json(document), "{\"a\": \"\\u009bb\\u202e\"}");
        assert_eq!(printable_json("[1,\n2]"), "[1,\n2]");
    }

    #[test]
    fn names_cannot_control_the_terminal() {
        for (text, shown) in [
            ("a\u{1b}[2Jb", "a\\u{1b}[2Jb"),
            ("\r\u{7}\u{9b}", "\\u{d}\\u{7}\\u{9b}"),
            ("x\u{202e}y", "x\\u{202e}y"),
            ("one\n\ttwo ä中🙂", "one\n\ttwo ä中🙂"),
        ] {
            assert_eq!(printable(text), shown);
        }
    }
}
