//! Sentence boundaries of a text.
//!
//! # What
//! The byte offsets at which sentences begin, for `packing = "sentences"`.
//!
//! # Why
//! Segments and pairs begin and end at sentence boundaries. The corpus has no reliable lines, and a trained splitter
//! would be part of the format.
//!
//! # Definition
//! The sentence boundaries of Unicode Standard Annex 29 (Unicode 16, section 5), applied to the text without its line
//! wraps. White space with a single line break counts as a blank. White space with two ends a paragraph, and so a
//! sentence. A boundary is before the white space, so that the blank belongs to the next sentence, as in byte-level
//! tokens. Then, in this order:
//!
//! 1. A piece without a letter (a list's `1.`, a rule of `* * *`) joins the next piece.
//! 2. The end of a paragraph is always a boundary.
//! 3. Between words without white space, only a wide stop (`。！？｡`) ends a sentence: `end?next` is an address.
//! 4. A sentence continues before a lower-case letter: `"Stop!" he said.` The same holds for speech in CJK quotation
//!    marks before hiragana: `「行こう。」と言った。`
//! 5. Abbreviations have three classes. One that always precedes a word (`Mr.`, `e.g.`, the initial of a name) is no
//!    boundary. One that precedes numbers (`No.`, `p.`) is no boundary before a digit. One that may end a sentence
//!    (`U.S.`, `Inc.`) is a boundary only before a word that mostly begins sentences. Kiss and Strunk, *Unsupervised
//!    Multilingual Sentence Boundary Detection*, Computational Linguistics 32(4), 2006, section 4.1.2, use such words
//!    too.
//!
//! The abbreviations are English; the other rules hold for any script that the annex covers. Scripts without stops
//! (Thai) are not supported.
//!
//! # Reference
//! Unicode Standard Annex 29; Kiss and Strunk 2006.

use std::mem::take;

use memchr::{memchr_iter, memchr2};
use unicode_segmentation::UnicodeSegmentation;

/// Sentence splitter that reuses its memory between texts.
#[derive(Debug, Default)]
pub(crate) struct Sentences {
    unwrapped: String,
    starts: Vec<usize>,
}

/// Maximum memory kept from a longer text, for each buffer.
const KEPT_BYTES: usize = 1 << 20;

impl Sentences {
    /// Returns the byte offsets at which sentences begin, ascending, without that of the first.
    pub(crate) fn starts(&mut self, text: &str) -> &[usize] {
        self.starts.clear();
        find(unwrap_lines(text, &mut self.unwrapped), &mut self.starts);
        &self.starts
    }

    /// Releases the memory of a long document.
    pub(crate) fn release(&mut self) {
        self.unwrapped.clear();
        self.unwrapped.shrink_to(KEPT_BYTES);
        self.starts.clear();
        self.starts.shrink_to(KEPT_BYTES / size_of::<usize>());
    }
}

/// Appends the starts of sentences.
fn find(text: &str, starts: &mut Vec<usize>) {
    // Linear: no piece is scanned twice, even if a table of a million numbers is one sentence.
    let mut begin = 0;
    let mut has_letter = false;
    for (at, piece) in text.split_sentence_bound_indices() {
        has_letter |= piece.chars().any(char::is_alphabetic);
        let end = at + piece.trim_end().len();
        if has_letter && end > at && is_bound(&text[begin..end], &text[end..]) {
            starts.push(end);
            (begin, has_letter) = (end, false);
        }
    }
}

/// Returns the text with blanks for the line breaks within paragraphs: of the same length, character by character.
fn unwrap_lines<'a>(text: &'a str, room: &'a mut String) -> &'a str {
    if memchr2(b'\n', b'\r', text.as_bytes()).is_none() {
        return text;
    }
    let mut bytes = take(room).into_bytes();
    bytes.clear();
    bytes.extend_from_slice(text.as_bytes());
    for run in bytes.chunk_by_mut(|a, b| a.is_ascii_whitespace() == b.is_ascii_whitespace()) {
        let feeds = memchr_iter(b'\n', run).count();
        let returns = memchr_iter(b'\r', run).count();
        if feeds.max(returns) == 1 {
            run.iter_mut().filter(|byte| matches!(**byte, b'\n' | b'\r')).for_each(|byte| *byte = b' ');
        }
    }
    *room = String::from_utf8(bytes).expect("blanks for other ASCII characters");
    room
}

/// Returns true if a boundary of the annex after `sentence` is valid. `rest` begins with the white space between.
fn is_bound(sentence: &str, rest: &str) -> bool {
    let next = rest.trim_start();
    let gap = &rest[..rest.len() - next.len()];
    if next.is_empty() {
        return false;
    }
    if gap.contains(is_line_break) {
        return true;
    }
    if continues(sentence, gap, next) {
        return false;
    }
    match sentence.strip_suffix('.').map(|sentence| Abbreviation::parse(last_word(sentence), sentence)) {
        None | Some(None) => true,
        Some(Some(Abbreviation::Open)) => false,
        Some(Some(Abbreviation::Number)) => !next.starts_with(|first: char| first.is_numeric()),
        Some(Some(Abbreviation::Either)) => begins_sentences(next),
    }
}

fn is_line_break(character: char) -> bool {
    matches!(character, '\n' | '\r' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

/// Returns true if the form of the next text shows that the sentence continues.
fn continues(sentence: &str, gap: &str, next: &str) -> bool {
    let stop = sentence.trim_end_matches(is_closing).chars().next_back();
    let wide = stop.is_some_and(|stop| matches!(stop, '。' | '！' | '？' | '｡' | '．'));
    let first = next.trim_start_matches(is_closing).chars().next();
    let hiragana = |character: char| ('\u{3041}'..='\u{309f}').contains(&character);
    (gap.is_empty() && !wide)
        || first.is_some_and(char::is_lowercase)
        || (gap.is_empty() && sentence.ends_with(['」', '』']) && first.is_some_and(hiragana))
}

/// Returns true for quotation marks and brackets, including opening ones: straight quotes are ambiguous.
fn is_closing(character: char) -> bool {
    matches!(
        character,
        '"' | '\'' | '“' | '”' | '‘' | '’' | '«' | '»' | ')' | ']' | '}' | '」' | '』' | '）' | '】' | '》'
    )
}

/// Returns the last run of letters, digits and inner stops: `U.S` of `in the U.S`.
fn last_word(sentence: &str) -> &str {
    let is_part = |character: char| character.is_alphanumeric() || character == '.';
    let begin = sentence.char_indices().rev().take_while(|&(_, character)| is_part(character)).last();
    &sentence[begin.map_or(sentence.len(), |(begin, _)| begin)..]
}

/// Class of an abbreviation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Abbreviation {
    /// The sentence continues.
    Open,
    /// It continues if a number follows.
    Number,
    /// It may end here.
    Either,
}

impl Abbreviation {
    /// Returns the class of `word`, the last word of `sentence`; both without the stop.
    fn parse(word: &str, sentence: &str) -> Option<Self> {
        if OPEN.contains(&word) || is_initial(word, sentence) {
            Some(Self::Open)
        } else if NUMBERED.contains(&word) {
            Some(Self::Number)
        } else if EITHER.contains(&word) || is_dotted(word) {
            Some(Self::Either)
        } else {
            None
        }
    }
}

/// Titles, and words that introduce another word.
const OPEN: [&str; 48] = [
    "Mr", "Mrs", "Ms", "Messrs", "Mme", "Mlle", "Dr", "Prof", "Rev", "Hon", "Fr", "Sr", "St", "Mt", "Ft", "Gen", "Col",
    "Maj", "Capt", "Cpt", "Lt", "Sgt", "Cpl", "Adm", "Cmdr", "Gov", "Sen", "Rep", "Pres", "Supt", "Det", "Insp", "Ald",
    "Atty", "e.g", "E.g", "i.e", "I.e", "cf", "Cf", "viz", "vs", "ca", "approx", "al", "v", "resp", "incl",
];

/// Abbreviations before numbers.
const NUMBERED: [&str; 28] = [
    "No", "no", "Nos", "nos", "Vol", "vol", "Vols", "vols", "Fig", "fig", "Figs", "figs", "Eq", "eq", "Sec", "sec",
    "Ch", "ch", "Art", "art", "p", "pp", "Op", "op", "Ex", "Jan", "Feb", "Dec",
];

/// Abbreviations within sentences and at their ends.
const EITHER: [&str; 32] = [
    "etc", "Inc", "Ltd", "Co", "Corp", "Bros", "Jr", "Esq", "Ph.D", "Ave", "Blvd", "Rd", "Aug", "Sept", "Oct", "Nov",
    "Mar", "Apr", "Univ", "Dept", "Assn", "Gov't", "dept", "est", "ed", "eds", "tr", "trans", "min", "max", "ft", "lb",
];

/// Words that mostly begin sentences when capitalized.
const BEGINNINGS: [&str; 60] = [
    "A", "After", "Although", "An", "And", "As", "At", "Because", "Before", "Both", "But", "By", "Each", "Even", "For",
    "From", "He", "Her", "Here", "His", "How", "However", "I", "If", "In", "It", "Its", "Many", "Most", "My", "No",
    "Not", "Now", "Of", "On", "One", "Our", "Several", "She", "Since", "So", "Some", "Such", "That", "The", "Their",
    "Then", "There", "These", "They", "This", "Those", "To", "We", "What", "When", "Where", "While", "Why", "You",
];

/// Returns true for an initial: one capital letter, `I` only within a name (`Henry I. Miller` is rarer than `It was
/// I.`).
fn is_initial(word: &str, sentence: &str) -> bool {
    let mut letters = word.chars();
    match (letters.next(), letters.next()) {
        (Some('I'), None) => {
            let before = sentence[..sentence.len() - 1].trim_end();
            before.ends_with('.') && last_word(&before[..before.len() - 1]).chars().count() == 1
        }
        (Some(letter), None) => letter.is_uppercase(),
        _ => false,
    }
}

/// Returns true for letters with stops between: `U.S`, `a.m`, `J.R.R`.
fn is_dotted(word: &str) -> bool {
    word.contains('.') && word.split('.').all(|part| part.chars().count() == 1 && part.chars().all(char::is_alphabetic))
}

fn begins_sentences(next: &str) -> bool {
    let next = next.trim_start_matches(|character: char| !character.is_alphanumeric());
    BEGINNINGS.contains(&next.split(|character: char| !character.is_alphanumeric()).next().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn sentences(text: &str) -> Vec<&str> {
        let mut found = Sentences::default();
        let starts = found.starts(text);
        let bounds = [&[0][..], starts, &[text.len()]].concat();
        bounds.windows(2).map(|pair| text[pair[0]..pair[1]].trim()).collect()
    }

    /// Each case is a text whose sentences are marked by `|`.
    const CASES: [&str; 46] = [
        "",
        "One.",
        "No stop at all",
        "One. |Two! |Three? |Four",
        "He came...\u{20}and went. |Well... |I think so.",
        "Three blanks.   |And a tab.\t|Done.",
        // Abbreviations.
        "Mr. Smith met Mrs. Jones and Dr. Who. |They talked.",
        "Prof. Ada Lovelace, e.g. Paris, i.e. France, cf. Rome vs. Greece. |Done.",
        "J. R. R. Tolkien wrote. |So did J.R.R. Tolkien and C. S. Lewis.",
        "It was I. |He left.",
        "Mr. E. I. Smith left.",
        "He lives in the U.S. |She does not. |The U.S. Army came.",
        "It was 5 p.m. |The bell rang at 6 a.m. on Monday.",
        "Acme Inc. Paris and Acme Inc. |The end.",
        "See No. 5 on p. 7. |No. |I will not.",
        "Smith et al. 1999 say so. |Others, etc. |They agree.",
        "On Jan. 5 it rained. |It was 3.14 or .5 then. |Version 2.0.1 came.",
        "John Smith Jr. Esq. came. |He sat.",
        // Quotation marks and brackets.
        "\"Stop!\" he said. |\"Why?\" |\"Go.\" |She went.",
        "“Stop!” he said. |“Why?” |She went. |‘Now.’ |Yes.",
        "(It ended.) |Then it began (again?) and ended.",
        "He said, \"I came. |I saw.\" |Then he left.",
        "“What?” “he” asked.",
        // Stops within words.
        "See example.com/a?Q=1!B and node.js. |Ask U.S.A. today.",
        "Yahoo!Inc and end?Next are one. |This is two.",
        "Really?! |Yes!! |No.",
        // Lines.
        "A line\nwrapped. |Another\r\nline. |Last",
        "A heading\n\n|A paragraph\nof lines.\n\n|\"Quoted\" one.",
        "Mr.\nSmith sat. |He stood.",
        "A title by Mr.\n\n|A text.",
        "Two\r\n\r\n|Paragraphs",
        "Old\rMac. |Lines.\r\r|Here",
        "Separated\u{2029}|by a sign.",
        "Trailing blanks. \n\n ",
        "\n\nLeading ones. |Here.",
        // Without letters.
        "1. First. |2. Second.",
        "* * *\n\nThen. |And so ... it went.",
        "In 1999. |He was 12. |Then 13.",
        // Other scripts.
        "今天下雨。|我们不去！|你呢？|好。",
        "他说：“走吧。”|他走了。",
        "「行こう。」と言った。|次の日。",
        "「行こう。」|彼は言った。",
        "Он пришёл. |Она ушла? |Да! |Нет.",
        "वह आया। |वह गया।",
        "Cette fin. |Encore. |«Quoi?» |Rien.",
        "¿Qué? |¡No! |Sí.",
    ];

    #[test]
    fn sentences_are_separated() {
        for case in CASES {
            let text = case.replace('|', "");
            let expected: Vec<&str> = case.split('|').map(str::trim).collect();
            assert_eq!(sentences(&text), expected, "{case:?}");
        }
    }

    #[test]
    fn odd_texts_take_no_longer_than_others() {
        for odd in ["1. ", "\n", "! ", "\"", "a! ", "\n\n1"] {
            assert_eq!(Sentences::default().starts(&odd.repeat(200_000)), [0; 0], "{odd:?}");
        }
    }

    proptest! {
        #[test]
        fn starts_lie_between_characters_before_blanks(
            words in prop::collection::vec(prop::sample::select(vec![
                " ", "\n", "\n\n", "\r\n", ".", "!", "?", "\"", "”", "。", "」", "a", "The", "Mr", "U.S", "1", "é", "中", "と", "…",
            ]), 0..30),
        ) {
            let text = words.concat();
            let mut found = Sentences::default();
            let starts = found.starts(&text);
            prop_assert!(starts.is_sorted_by(|a, b| a < b) && !starts.contains(&0), "{:?} {:?}", text, starts);
            for &start in starts {
                prop_assert!(text.is_char_boundary(start) && !text[..start].ends_with(char::is_whitespace));
            }
            let letterless = |sentence: &&str| !sentence.chars().any(char::is_alphabetic);
            let found = sentences(&text);
            prop_assert!(!found[..found.len() - 1].iter().any(letterless), "{:?}", found);
        }
    }
}
