//! Word lists: one word or phrase per line.

use std::borrow::Cow;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use duplicates::{fold_case, is_unspaced};
use schemas::Problem;
use unicode_normalization::char::is_combining_mark;
use unicode_normalization::{IsNormalized, UnicodeNormalization as _, is_nfc_quick};

use crate::text::is_of_word;

/// Maximum size of a list. Its automaton needs about 20 times as much.
const MAX_BYTES: u64 = 16 << 20;

/// Maximum size of an entry. The automaton of a long one takes minutes to build.
const MAX_ENTRY_BYTES: usize = 1000;

/// Reads a list.
///
/// # Errors
/// If the file cannot be read, or is longer than [`MAX_BYTES`].
pub(crate) fn read(key: &str, path: &Path) -> Result<Vec<u8>, Problem> {
    let place = path.display();
    let mut bytes = Vec::new();
    // A pipe would be waited for.
    if path.metadata().is_ok_and(|metadata| !metadata.is_file()) {
        return Err(
            Problem::new(key, format!("{place}: not a file")).hint("name a file with one word or phrase per line")
        );
    }
    let read = File::open(path).and_then(|file| file.take(MAX_BYTES + 1).read_to_end(&mut bytes));
    if let Err(error) = read {
        let hint = "name a file with one word or phrase per line";
        return Err(Problem::new(key, format!("{place}: {error}")).hint(hint));
    }
    if bytes.len() as u64 > MAX_BYTES {
        let message = format!("{place}: it has more than {MAX_BYTES} bytes");
        return Err(Problem::new(key, message).hint("split it over several filters"));
    }
    Ok(bytes)
}

/// Matcher of all entries of a list.
pub(crate) struct WordList {
    automaton: AhoCorasick,
    options: MatchOptions,
}

/// Options of a match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MatchOptions {
    /// Whether case matters.
    pub(crate) case_sensitive: bool,
    /// Whether a match must be whole words.
    pub(crate) whole_words: bool,
}

impl MatchOptions {
    /// Returns a text in the form in which it is compared. The automaton itself ignores the case of ASCII.
    fn form_of(self, text: &str) -> Cow<'_, str> {
        if text.is_ascii() || (self.case_sensitive && is_nfc_quick(text.chars()) == IsNormalized::Yes) {
            Cow::Borrowed(text)
        } else if self.case_sensitive {
            Cow::Owned(text.nfc().collect())
        } else {
            Cow::Owned(fold_case(text))
        }
    }
}

impl WordList {
    /// Parses a list. Blank lines are skipped, and white space at the ends of lines is removed.
    ///
    /// # Errors
    /// If the list is not UTF-8, has no entry, or is too large for an automaton.
    pub(crate) fn parse(key: &str, bytes: &[u8], options: MatchOptions) -> Result<Self, Problem> {
        let text = str::from_utf8(bytes).map_err(|error| {
            let line = 1 + memchr::memchr_iter(b'\n', &bytes[..error.valid_up_to()]).count();
            Problem::new(key, format!("line {line} of the list is not UTF-8")).hint("convert the file to UTF-8")
        })?;
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        let entries = text.lines().map(str::trim).filter(|entry| !entry.is_empty());
        let entries: Vec<Cow<'_, str>> = entries.map(|entry| options.form_of(entry)).collect();
        if let Some(line) = text.lines().position(|line| line.trim().len() > MAX_ENTRY_BYTES) {
            let message = format!("line {} of the list has more than {MAX_ENTRY_BYTES} bytes", line + 1);
            return Err(Problem::new(key, message).hint("write one word or phrase per line"));
        }
        if entries.is_empty() {
            return Err(Problem::new(key, "the list has no entry").hint("write one word or phrase per line"));
        }
        let mut builder = AhoCorasick::builder();
        builder.match_kind(MatchKind::Standard).ascii_case_insensitive(!options.case_sensitive);
        // A DFA of a long list needs too much memory.
        builder.kind((entries.len() > 1000).then_some(AhoCorasickKind::ContiguousNFA));
        let automaton = builder.build(entries.iter().map(|entry| entry.as_bytes())).map_err(|error| {
            Problem::new(key, format!("the list is too large: {error}")).hint("split it over several filters")
        })?;
        Ok(Self { automaton, options })
    }

    /// Counts the matches in a text, up to `most`.
    pub(crate) fn count(&self, text: &str, most: u64) -> u64 {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.matches(&self.options.form_of(text)).take(most).count() as u64
    }

    /// Returns the first match in a text, in the form in which texts are compared.
    pub(crate) fn first(&self, text: &str) -> Option<String> {
        let text = self.options.form_of(text);
        self.matches(&text).next().map(|range| text[range].to_owned())
    }

    /// Returns the matches in a text, in the order of their ends.
    fn matches(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        let found = self.automaton.find_overlapping_iter(text).map(|found| found.start()..found.end());
        found.filter(move |range| !self.options.whole_words || is_whole(text, range.clone()))
    }
}

/// Whether the range begins and ends where words do. A letter of a script without spaces begins and ends a word.
fn is_whole(text: &str, range: Range<usize>) -> bool {
    let letter = |character: &char| !is_combining_mark(*character);
    let before = text[..range.start].chars().rfind(letter);
    let after = text[range.end..].chars().next();
    let first = text[range.clone()].chars().next();
    let last = text[range].chars().rfind(letter);
    let is_joined = |pair: (char, char)| is_of_word(pair.1) && !is_unspaced(pair.0) && !is_unspaced(pair.1);
    let is_cut = after.is_some_and(is_combining_mark);
    !is_cut && !first.zip(before).is_some_and(is_joined) && !last.zip(after).is_some_and(is_joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str, case_sensitive: bool, whole_words: bool) -> WordList {
        WordList::parse("file", text.as_bytes(), MatchOptions { case_sensitive, whole_words }).expect("a list")
    }

    #[test]
    fn whole_words_are_counted_in_any_case() {
        let words = list("\u{feff}foo\r\n\nfoo bar\nÄrger\n", false, true);
        let cases = [("a FOO.", 1), ("food", 0), ("foo bars", 1), ("Foo Bar", 2), ("ÄRGER, ärger", 2), ("", 0)];
        for (text, expected) in cases {
            assert_eq!(words.count(text, 9), expected, "{text}");
        }
        assert_eq!(words.count(&"foo ".repeat(9), 3), 3, "counting ends at the limit");
        assert_eq!(words.first("food, a FOO, foo bar").as_deref(), Some("FOO"));
        assert_eq!((words.first("ÄRGER foo").as_deref(), words.first("food")), (Some("ärger"), None));
        assert_eq!(list("foo", true, true).count("FOO foo", 9), 1);
        assert_eq!(list("中文", false, false).count("我学中文。", 9), 1);
    }

    #[test]
    fn words_of_scripts_without_spaces_are_found_within_text() {
        let words = list("中文\nカジノ\nคาสิโน\nspam\nไม\n", false, true);
        for (text, expected) in [
            ("我学中文。", 1),
            ("オンラインカジノで遊ぶ", 1),
            ("เว็บคาสิโนออนไลน์", 1),
            ("我收到spam了", 1),
            ("中文spam", 2),
            ("ｶｼﾞﾉ", 1),
            ("spams", 0),
            // A mark makes it another word.
            ("ไม่", 0),
        ] {
            assert_eq!(words.count(text, 9), expected, "{text}");
        }
    }

    #[test]
    fn every_form_of_a_word_is_found() {
        let words = list("ΣΟΦΟΣ\nstraße\nﬁle\nA\u{308}rger\n", false, true);
        for text in ["σοφος", "(Σοφοσ)", "STRASSE", "STRAẞE", "File", "ＦＩＬＥ", "ärger"] {
            assert_eq!(words.count(text, 9), 1, "{text}");
        }
        let exact = list("é", true, true);
        assert_eq!((exact.count("e\u{301}", 9), exact.count("É", 9), exact.count("e", 9)), (1, 0, 0));
    }

    #[test]
    fn an_invalid_list_is_refused_with_its_line() {
        let options = MatchOptions { case_sensitive: false, whole_words: true };
        let error = |bytes: &[u8]| WordList::parse("file", bytes, options).err().expect("invalid").to_string();
        assert!(error(b"a\nb\xff\n").contains("line 2"), "{}", error(b"a\nb\xff\n"));
        assert!(error(b"\n \n").contains("no entry"));
        assert!(error(&[b"a\n".as_slice(), &[b'x'; 1001]].concat()).contains("line 2"));
        let folder = read("file", Path::new("/")).expect_err("a folder").to_string();
        assert!(folder.contains("not a file"), "{folder}");
        let error = read("file", Path::new("/nothing/here")).expect_err("absent").to_string();
        assert!(error.contains("`file`: /nothing/here") && error.contains("one word or phrase per line"), "{error}");
    }
}
