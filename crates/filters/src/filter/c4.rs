//! Rules of C4.
//!
//! # What
//! Drops lines that are not sentences, and removes documents that are code, placeholders, offensive or too short.
//!
//! # Why
//! Menus, buttons and notices of web pages are lines without a final punctuation mark.
//!
//! # Definition
//! Each line is trimmed. Citation marks (`[1]`, `[]`, `[edit]`, `[citation needed]`) are cut out. A line is dropped if
//! - it has a word of more than `max_word_characters`;
//! - it does not end with one of `end_marks`, or it ends with `...`;
//! - it has fewer than `min_words_per_line` words;
//! - it contains `javascript`, or one of six phrases about cookies, privacy policies and terms of use.
//!
//! Documents are removed, in this order: `lorem_ipsum` and `curly_bracket`, if a line contains them that was not dropped by
//! the first three rules; `too_few_sentences`, in the lines that are left; `bad_words`, if the lines that are left contain
//! an entry of the file as whole words in any case, as [`blocklist`](super::blocklist) defines them; `no_lines_left`. A
//! sentence ends with a run of `.`, `!`, `?` or their equivalents, before white space or the end of the line.
//!
//! # Reference
//! Raffel et al. 2020, "Exploring the Limits of Transfer Learning with a Unified Text-to-Text Transformer", section 2.2.
//! The phrases, the order of the rules and the limit of word lengths are those of its code. The code finds sentences with
//! a trained model, and the paper removes duplicate spans of three sentences, which is not a rule about one document.

use std::path::{Path, PathBuf};

use aho_corasick::AhoCorasick;
use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::reason::{RemovalReason, fewer};
use super::{Filter, FilterVerdict, TextFilter};
use crate::text::sentences;
use crate::word_list::{MatchOptions, WordList};

/// Key of the list of bad words.
const BAD_WORDS: &str = "bad_words_file";

/// Phrases of lines that are dropped, and `lorem ipsum`, which removes the document.
const PHRASES: [&str; 8] = [
    "lorem ipsum",
    "javascript",
    "terms of use",
    "privacy policy",
    "cookie policy",
    "uses cookies",
    "use of cookies",
    "use cookies",
];

/// Rules of C4. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "each is a key of the configuration")]
pub struct C4 {
    /// Endings of lines that are kept. An empty list keeps all lines, as FineWeb does.
    pub end_marks: Vec<char>,
    /// Minimum number of words of a line.
    pub min_words_per_line: u64,
    /// Maximum number of characters of a word.
    pub max_word_characters: u64,
    /// Minimum number of sentences in the lines that are left. 0 disables the rule.
    pub min_sentences: u64,
    /// Whether citation marks are cut out.
    pub remove_citations: bool,
    /// Whether lines about JavaScript are dropped.
    pub drop_javascript_lines: bool,
    /// Whether lines about cookies, privacy policies and terms of use are dropped.
    pub drop_policy_lines: bool,
    /// Whether documents with `lorem ipsum` are removed.
    pub remove_lorem_ipsum: bool,
    /// Whether documents with `{` are removed.
    pub remove_curly_bracket: bool,
    /// File of bad words, one word or phrase per line. Default: no such rule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bad_words_file: Option<PathBuf>,
}

impl Default for C4 {
    fn default() -> Self {
        Self {
            end_marks: vec!['.', '!', '?', '"', '”'],
            min_words_per_line: 3,
            max_word_characters: 1000,
            min_sentences: 5,
            remove_citations: true,
            drop_javascript_lines: true,
            drop_policy_lines: true,
            remove_lorem_ipsum: true,
            remove_curly_bracket: true,
            bad_words_file: None,
        }
    }
}

impl Filter for C4 {
    fn problems(&self) -> Vec<Problem> {
        let is_zero = self.max_word_characters == 0;
        is_zero
            .then(|| Problem::new("max_word_characters", "0 is too few").hint("give 1 or more"))
            .into_iter()
            .collect()
    }

    fn file(&self) -> Option<(&'static str, &Path)> {
        self.bad_words_file.as_deref().map(|path| (BAD_WORDS, path))
    }

    fn build(&self, file: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        let options = MatchOptions { case_sensitive: false, whole_words: true };
        let bad_words = file.map(|bytes| WordList::parse(BAD_WORDS, bytes, options)).transpose()?;
        let phrases = AhoCorasick::builder().ascii_case_insensitive(true).build(PHRASES);
        let phrases = phrases.expect("eight short phrases");
        Ok(Box::new(Rules { settings: self.clone(), bad_words, phrases }))
    }
}

struct Rules {
    settings: C4,
    bad_words: Option<WordList>,
    phrases: AhoCorasick,
}

/// Decision about a line.
enum LineVerdict {
    Keep,
    Drop,
    RemoveDocument(&'static str),
}

impl TextFilter for Rules {
    fn apply(&self, text: &str) -> FilterVerdict {
        let mut kept = String::with_capacity(text.len());
        let mut count = 0;
        for line in text.split('\n') {
            let start = kept.len();
            let begin = if start == 0 { 0 } else { start + 1 };
            if start > 0 {
                kept.push('\n');
            }
            self.push(line.trim(), &mut kept);
            match self.line_verdict(&kept[begin..]) {
                LineVerdict::Keep => count += self.sentences(&kept[begin..]),
                LineVerdict::Drop => kept.truncate(start),
                LineVerdict::RemoveDocument(rule) => return FilterVerdict::remove(rule),
            }
        }
        if let Some(reason) = fewer("too_few_sentences", count, self.settings.min_sentences) {
            return FilterVerdict::Remove(reason);
        }
        if let Some(entry) = self.bad_words.as_ref().and_then(|words| words.first(&kept)) {
            return FilterVerdict::Remove(RemovalReason::of_rule("bad_words").with_found(&entry));
        }
        if kept.is_empty() {
            return FilterVerdict::remove("no_lines_left");
        }
        if kept == text { FilterVerdict::Keep } else { FilterVerdict::Change(kept) }
    }
}

impl Rules {
    /// Counts the sentences of a line, if the number matters.
    fn sentences(&self, line: &str) -> u64 {
        if self.settings.min_sentences > 0 { sentences(line) } else { 0 }
    }

    /// Appends a line without its citation marks.
    fn push(&self, line: &str, kept: &mut String) {
        if !self.settings.remove_citations || !line.contains(']') {
            return kept.push_str(line);
        }
        let start = kept.len();
        for character in line.chars() {
            kept.push(character);
            if character == ']'
                && let Some(length) = citation(&kept[start..])
            {
                kept.truncate(kept.len() - length);
            }
        }
        // White space at the ends of the line was next to a mark.
        kept.truncate(kept.trim_end_matches(|character: char| character != '\n' && character.is_whitespace()).len());
        let blanks = kept[start..].len() - kept[start..].trim_start().len();
        kept.replace_range(start..start + blanks, "");
    }

    fn line_verdict(&self, line: &str) -> LineVerdict {
        let settings = &self.settings;
        let max = usize::try_from(settings.max_word_characters).unwrap_or(usize::MAX);
        let is_short = |word: &str| word.len() <= max || word.chars().count() <= max;
        let mut words = 0;
        for word in line.split_whitespace() {
            words += 1;
            if !is_short(word) {
                return LineVerdict::Drop;
            }
        }
        let has_end =
            settings.end_marks.is_empty() || (line.ends_with(&settings.end_marks[..]) && !line.ends_with("..."));
        if !has_end || words < settings.min_words_per_line || words == 0 {
            return LineVerdict::Drop;
        }
        self.phrase_verdict(line)
    }

    fn phrase_verdict(&self, line: &str) -> LineVerdict {
        let settings = &self.settings;
        let mut is_javascript = false;
        let mut is_policy = false;
        // No phrase overlaps another one that matters.
        for found in self.phrases.find_iter(line) {
            match found.pattern().as_usize() {
                0 if settings.remove_lorem_ipsum => return LineVerdict::RemoveDocument("lorem_ipsum"),
                0 => {}
                1 => is_javascript |= settings.drop_javascript_lines,
                _ => is_policy |= settings.drop_policy_lines,
            }
        }
        if is_javascript {
            LineVerdict::Drop
        } else if settings.remove_curly_bracket && line.contains('{') {
            LineVerdict::RemoveDocument("curly_bracket")
        } else if is_policy {
            LineVerdict::Drop
        } else {
            LineVerdict::Keep
        }
    }
}

/// Returns the length of the citation mark at the end of a text that ends with `]`.
fn citation(text: &str) -> Option<usize> {
    for mark in ["[edit]", "[citation needed]"] {
        if text.ends_with(mark) {
            return Some(mark.len());
        }
    }
    let digits = text[..text.len() - 1].bytes().rev().take_while(u8::is_ascii_digit).count();
    let open = text.len().checked_sub(digits + 2)?;
    (text.as_bytes()[open] == b'[').then_some(digits + 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const PROSE: &str = "One is here. Two is here. Three is here. Four is here. Five is here.";

    fn with(settings: &C4, file: Option<&[u8]>, text: &str) -> FilterVerdict {
        settings.build(file).expect("valid").apply(text)
    }

    fn verdict(text: &str) -> FilterVerdict {
        with(&C4::default(), None, text)
    }

    fn changed(text: &str) -> FilterVerdict {
        FilterVerdict::Change(text.to_owned())
    }

    #[test]
    fn lines_that_are_no_sentences_are_dropped() {
        let long = format!("A word {} is long.", "x".repeat(1001));
        for line in [
            "Home",
            "Read more...",
            "Too short.",
            "Please enable JavaScript now.",
            "We use cookies on this site.",
            "Please enable JavaScript {now}.",
            &long,
        ] {
            assert_eq!(verdict(&format!("{line}\n{PROSE}\n{line}")), changed(PROSE), "{line}");
        }
        assert_eq!(verdict(PROSE), FilterVerdict::Keep);
        assert_eq!(verdict(&format!("  {PROSE} ")), changed(PROSE));
        let cited = "[edit] One[12] is here [1]. Two is here. [citation needed]\nThree is[[3]4] here. Four is here. Five is [x] here.";
        let plain = "One is here . Two is here.\nThree is here. Four is here. Five is [x] here.";
        assert_eq!(verdict(cited), changed(plain));
    }

    #[test]
    fn documents_are_removed_by_the_rule_that_is_named() {
        let sentences = |found| FilterVerdict::Remove(RemovalReason::counted("too_few_sentences", found, 5));
        let cases = [
            ("One is here. Two is here.", sentences(2)),
            ("Some Lorem Ipsum is here.", FilterVerdict::remove("lorem_ipsum")),
            ("int main() { is code.", FilterVerdict::remove("curly_bracket")),
            ("Our privacy policy {here} is long.", FilterVerdict::remove("curly_bracket")),
            ("no end mark {", sentences(0)),
            ("", sentences(0)),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(text), expected, "{text}");
        }
        let bad = FilterVerdict::Remove(RemovalReason::of_rule("bad_words").with_found("Two"));
        assert_eq!(with(&C4::default(), Some(b"two\n"), PROSE), bad);
        let lax = C4 { min_sentences: 0, end_marks: Vec::new(), min_words_per_line: 0, ..C4::default() };
        assert_eq!(with(&lax, None, "Menu\n\nHome"), changed("Menu\nHome"));
        assert_eq!(with(&lax, None, "\n[1]\n"), FilterVerdict::remove("no_lines_left"));
    }
}
