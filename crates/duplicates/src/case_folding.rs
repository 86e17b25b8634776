//! Form in which letters of any case are compared: NFKC, full case folding, NFKC again.
//!
//! Full case folding of a character is its lowercase form, of that the uppercase form, of that the lowercase form. So
//! both forms of the Greek sigma are σ, and ß and ẞ are ss. This is the folding of Unicode (`CaseFolding.txt`, classes C
//! and F), but for Cherokee, whose folded letters are capitals there. The dotless ı stays as it is, as there.

use std::iter::once;

use unicode_normalization::{IsNormalized, UnicodeNormalization, is_nfkc_quick};

/// Returns a text in the form in which letters of any case are compared.
pub fn fold_case(text: &str) -> String {
    let mut folded = String::with_capacity(text.len());
    fold_case_into(text, &mut folded);
    folded
}

/// Replaces `folded` by a text in the form in which letters of any case are compared.
pub(crate) fn fold_case_into(text: &str, folded: &mut String) {
    folded.clear();
    if is_nfkc_quick(text.chars()) == IsNormalized::Yes {
        push_folded(text.chars(), folded);
    } else {
        push_folded(text.nfkc(), folded);
    }
    if is_nfkc_quick(folded.chars()) != IsNormalized::Yes {
        *folded = folded.nfkc().collect();
    }
}

fn push_folded(characters: impl Iterator<Item = char>, folded: &mut String) {
    for character in characters {
        if character == 'ı' || is_unspaced(character) {
            folded.push(character);
        } else {
            let lowercase = once(character).flat_map(char::to_lowercase);
            folded.extend(lowercase.flat_map(char::to_uppercase).flat_map(char::to_lowercase));
        }
    }
}

/// Whether a letter belongs to a script that puts no spaces between words: Han, kana, Thai, Lao, Myanmar, Khmer.
pub fn is_unspaced(character: char) -> bool {
    let is_in_range = matches!(character,
        '\u{0E00}'..='\u{0EFF}' | '\u{1000}'..='\u{109F}' | '\u{1780}'..='\u{17FF}'
        | '\u{3005}'..='\u{3007}' | '\u{3041}'..='\u{30FF}' | '\u{31F0}'..='\u{31FF}'
        | '\u{3400}'..='\u{4DBF}' | '\u{4E00}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}');
    is_in_range && character.is_alphanumeric()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_of_any_case_and_form_are_equal() {
        for (texts, expected) in [
            (["ΟΔΟΣ", "οδος", "οδοσ"], "οδοσ"),
            (["STRASSE", "Straße", "STRAẞE"], "strasse"),
            (["ﬁle", "FILE", "ＦＩＬＥ"], "file"),
            (["é", "e\u{301}", "E\u{301}"], "é"),
            (["ΐ", "Ϊ\u{301}", "ι\u{308}\u{301}"], "ΐ"),
            (["ᾳ", "ᾼ", "ΑΙ"], "αι"),
            (["İ", "I\u{307}", "i\u{307}"], "i\u{307}"),
            (["ſ", "S", "s"], "s"),
            (["Å", "\u{212b}", "a\u{30a}"], "å"),
            (["中文", "中文", "中文"], "中文"),
            (["ı", "ı", "ı"], "ı"),
        ] {
            assert_eq!(texts.map(fold_case), [expected; 3], "{texts:?}");
        }
    }

    /// The forms of every character that Unicode knows are equal, and folding a folded text changes nothing.
    #[test]
    fn every_character_equals_its_capital_and_its_small_letter() {
        for character in ('\0'..=char::MAX).filter(|&character| character != 'ı') {
            let folded = fold_case(&character.to_string());
            assert_eq!(fold_case(&folded), folded, "{character:?}");
            assert_eq!(fold_case(&character.to_lowercase().to_string()), folded, "small {character:?}");
            assert_eq!(fold_case(&character.to_uppercase().to_string()), folded, "capital {character:?}");
        }
    }
}
