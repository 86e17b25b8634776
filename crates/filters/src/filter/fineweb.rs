//! Rules of FineWeb.
//!
//! # What
//! Removes documents whose lines look like a list: without final punctuation, short, or repeated.
//!
//! # Why
//! These rules separated good from bad snapshots of Common Crawl, after the rules of Gopher and C4.
//!
//! # Definition
//! Lines are those that are not blank. Rules, in this order:
//! - `empty`: no line;
//! - `few_punctuated_lines`: share of lines that end with a sentence end or a closing quotation mark or bracket;
//! - `short_lines`: share of lines of at most `short_line_characters`;
//! - `duplicate_line_characters`: share of characters in lines that occurred before, line feeds excluded;
//! - `newlines`: number of line feeds for each word.
//!
//! The first 4 MiB of a text are examined for duplicate lines.
//!
//! # Reference
//! Penedo et al. 2024, "The FineWeb Datasets", section 3.5, for the first three and their bounds. The fourth is in the code
//! that made the corpus (`datatrove`). That code also has 0.01 instead of 0.1 as the bound of duplicate characters.

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::reason::{above, below};
use super::{Filter, FilterVerdict, TextFilter, ratio_problem, share_problem};
use crate::text::{MAX_EXAMINED_BYTES, Seen, characters, front, is_closing, is_sentence_end, lines, share};

/// Rules of FineWeb. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Fineweb {
    /// Minimum share of lines with final punctuation.
    pub min_punctuated_lines: f64,
    /// Maximum share of short lines.
    pub max_short_lines: f64,
    /// Maximum number of characters of a short line.
    pub short_line_characters: u64,
    /// Maximum share of characters in duplicate lines.
    pub max_duplicate_line_characters: f64,
    /// Maximum number of line feeds for each word.
    pub max_newlines_per_word: f64,
}

impl Default for Fineweb {
    fn default() -> Self {
        Self {
            min_punctuated_lines: 0.12,
            max_short_lines: 0.67,
            short_line_characters: 30,
            max_duplicate_line_characters: 0.1,
            max_newlines_per_word: 0.3,
        }
    }
}

impl Filter for Fineweb {
    fn problems(&self) -> Vec<Problem> {
        let problems = [
            share_problem("min_punctuated_lines", self.min_punctuated_lines),
            share_problem("max_short_lines", self.max_short_lines),
            share_problem("max_duplicate_line_characters", self.max_duplicate_line_characters),
            ratio_problem("max_newlines_per_word", self.max_newlines_per_word),
        ];
        problems.into_iter().flatten().collect()
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        Ok(Box::new(self.clone()))
    }
}

impl TextFilter for Fineweb {
    fn apply(&self, text: &str) -> FilterVerdict {
        let mut all = 0;
        let mut punctuated = 0;
        let mut short = 0;
        for line in lines(text) {
            all += 1;
            punctuated += u64::from(line.ends_with(|end| is_sentence_end(end) || is_closing(end)));
            short += u64::from(is_at_most(line, self.short_line_characters));
        }
        if all == 0 {
            return FilterVerdict::remove("empty");
        }
        let of_lines = below("few_punctuated_lines", share(punctuated, all), self.min_punctuated_lines)
            .or_else(|| above("short_lines", share(short, all), self.max_short_lines));
        let duplicates = || duplicate_share(front(text, MAX_EXAMINED_BYTES));
        let found = of_lines
            .or_else(|| above("duplicate_line_characters", duplicates(), self.max_duplicate_line_characters))
            .or_else(|| above("newlines", newlines_per_word(text), self.max_newlines_per_word));
        FilterVerdict::remove_if(found)
    }
}

/// Number of line feeds for each word.
fn newlines_per_word(text: &str) -> f64 {
    share(newlines(text), text.split_whitespace().count() as u64)
}

/// Whether the line has at most that many characters.
fn is_at_most(line: &str, most: u64) -> bool {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    // A character has at most four bytes.
    line.len() <= most || (line.len() / 4 <= most && line.chars().count() <= most)
}

fn newlines(text: &str) -> u64 {
    memchr::memchr_iter(b'\n', text.as_bytes()).count() as u64
}

/// Share of the characters that are in lines that occurred before.
fn duplicate_share(text: &str) -> f64 {
    let mut seen = Seen::default();
    let duplicates = lines(text).filter(|line| !seen.insert(*line)).map(characters).sum();
    share(duplicates, characters(text) - newlines(text))
}

#[cfg(test)]
mod tests {
    use super::super::RemovalReason;
    use super::*;

    #[test]
    fn each_rule_removes_what_it_names() {
        let line = |number: usize| format!("This is line number {number} of a text that is long enough.\n");
        let prose: String = (0..8).map(line).collect();
        let bare = prose.replace('.', "");
        let remove = |rule, value, bound| FilterVerdict::Remove(RemovalReason::measured(rule, value, bound));
        let cases = [
            (prose.clone(), FilterVerdict::Keep),
            ("\n \n".to_owned(), FilterVerdict::remove("empty")),
            (bare.clone(), remove("few_punctuated_lines", 0.0, 0.12)),
            (format!("{bare}{}", line(9)), remove("few_punctuated_lines", 1.0 / 9.0, 0.12)),
            (format!("{bare}{}{}", line(9), line(10)), FilterVerdict::Keep),
            ("He said “no”\nand left.\n".to_owned(), remove("short_lines", 1.0, 0.67)),
            (format!("{}{}", line(0), prose), remove("duplicate_line_characters", 1.0 / 9.0, 0.1)),
            (prose.replace('\n', "\n\n\n\n\n"), remove("newlines", 40.0 / 96.0, 0.3)),
        ];
        for (text, expected) in cases {
            assert_eq!(Fineweb::default().apply(&text), expected, "{}", &text[..text.len().min(60)]);
        }
    }
}
