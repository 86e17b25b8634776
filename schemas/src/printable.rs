//! Foreign names as they may be printed.

use std::borrow::Cow;

/// The text without what a terminal obeys: control characters but line feeds and tabs, and those that turn the direction
/// of writing, are escaped as in `\u{1b}`. For names of files, keys, tokens and whatever else somebody else wrote.
#[must_use]
pub fn printable(text: &str) -> Cow<'_, str> {
    if !text.contains(is_obeyed) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        if is_obeyed(character) {
            shown.extend(character.escape_unicode());
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
    fn a_terminal_is_told_nothing_by_a_name() {
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
