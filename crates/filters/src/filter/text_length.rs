//! Length of a text in characters, words and lines.
//!
//! # What
//! Removes documents that are too short or too long.
//!
//! # Why
//! Headings, menus and error pages are short. Concatenated dumps are long.
//!
//! # Definition
//! A character is a Unicode scalar value. A word is a run without white space. Lines are those that are not blank.
//! Each bound is inclusive. The rules are `too_few_…` and `too_many_…` of `characters`, `words` and `lines`. If no bound is
//! given, a text has at least 200 characters.
//!
//! # Reference
//! Xue et al. 2021, "mT5", section 3.1: at least three lines of 200 characters. The default here is one text of 200.

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::reason::{RemovalReason, fewer, more};
use super::{Filter, FilterVerdict, TextFilter, order_problem};
use crate::text::{characters, lines};

/// Minimum number of characters if no bound is given.
const USUAL_MIN_CHARACTERS: u64 = 200;

/// Bounds of length. See the [module](self).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct TextLength {
    /// Minimum number of characters. Default: 200 if no other bound is given, otherwise 0.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_characters: Option<u64>,
    /// Maximum number of characters. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_characters: Option<u64>,
    /// Minimum number of words.
    pub min_words: u64,
    /// Maximum number of words. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_words: Option<u64>,
    /// Minimum number of lines.
    pub min_lines: u64,
    /// Maximum number of lines. Default: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_lines: Option<u64>,
}

impl Filter for TextLength {
    fn problems(&self) -> Vec<Problem> {
        let order = |key, min, max: Option<u64>| max.and_then(|max| order_problem(key, min, max));
        let problems = [
            order("min_characters", self.min_characters(), self.max_characters),
            order("min_words", self.min_words, self.max_words),
            order("min_lines", self.min_lines, self.max_lines),
        ];
        problems.into_iter().flatten().collect()
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        Ok(Box::new(self.clone()))
    }
}

impl TextFilter for TextLength {
    fn apply(&self, text: &str) -> FilterVerdict {
        let found = characters(text);
        let of_characters = fewer("too_few_characters", found, self.min_characters())
            .or_else(|| more("too_many_characters", found, self.max_characters.unwrap_or(u64::MAX)));
        FilterVerdict::remove_if(of_characters.or_else(|| self.word_rule(text)).or_else(|| self.line_rule(text)))
    }
}

impl TextLength {
    fn min_characters(&self) -> u64 {
        let is_only = *self == Self::default();
        self.min_characters.unwrap_or(if is_only { USUAL_MIN_CHARACTERS } else { 0 })
    }

    fn word_rule(&self, text: &str) -> Option<RemovalReason> {
        if self.min_words == 0 && self.max_words.is_none() {
            return None;
        }
        let found = text.split_whitespace().count() as u64;
        let max = self.max_words.unwrap_or(u64::MAX);
        fewer("too_few_words", found, self.min_words).or_else(|| more("too_many_words", found, max))
    }

    fn line_rule(&self, text: &str) -> Option<RemovalReason> {
        if self.min_lines == 0 && self.max_lines.is_none() {
            return None;
        }
        let found = lines(text).count() as u64;
        let max = self.max_lines.unwrap_or(u64::MAX);
        fewer("too_few_lines", found, self.min_lines).or_else(|| more("too_many_lines", found, max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_inclusive() {
        let filter = TextLength {
            min_characters: Some(2),
            max_characters: Some(11),
            min_words: 2,
            max_words: Some(3),
            min_lines: 1,
            max_lines: Some(2),
        };
        let remove = |rule, value, bound| FilterVerdict::Remove(RemovalReason::counted(rule, value, bound));
        let cases = [
            ("é", remove("too_few_characters", 1, 2)),
            ("ééé", remove("too_few_words", 1, 2)),
            ("é é", FilterVerdict::Keep),
            ("a b c d", remove("too_many_words", 4, 3)),
            ("a\n\nb", FilterVerdict::Keep),
            ("a\nb\nc", remove("too_many_lines", 3, 2)),
            ("aaaaaaaaaa bb", remove("too_many_characters", 13, 11)),
        ];
        for (text, expected) in cases {
            assert_eq!(filter.apply(text), expected, "{text:?}");
        }
    }

    #[test]
    fn only_bounds_that_are_given_remove() {
        let words = TextLength { min_words: 2, ..TextLength::default() };
        let remove = |rule, value, bound| FilterVerdict::Remove(RemovalReason::counted(rule, value, bound));
        assert_eq!(
            (words.apply("two words"), words.apply("one")),
            (FilterVerdict::Keep, remove("too_few_words", 1, 2))
        );
        let usual = TextLength::default();
        assert_eq!(usual.apply(&"a".repeat(199)), remove("too_few_characters", 199, 200));
        assert_eq!(usual.apply(&"a".repeat(200)), FilterVerdict::Keep);
        // A bound that is written is a bound, whatever else is given.
        let both = TextLength { min_characters: Some(200), min_words: 2, ..TextLength::default() };
        assert_eq!(both.apply("two words"), remove("too_few_characters", 9, 200));
    }
}
