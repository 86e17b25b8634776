//! Normalization: other bytes for the same text.
//!
//! # What
//! Unicode normal forms, control characters, blanks, line ends and blank lines. By default nothing is changed.
//!
//! # Why
//! Composed and decomposed letters, wide letters and repeated blanks become different tokens.
//!
//! # Definition
//! The steps are applied in this order. Each is idempotent, and so are all together.
//! 1. `unicode`: the normal form of the whole text.
//! 2. `remove_control`: removes control characters (category `Cc`) except tab and line feed, and U+FEFF.
//! 3. `collapse_blanks`: replaces runs of blanks (tab and category `Zs`) by one space.
//! 4. `trim_lines`: removes blanks at the ends of each line.
//! 5. `max_blank_lines`: keeps at most that many blank lines in a row, and none at the ends of the text.
//!
//! # Reference
//! Unicode Standard Annex 15, "Unicode Normalization Forms".

use std::borrow::Cow;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick, is_nfkc_quick};

/// Normalization of texts before filters and tokenizer. See the keys.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Normalization {
    /// Unicode normal form.
    pub unicode: UnicodeForm,
    /// Whether control characters other than tab and line feed are removed.
    pub remove_control: bool,
    /// Whether runs of blanks become one space.
    pub collapse_blanks: bool,
    /// Whether blanks at the ends of lines are removed.
    pub trim_lines: bool,
    /// Maximum number of blank lines in a row. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_blank_lines: Option<u32>,
}

/// Unicode normal form.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UnicodeForm {
    /// Text as it is.
    #[default]
    None,
    /// Composed: a letter and its accent become one character.
    Nfc,
    /// Compatible and composed: wide letters, ligatures and superscripts become plain ones, too.
    Nfkc,
}

impl Normalization {
    /// Whether nothing is changed.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Returns the normalized text, borrowed if nothing changes.
    #[must_use]
    pub fn apply<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let composed = self.unicode.apply(text);
        if !(self.remove_control || self.collapse_blanks || self.trim_lines || self.max_blank_lines.is_some()) {
            return composed;
        }
        let spaced = self.space(&composed);
        if spaced == text { Cow::Borrowed(text) } else { Cow::Owned(spaced) }
    }

    /// Applies the steps after the normal form.
    fn space(&self, text: &str) -> String {
        let mut spaced = String::with_capacity(text.len());
        let mut blank_lines = 0;
        for line in text.split_inclusive('\n') {
            let start = spaced.len();
            self.push_line(line.strip_suffix('\n').unwrap_or(line), &mut spaced);
            let is_blank = spaced[start..].trim().is_empty();
            if let (true, Some(most)) = (is_blank, self.max_blank_lines) {
                blank_lines += 1;
                if start == 0 || blank_lines > most {
                    spaced.truncate(start);
                    continue;
                }
            }
            if !is_blank {
                blank_lines = 0;
            }
            if line.ends_with('\n') {
                spaced.push('\n');
            }
        }
        if self.max_blank_lines.is_some() {
            remove_last_blank_lines(&mut spaced);
        }
        spaced
    }

    fn push_line(&self, line: &str, spaced: &mut String) {
        let start = spaced.len();
        let mut was_blank = false;
        for character in line.chars() {
            if self.remove_control && is_control(character) {
                continue;
            }
            let is_blank = self.collapse_blanks && is_blank(character);
            if !is_blank {
                spaced.push(character);
            } else if !was_blank {
                spaced.push(' ');
            }
            was_blank = is_blank;
        }
        if self.trim_lines {
            let line = &spaced[start..];
            let kept = line.trim_end_matches(is_blank);
            let blanks = kept.len() - kept.trim_start_matches(is_blank).len();
            spaced.truncate(start + kept.len());
            spaced.replace_range(start..start + blanks, "");
        }
    }
}

/// Removes blank lines at the end, and keeps the line feed of the last line.
fn remove_last_blank_lines(text: &mut String) {
    let kept = text.trim_end().len();
    let rest = text[kept..].find('\n').map_or(text.len(), |feed| kept + feed + 1);
    text.truncate(rest);
}

fn is_control(character: char) -> bool {
    (character.is_control() && !matches!(character, '\t' | '\n')) || character == '\u{feff}'
}

/// Whether the character is a tab or a space of category `Zs`.
fn is_blank(character: char) -> bool {
    matches!(
        character,
        ' ' | '\t' | '\u{a0}' | '\u{1680}' | '\u{2000}'..='\u{200a}' | '\u{202f}' | '\u{205f}' | '\u{3000}'
    )
}

impl UnicodeForm {
    fn apply(self, text: &str) -> Cow<'_, str> {
        // ASCII is normal in every form, and most text is normal already.
        if self == Self::None || text.is_ascii() {
            return Cow::Borrowed(text);
        }
        let (is_normal, normal): (_, fn(&str) -> String) = match self {
            Self::Nfkc => (is_nfkc_quick(text.chars()), |text| text.nfkc().collect()),
            _ => (is_nfc_quick(text.chars()), |text| text.nfc().collect()),
        };
        if is_normal == IsNormalized::Yes {
            return Cow::Borrowed(text);
        }
        // The quick check is in doubt about every text with combining characters.
        let normal = normal(text);
        if normal == text { Cow::Borrowed(text) } else { Cow::Owned(normal) }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(unicode: UnicodeForm, max_blank_lines: u32) -> Normalization {
        let max_blank_lines = Some(max_blank_lines);
        Normalization { unicode, remove_control: true, collapse_blanks: true, trim_lines: true, max_blank_lines }
    }

    #[test]
    fn each_step_does_what_it_names() {
        let none = Normalization::default();
        assert!(none.is_none());
        let text = "\n e\u{301} \t ﬁ\u{7}\u{feff}Ａ \n\n\n\nx\u{a0}\n\n";
        assert!(matches!(none.apply(text), Cow::Borrowed(same) if same == text));
        let cases = [
            (
                Normalization { unicode: UnicodeForm::Nfc, ..none.clone() },
                "\n é \t ﬁ\u{7}\u{feff}Ａ \n\n\n\nx\u{a0}\n\n",
            ),
            (Normalization { unicode: UnicodeForm::Nfkc, ..none.clone() }, "\n é \t fi\u{7}\u{feff}A \n\n\n\nx \n\n"),
            (Normalization { remove_control: true, ..none.clone() }, "\n e\u{301} \t ﬁＡ \n\n\n\nx\u{a0}\n\n"),
            (Normalization { collapse_blanks: true, ..none.clone() }, "\n e\u{301} ﬁ\u{7}\u{feff}Ａ \n\n\n\nx \n\n"),
            (Normalization { trim_lines: true, ..none.clone() }, "\ne\u{301} \t ﬁ\u{7}\u{feff}Ａ\n\n\n\nx\n\n"),
            (Normalization { max_blank_lines: Some(1), ..none.clone() }, " e\u{301} \t ﬁ\u{7}\u{feff}Ａ \n\nx\u{a0}\n"),
            (all(UnicodeForm::Nfkc, 0), "é fiA\nx\n"),
        ];
        for (normalization, expected) in cases {
            assert_eq!(normalization.apply(text), expected, "{normalization:?}");
        }
        assert!(matches!(all(UnicodeForm::Nfkc, 1).apply("plain text\n\nof two lines"), Cow::Borrowed(_)));
        assert_eq!(all(UnicodeForm::None, 0).apply(" \n\u{1}\n"), "");
        let doubtful = Normalization { unicode: UnicodeForm::Nfc, ..Normalization::default() };
        assert!(matches!(doubtful.apply("x\u{301}"), Cow::Borrowed(_)), "normal, although it has a combining accent");
    }

    proptest! {
        #[test]
        fn a_normalized_text_stays_as_it_is(text in "([a \t\n\u{a0}\u{7}\u{feff}e\u{301}ﬁＡ中\u{3000}]|\\PC){0,40}", most in 0_u32..3, bits in 0_u8..16) {
            let normalization = Normalization {
                unicode: [UnicodeForm::None, UnicodeForm::Nfc, UnicodeForm::Nfkc][usize::from(bits % 3)],
                remove_control: bits & 1 > 0,
                collapse_blanks: bits & 2 > 0,
                trim_lines: bits & 4 > 0,
                max_blank_lines: (bits & 8 > 0).then_some(most),
            };
            let once = normalization.apply(&text).into_owned();
            prop_assert_eq!(&normalization.apply(&once), &once);
        }
    }
}
