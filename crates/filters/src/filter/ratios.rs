//! Shares of symbols, digits, capitals and stop words.
//!
//! # What
//! Removes documents of which a kind of character or word is too large or too small a part.
//!
//! # Why
//! Tables, logs, formulas and encoded data have many symbols and digits. Headlines and legal notices have many capitals.
//! A text without stop words is a list, or is of another language.
//!
//! # Definition
//! Symbols and digits are shares of the characters that are not white space. A symbol is a character that is neither a
//! letter, a mark nor a number. Capitals are a share of the letters. Stop words are a share of the words, in any case and
//! without punctuation around them; only words with a letter or digit count. Rules, in this order: `symbols`, `digits`,
//! `capitals`, `few_stop_words`, `many_stop_words`.
//!
//! # Reference
//! Laurençon et al. 2022, "The BigScience ROOTS Corpus", section 3.1, for the measures. It chose bounds for each language;
//! the defaults are this project's. `docs/results.md` has what they remove from nine corpora.

use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::reason::{RemovalReason, above, below};
use super::{Filter, FilterVerdict, TextFilter, order_problem, share_problem};
use crate::text::{StopWords, is_of_word, is_wordlike, share};

/// Bounds of shares. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Ratios {
    /// Maximum share of symbols.
    pub max_symbols: f64,
    /// Maximum share of digits.
    pub max_digits: f64,
    /// Maximum share of capitals.
    pub max_capitals: f64,
    /// Minimum share of stop words. 0 disables the rule.
    pub min_stop_words: f64,
    /// Maximum share of stop words. 1 disables the rule.
    pub max_stop_words: f64,
    /// Stop words. Replace them for another language than English.
    pub stop_words: Vec<String>,
}

/// Frequent English function words.
const ENGLISH: &str = "a about after all also an and any are as at be because been before but by can could did do for from \
                       had has have he her him his how i if in into is it its me more most my no not of on one only or \
                       other our out over she so some such than that the their them then there these they this to up us \
                       was we were what when which who will with would you your";

impl Default for Ratios {
    fn default() -> Self {
        Self {
            max_symbols: 0.3,
            max_digits: 0.3,
            max_capitals: 0.5,
            min_stop_words: 0.0,
            max_stop_words: 1.0,
            stop_words: ENGLISH.split_whitespace().map(str::to_owned).collect(),
        }
    }
}

impl Filter for Ratios {
    fn problems(&self) -> Vec<Problem> {
        let is_unused = self.stop_words.is_empty() && self.min_stop_words > 0.0;
        let problems = [
            share_problem("max_symbols", self.max_symbols),
            share_problem("max_digits", self.max_digits),
            share_problem("max_capitals", self.max_capitals),
            share_problem("min_stop_words", self.min_stop_words),
            share_problem("max_stop_words", self.max_stop_words),
            order_problem("min_stop_words", self.min_stop_words, self.max_stop_words),
            is_unused
                .then(|| Problem::new("stop_words", "it is empty").hint("list words, or set `min_stop_words = 0.0`")),
        ];
        problems.into_iter().flatten().collect()
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        Ok(Box::new(Rules { settings: self.clone(), stop_words: StopWords::new(&self.stop_words) }))
    }
}

struct Rules {
    settings: Ratios,
    stop_words: StopWords,
}

#[derive(Default)]
struct CharacterCounts {
    visible: u64,
    symbols: u64,
    digits: u64,
    letters: u64,
    capitals: u64,
}

impl CharacterCounts {
    fn count(text: &str) -> Self {
        let mut counts = Self::default();
        // Bytes of ASCII are classified without branches, in blocks.
        for character in text.chars() {
            if character.is_ascii() {
                counts.visible += u64::from(!character.is_ascii_whitespace());
                counts.digits += u64::from(character.is_ascii_digit());
                counts.letters += u64::from(character.is_ascii_alphabetic());
                counts.capitals += u64::from(character.is_ascii_uppercase());
                counts.symbols += u64::from(!character.is_ascii_alphanumeric() && !character.is_ascii_whitespace());
            } else if !character.is_whitespace() {
                counts.visible += 1;
                counts.digits += u64::from(character.is_numeric());
                counts.letters += u64::from(character.is_alphabetic());
                counts.capitals += u64::from(character.is_uppercase());
                counts.symbols += u64::from(!is_of_word(character));
            }
        }
        counts
    }
}

impl TextFilter for Rules {
    fn apply(&self, text: &str) -> FilterVerdict {
        let settings = &self.settings;
        let counts = CharacterCounts::count(text);
        let of_characters = above("symbols", share(counts.symbols, counts.visible), settings.max_symbols)
            .or_else(|| above("digits", share(counts.digits, counts.visible), settings.max_digits))
            .or_else(|| above("capitals", share(counts.capitals, counts.letters), settings.max_capitals));
        FilterVerdict::remove_if(of_characters.or_else(|| self.stop_word_rule(text)))
    }
}

impl Rules {
    fn stop_word_rule(&self, text: &str) -> Option<RemovalReason> {
        let Ratios { min_stop_words, max_stop_words, .. } = self.settings;
        if min_stop_words <= 0.0 && max_stop_words >= 1.0 {
            return None;
        }
        let found = self.stop_word_share(text);
        below("few_stop_words", found, min_stop_words).or_else(|| above("many_stop_words", found, max_stop_words))
    }

    fn stop_word_share(&self, text: &str) -> f64 {
        let mut words = 0;
        let mut found = 0;
        for word in text.split_whitespace().filter(|word| is_wordlike(word)) {
            words += 1;
            found += u64::from(self.stop_words.find(word).is_some());
        }
        share(found, words)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_rule_removes_what_it_names() {
        let settings = Ratios { min_stop_words: 0.2, max_stop_words: 0.8, ..Ratios::default() };
        let filter = settings.build(None).expect("valid");
        let remove = |rule, value, bound| FilterVerdict::Remove(RemovalReason::measured(rule, value, bound));
        let cases = [
            ("The cat is on a soft mat in town", FilterVerdict::Keep),
            ("the @@ cat ##", remove("symbols", 0.4, 0.3)),
            ("the 12345 cat", remove("digits", 5.0 / 11.0, 0.3)),
            ("THE CAT sat", remove("capitals", 6.0 / 9.0, 0.5)),
            ("cat mat hat bat rat the", remove("few_stop_words", 1.0 / 6.0, 0.2)),
            ("cat mat hat \"The\" of, dog", FilterVerdict::Keep),
            ("this is what they will have", remove("many_stop_words", 1.0, 0.8)),
            ("", remove("few_stop_words", 0.0, 0.2)),
        ];
        for (text, expected) in cases {
            assert_eq!(filter.apply(text), expected, "{text}");
        }
        let default = Ratios::default().build(None).expect("valid");
        let hindi = "हिन्दी विश्व की एक प्रमुख भाषा है।";
        for text in ["", hindi, "中文没有空格，也没有大写。", "Она читает книгу."] {
            assert_eq!(default.apply(text), FilterVerdict::Keep, "{text}");
        }
    }
}
