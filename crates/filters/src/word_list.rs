//! Word lists: one word or phrase per line.

use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::Path;

use aho_corasick::{AhoCorasick, AhoCorasickKind, MatchKind};
use schemas::Problem;

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
    /// Whether a match must not be next to a letter or digit.
    pub(crate) whole_words: bool,
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
        let entries: Vec<String> =
            entries.map(|entry| if options.case_sensitive { entry.to_owned() } else { entry.to_lowercase() }).collect();
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
        let automaton = builder.build(&entries).map_err(|error| {
            Problem::new(key, format!("the list is too large: {error}")).hint("split it over several filters")
        })?;
        Ok(Self { automaton, options })
    }

    /// Counts the matches in a text, up to `most`.
    pub(crate) fn count(&self, text: &str, most: u64) -> u64 {
        if self.options.case_sensitive || text.is_ascii() {
            return self.count_exact(text, most);
        }
        self.count_exact(&text.to_lowercase(), most)
    }

    fn count_exact(&self, text: &str, most: u64) -> u64 {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        self.matches(text).take(most).count() as u64
    }

    /// Returns the first match in a text, in the case in which texts are compared.
    pub(crate) fn first(&self, text: &str) -> Option<String> {
        let lowercase = (!self.options.case_sensitive && !text.is_ascii()).then(|| text.to_lowercase());
        let text = lowercase.as_deref().unwrap_or(text);
        self.matches(text).next().map(|range| text[range].to_owned())
    }

    /// Returns the matches in a text, in the order of their ends.
    fn matches(&self, text: &str) -> impl Iterator<Item = Range<usize>> {
        let found = self.automaton.find_overlapping_iter(text).map(|found| found.start()..found.end());
        found.filter(move |range| !self.options.whole_words || is_whole(text, range.start, range.end))
    }
}

/// Whether no letter or digit is next to the range.
fn is_whole(text: &str, start: usize, end: usize) -> bool {
    let before = text[..start].chars().next_back();
    let after = text[end..].chars().next();
    !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
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
