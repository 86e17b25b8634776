//! Blocklists: words and phrases that must not occur.
//!
//! # What
//! Removes documents with more than a number of matches of a list.
//!
//! # Why
//! Topics, sources or slurs that a model must not learn are known by name.
//!
//! # Definition
//! The file has one word or phrase per line, as UTF-8; blank lines are skipped. All occurrences count, also of phrases that
//! overlap. With `whole_words`, an occurrence must not be next to a letter or digit. A letter of a script without spaces (Han,
//! kana, Thai, Lao, Myanmar, Khmer) is a boundary itself. List and text are compared in NFC, and without `case_sensitive`
//! in NFKC with full case folding. The rule is `blocked`. Counting ends above `max_matches`, and the first match is reported.
//!
//! The digest of the file is part of the settings of a prepared folder; its name is not.
//!
//! # Reference
//! Aho and Corasick 1975, "Efficient String Matching: An Aid to Bibliographic Search".

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::reason::more;
use super::{Filter, FilterVerdict, TextFilter};
use crate::word_list::{MatchOptions, WordList};

/// Blocklist. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Blocklist {
    /// File with one word or phrase per line. It must be given.
    pub file: PathBuf,
    /// Number of matches that a document may have.
    pub max_matches: u64,
    /// Whether only whole words match.
    pub whole_words: bool,
    /// Whether case matters.
    pub case_sensitive: bool,
}

impl Default for Blocklist {
    fn default() -> Self {
        Self { file: PathBuf::new(), max_matches: 0, whole_words: true, case_sensitive: false }
    }
}

impl Filter for Blocklist {
    fn problems(&self) -> Vec<Problem> {
        let is_missing = self.file.as_os_str().is_empty();
        let hint = "name a file with one word or phrase per line";
        is_missing.then(|| Problem::new("file", "it is missing").hint(hint)).into_iter().collect()
    }

    fn file(&self) -> Option<(&'static str, &Path)> {
        Some(("file", &self.file))
    }

    fn build(&self, file: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        let options = MatchOptions { case_sensitive: self.case_sensitive, whole_words: self.whole_words };
        let words = WordList::parse("file", file.unwrap_or_default(), options)?;
        Ok(Box::new(Matcher { words, max_matches: self.max_matches }))
    }
}

struct Matcher {
    words: WordList,
    max_matches: u64,
}

impl TextFilter for Matcher {
    fn apply(&self, text: &str) -> FilterVerdict {
        let found = self.words.count(text, self.max_matches.saturating_add(1));
        FilterVerdict::remove_if(more("blocked", found, self.max_matches).map(|reason| match self.words.first(text) {
            Some(entry) => reason.with_found(&entry),
            None => reason,
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::super::RemovalReason;
    use super::*;

    #[test]
    fn documents_above_the_count_are_removed() {
        let filter =
            |max_matches| Blocklist { max_matches, ..Blocklist::default() }.build(Some(b"spam\ncheap pills\n"));
        let verdict = |max_matches, text: &str| filter(max_matches).expect("a list").apply(text);
        assert_eq!(verdict(0, "no such word"), FilterVerdict::Keep);
        let blocked = |value, bound, found: &str| {
            FilterVerdict::Remove(RemovalReason::counted("blocked", value, bound).with_found(found))
        };
        assert_eq!(verdict(0, "Buy cheap PILLS, spam"), blocked(1, 0, "cheap PILLS"));
        assert_eq!(verdict(0, "Café with SPAM"), blocked(1, 0, "spam"));
        assert_eq!(verdict(0, "spammers"), FilterVerdict::Keep);
        assert_eq!(verdict(1, "spam"), FilterVerdict::Keep);
        assert_eq!(verdict(1, "spammers spam, Spam, spam"), blocked(2, 1, "spam"));
    }
}
