//! Quality rules of Gopher.
//!
//! # What
//! Removes documents that do not look like prose: too short, of strange words, of lists, without common words.
//!
//! # Why
//! Web pages contain menus, tag clouds, tables and generated text. Simple counts recognize most of them.
//!
//! # Definition
//! Words are runs without white space. Words without a letter or digit do not count towards `min_words`, `max_words` and
//! the mean length. Lines are those that are not blank. Rules, in this order:
//! - `too_few_words`, `too_many_words`: bounds of the number of words;
//! - `short_words`, `long_words`: bounds of the mean number of characters of a word;
//! - `hashes`, `ellipses`: number of `#`, or of `…` and `...`, for each word;
//! - `few_alphabetic_words`: share of words with a letter, of all words;
//! - `bullet_lines`: share of lines that start with `•`, `●`, `◦`, `▪`, `‣`, `-` or `*`;
//! - `ellipsis_lines`: share of lines that end with an ellipsis;
//! - `few_stop_words`: number of different words of `stop_words`, in any case and without punctuation around them.
//!
//! # Reference
//! Rae et al. 2021, "Scaling Language Models: Methods, Analysis & Insights from Training Gopher", appendix A.1.1.

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::reason::{RemovalReason, above, below, fewer, more};
use super::{Filter, FilterVerdict, TextFilter, order_problem, ratio_problem, share_problem};
use crate::text::{Seen, StopWords, characters, ends_with_ellipsis, is_wordlike, lines, share};

/// Characters that mark an item of a list.
const BULLETS: [char; 7] = ['•', '●', '◦', '▪', '‣', '-', '*'];

/// Quality rules of Gopher. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GopherQuality {
    /// Minimum number of words.
    pub min_words: u64,
    /// Maximum number of words.
    pub max_words: u64,
    /// Minimum mean number of characters of a word.
    pub min_mean_word_length: f64,
    /// Maximum mean number of characters of a word.
    pub max_mean_word_length: f64,
    /// Maximum number of `#`, and of ellipses, for each word.
    pub max_symbols_per_word: f64,
    /// Maximum share of lines that start with a bullet.
    pub max_bullet_lines: f64,
    /// Maximum share of lines that end with an ellipsis.
    pub max_ellipsis_lines: f64,
    /// Minimum share of words with a letter.
    pub min_alphabetic_words: f64,
    /// Minimum number of different stop words. 0 disables the rule.
    pub min_stop_words: u64,
    /// Stop words. Replace them for another language than English.
    pub stop_words: Vec<String>,
}

impl Default for GopherQuality {
    fn default() -> Self {
        Self {
            min_words: 50,
            max_words: 100_000,
            min_mean_word_length: 3.0,
            max_mean_word_length: 10.0,
            max_symbols_per_word: 0.1,
            max_bullet_lines: 0.9,
            max_ellipsis_lines: 0.3,
            min_alphabetic_words: 0.8,
            min_stop_words: 2,
            stop_words: ["the", "be", "to", "of", "and", "that", "have", "with"].map(str::to_owned).to_vec(),
        }
    }
}

impl Filter for GopherQuality {
    fn problems(&self) -> Vec<Problem> {
        let distinct = self.stop_words.iter().collect::<std::collections::BTreeSet<_>>().len() as u64;
        let problems = [
            order_problem("min_words", self.min_words, self.max_words),
            order_problem("min_mean_word_length", self.min_mean_word_length, self.max_mean_word_length),
            ratio_problem("max_symbols_per_word", self.max_symbols_per_word),
            share_problem("max_bullet_lines", self.max_bullet_lines),
            share_problem("max_ellipsis_lines", self.max_ellipsis_lines),
            share_problem("min_alphabetic_words", self.min_alphabetic_words),
            order_problem("min_stop_words", self.min_stop_words, distinct),
        ];
        problems.into_iter().flatten().collect()
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        Ok(Box::new(Rules { settings: self.clone(), stop_words: StopWords::new(&self.stop_words) }))
    }
}

struct Rules {
    settings: GopherQuality,
    stop_words: StopWords,
}

#[derive(Default)]
struct WordCounts {
    all: u64,
    wordlike: u64,
    wordlike_characters: u64,
    alphabetic: u64,
}

impl WordCounts {
    fn count(text: &str) -> Self {
        let mut counts = Self::default();
        for word in text.split_whitespace() {
            counts.all += 1;
            counts.alphabetic += u64::from(word.chars().any(char::is_alphabetic));
            if is_wordlike(word) {
                counts.wordlike += 1;
                counts.wordlike_characters += characters(word);
            }
        }
        counts
    }
}

impl TextFilter for Rules {
    fn apply(&self, text: &str) -> FilterVerdict {
        let of_words = self.word_rule(text, &WordCounts::count(text));
        FilterVerdict::remove_if(of_words.or_else(|| self.line_rule(text)).or_else(|| self.stop_word_rule(text)))
    }
}

impl Rules {
    fn word_rule(&self, text: &str, words: &WordCounts) -> Option<RemovalReason> {
        let settings = &self.settings;
        let mean = share(words.wordlike_characters, words.wordlike);
        let hashes = memchr::memchr_iter(b'#', text.as_bytes()).count() as u64;
        let rules = [
            fewer("too_few_words", words.wordlike, settings.min_words),
            more("too_many_words", words.wordlike, settings.max_words),
            below("short_words", mean, settings.min_mean_word_length),
            above("long_words", mean, settings.max_mean_word_length),
            above("hashes", share(hashes, words.all), settings.max_symbols_per_word),
            above("ellipses", share(ellipses(text), words.all), settings.max_symbols_per_word),
            below("few_alphabetic_words", share(words.alphabetic, words.all), settings.min_alphabetic_words),
        ];
        rules.into_iter().flatten().next()
    }

    fn line_rule(&self, text: &str) -> Option<RemovalReason> {
        let mut all = 0;
        let mut bullets = 0;
        let mut ellipses = 0;
        for line in lines(text) {
            all += 1;
            bullets += u64::from(line.starts_with(BULLETS));
            ellipses += u64::from(ends_with_ellipsis(line));
        }
        above("bullet_lines", share(bullets, all), self.settings.max_bullet_lines)
            .or_else(|| above("ellipsis_lines", share(ellipses, all), self.settings.max_ellipsis_lines))
    }

    fn stop_word_rule(&self, text: &str) -> Option<RemovalReason> {
        let wanted = usize::try_from(self.settings.min_stop_words).unwrap_or(usize::MAX);
        let mut found = Seen::default();
        let mut words = text.split_whitespace();
        while found.len() < wanted {
            let Some(word) = words.next() else {
                return fewer("few_stop_words", found.len() as u64, self.settings.min_stop_words);
            };
            found.extend(self.stop_words.find(word));
        }
        None
    }
}

/// Counts `…` and `...`, without overlaps.
fn ellipses(text: &str) -> u64 {
    let dots = memchr::memmem::find_iter(text.as_bytes(), b"...").count();
    let signs = memchr::memmem::find_iter(text.as_bytes(), "…".as_bytes()).count();
    (dots + signs) as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(text: &str) -> FilterVerdict {
        GopherQuality::default().build(None).expect("valid").apply(text)
    }

    #[test]
    fn each_rule_removes_what_it_names() {
        let prose = "the quick brown fox and its friend went to the market with money ".repeat(8);
        let shouted = prose.to_uppercase();
        let remove = |rule, value, bound| FilterVerdict::Remove(RemovalReason::measured(rule, value, bound));
        let cases = [
            (prose.clone(), FilterVerdict::Keep),
            (shouted, FilterVerdict::Keep),
            (prose[..100].to_owned(), remove("too_few_words", 20.0, 50.0)),
            ("the and ".repeat(50_001), remove("too_many_words", 100_002.0, 100_000.0)),
            ("a to ".repeat(50), remove("short_words", 1.5, 3.0)),
            ("incomprehensibilities and the ".repeat(60), FilterVerdict::Keep),
            ("incomprehensibilities to ".repeat(60), remove("long_words", 11.5, 10.0)),
            (format!("{prose}{}", "# ".repeat(12)), remove("hashes", 12.0 / 116.0, 0.1)),
            (format!("{prose}{}", "… ".repeat(6) + &"... ".repeat(6)), remove("ellipses", 12.0 / 116.0, 0.1)),
            (format!("{prose}{}", "123 ".repeat(40)), remove("few_alphabetic_words", 104.0 / 144.0, 0.8)),
            ("- the quick brown fox and its friend\n".repeat(9), remove("bullet_lines", 1.0, 0.9)),
            (
                ("the quick brown fox and its very good friend that ran\n".repeat(2) + "and then...\n\n").repeat(4),
                remove("ellipsis_lines", 1.0 / 3.0, 0.3),
            ),
            ("quick brown fox ".repeat(20), remove("few_stop_words", 0.0, 2.0)),
            ("the quick fox ".repeat(20), remove("few_stop_words", 1.0, 2.0)),
            ("\"The\" quick fox of, ".repeat(20), FilterVerdict::Keep),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(&text), expected, "{}", &text[..text.len().min(60)]);
        }
    }
}
