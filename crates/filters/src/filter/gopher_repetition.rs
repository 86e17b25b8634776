//! Repetition rules of Gopher.
//!
//! # What
//! Removes documents that repeat lines, paragraphs or phrases.
//!
//! # Why
//! Repetitive text teaches little and makes models repeat themselves.
//!
//! # Definition
//! Lines are those that are not blank. Paragraphs are separated by at least one empty line. Both are compared without
//! white space at their ends. All but the first of equal ones are duplicates. Shares of characters are of the whole text,
//! white space included. Rules, in this order:
//! - `duplicate_paragraphs`, `duplicate_paragraph_characters`, `duplicate_lines`, `duplicate_line_characters`;
//! - `top_2_gram` to `top_4_gram`: the n words that occur together most often, if they occur twice or more. Their length
//!   includes one blank between words, and is multiplied by the number of occurrences. Of equally frequent ones, the first
//!   one counts;
//! - `duplicate_5_grams` to `duplicate_10_grams`: characters of n words that occurred before, white space excluded. The
//!   text is read from its beginning; after a duplicate, reading continues behind it, so no character counts twice.
//!
//! Words are runs without white space. The first 4 MiB of a text are examined. The n-grams are compared by 64-bit hashes:
//! in a text of a million words, a wrong match has the probability 3e-8 for each n.
//!
//! # Reference
//! Rae et al. 2021, "Scaling Language Models: Methods, Analysis & Insights from Training Gopher", appendix A.1.1, table A1.

use std::hash::BuildHasher as _;

use foldhash::fast::FixedState;
use schemars::JsonSchema;
use schemas::Problem;
use serde::{Deserialize, Serialize};

use super::reason::{RemovalReason, above};
use super::{Filter, FilterVerdict, TextFilter, share_problem};
use crate::text::{Index, MAX_EXAMINED_BYTES, Seen, characters, front, lines, share};

/// Names of the rules about the most frequent n-gram, n from 2 on.
const TOP: [&str; 3] = ["top_2_gram", "top_3_gram", "top_4_gram"];

/// Names of the rules about duplicate n-grams, n from 5 on.
const DUPLICATE: [&str; 6] = [
    "duplicate_5_grams",
    "duplicate_6_grams",
    "duplicate_7_grams",
    "duplicate_8_grams",
    "duplicate_9_grams",
    "duplicate_10_grams",
];

/// Repetition rules of Gopher. See the [module](self).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GopherRepetition {
    /// Maximum share of duplicate lines.
    pub max_duplicate_lines: f64,
    /// Maximum share of duplicate paragraphs.
    pub max_duplicate_paragraphs: f64,
    /// Maximum share of characters in duplicate lines.
    pub max_duplicate_line_characters: f64,
    /// Maximum share of characters in duplicate paragraphs.
    pub max_duplicate_paragraph_characters: f64,
    /// Maximum share of characters in the most frequent n-gram, for n of 2, 3 and 4.
    pub max_top_n_gram_characters: [f64; 3],
    /// Maximum share of characters in duplicate n-grams, for n from 5 to 10.
    pub max_duplicate_n_gram_characters: [f64; 6],
}

impl Default for GopherRepetition {
    fn default() -> Self {
        Self {
            max_duplicate_lines: 0.3,
            max_duplicate_paragraphs: 0.3,
            max_duplicate_line_characters: 0.2,
            max_duplicate_paragraph_characters: 0.2,
            max_top_n_gram_characters: [0.2, 0.18, 0.16],
            max_duplicate_n_gram_characters: [0.15, 0.14, 0.13, 0.12, 0.11, 0.1],
        }
    }
}

impl Filter for GopherRepetition {
    fn problems(&self) -> Vec<Problem> {
        let single = [
            ("max_duplicate_lines", self.max_duplicate_lines),
            ("max_duplicate_paragraphs", self.max_duplicate_paragraphs),
            ("max_duplicate_line_characters", self.max_duplicate_line_characters),
            ("max_duplicate_paragraph_characters", self.max_duplicate_paragraph_characters),
        ];
        let top = self.max_top_n_gram_characters.map(|share| ("max_top_n_gram_characters", share));
        let duplicate = self.max_duplicate_n_gram_characters.map(|share| ("max_duplicate_n_gram_characters", share));
        let all = single.into_iter().chain(top).chain(duplicate);
        all.filter_map(|(key, share)| share_problem(key, share)).collect()
    }

    fn build(&self, _: Option<&[u8]>) -> Result<Box<dyn TextFilter>, Problem> {
        Ok(Box::new(self.clone()))
    }
}

impl TextFilter for GopherRepetition {
    fn apply(&self, text: &str) -> FilterVerdict {
        let text = front(text, MAX_EXAMINED_BYTES);
        let total = characters(text);
        FilterVerdict::remove_if(self.part_rule(text, total).or_else(|| self.n_gram_rule(text, total)))
    }
}

impl GopherRepetition {
    fn part_rule(&self, text: &str, total: u64) -> Option<RemovalReason> {
        let paragraphs = Duplicates::count(text.split("\n\n").map(str::trim).filter(|part| !part.is_empty()));
        let lines = Duplicates::count(lines(text));
        let of_total = |part: &Duplicates| share(part.characters, total);
        let rules = [
            above("duplicate_paragraphs", paragraphs.share(), self.max_duplicate_paragraphs),
            above("duplicate_paragraph_characters", of_total(&paragraphs), self.max_duplicate_paragraph_characters),
            above("duplicate_lines", lines.share(), self.max_duplicate_lines),
            above("duplicate_line_characters", of_total(&lines), self.max_duplicate_line_characters),
        ];
        rules.into_iter().flatten().next()
    }

    fn n_gram_rule(&self, text: &str, total: u64) -> Option<RemovalReason> {
        let mut grams = NGrams::new(text);
        for (&most, rule) in self.max_top_n_gram_characters.iter().zip(TOP) {
            grams.lengthen();
            let found = above(rule, share(grams.top_characters(), total), most);
            if found.is_some() {
                return found;
            }
        }
        for (&most, rule) in self.max_duplicate_n_gram_characters.iter().zip(DUPLICATE) {
            grams.lengthen();
            let found = above(rule, share(grams.duplicate_characters(), total), most);
            if found.is_some() {
                return found;
            }
        }
        None
    }
}

/// Counts of equal lines or paragraphs.
#[derive(Default)]
struct Duplicates {
    all: u64,
    repeated: u64,
    characters: u64,
}

impl Duplicates {
    fn count<'t>(parts: impl Iterator<Item = &'t str>) -> Self {
        let mut counts = Self::default();
        let mut seen = Seen::default();
        for part in parts {
            counts.all += 1;
            if !seen.insert(part) {
                counts.repeated += 1;
                counts.characters += characters(part);
            }
        }
        counts
    }

    fn share(&self) -> f64 {
        share(self.repeated, self.all)
    }
}

/// Hashes of all n-grams of a text, for growing n.
struct NGrams {
    n: usize,
    words: Vec<u64>,
    /// Characters before each word, white space excluded, and of the whole text.
    before: Vec<u32>,
    /// Hash of the n words from each word on.
    hashes: Vec<u64>,
    /// False if the n words from that word on occur once. A longer n-gram that occurs twice contains none of those, so
    /// most long n-grams need no table.
    may_repeat: Vec<bool>,
}

impl NGrams {
    fn new(text: &str) -> Self {
        let hasher = FixedState::default();
        let mut words = Vec::new();
        let mut before = vec![0_u32];
        let mut sum = 0;
        for word in text.split_whitespace() {
            words.push(hasher.hash_one(word));
            sum += u32::try_from(word.chars().count()).expect("the text is shorter than 4 GiB");
            before.push(sum);
        }
        Self { n: 1, hashes: words.clone(), may_repeat: vec![true; words.len()], words, before }
    }

    /// Adds a word to each n-gram.
    fn lengthen(&mut self) {
        let Self { n, words, hashes, may_repeat, .. } = self;
        for at in 1..may_repeat.len() {
            may_repeat[at - 1] &= may_repeat[at];
        }
        may_repeat.pop();
        hashes.pop();
        for (hash, word) in hashes.iter_mut().zip(words.iter().skip(*n)) {
            *hash = mix(*hash, *word);
        }
        *n += 1;
    }

    /// Characters of the n-gram that starts at a word, without blanks between.
    fn characters(&self, at: usize) -> u64 {
        u64::from(self.before[at + self.n] - self.before[at])
    }

    /// Characters of all occurrences of the most frequent n-gram, 0 if none occurs twice.
    fn top_characters(&mut self) -> u64 {
        let mut counts: Index<u64, Occurrences> = Index::default();
        let mut top = Occurrences { first: 0, count: 1 };
        for (at, &hash) in self.hashes.iter().enumerate().filter(|(at, _)| self.may_repeat[*at]) {
            let first = u32::try_from(at).expect("the text is shorter than 4 GiB");
            let found = counts.entry(hash).or_insert(Occurrences { first, count: 0 });
            found.count += 1;
            if found.count > top.count || (found.count == top.count && found.first < top.first) {
                top = *found;
            }
        }
        for (may_repeat, hash) in self.may_repeat.iter_mut().zip(&self.hashes) {
            *may_repeat = *may_repeat && counts[hash].count > 1;
        }
        if top.count < 2 {
            return 0;
        }
        (self.characters(top.first as usize) + self.n as u64 - 1) * u64::from(top.count)
    }

    /// Characters of n-grams that occurred before, without overlaps.
    fn duplicate_characters(&self) -> u64 {
        let mut seen = Seen::default();
        let mut sum = 0;
        let mut at = 0;
        while let Some(&hash) = self.hashes.get(at) {
            if !self.may_repeat[at] || seen.insert(hash) {
                at += 1;
            } else {
                sum += self.characters(at);
                at += self.n;
            }
        }
        sum
    }
}

#[derive(Clone, Copy)]
struct Occurrences {
    first: u32,
    count: u32,
}

/// Combines two hashes, depending on their order: a folded multiplication.
fn mix(first: u64, second: u64) -> u64 {
    let product = u128::from(first ^ 0x9e37_79b9_7f4a_7c15) * u128::from(second.rotate_left(23) | 1);
    #[expect(clippy::cast_possible_truncation, reason = "both halves are used")]
    let folded = (product as u64) ^ ((product >> 64) as u64);
    folded
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn verdict(text: &str) -> FilterVerdict {
        GopherRepetition::default().apply(text).without_measures()
    }

    /// Text of that many different words.
    fn prose(words: usize) -> String {
        (0..words).map(|number| format!("word{number}")).collect::<Vec<_>>().join(" ") + " "
    }

    /// Text of ten phrases of that many words. Each occurs twice, with as many other words after it.
    fn repeated(phrase: usize, others: usize) -> String {
        let words =
            |kind: &str, count: usize| (0..count).map(|at| format!("{kind}w{at}")).collect::<Vec<_>>().join(" ") + " ";
        let one = |number: usize| -> String {
            let phrase = words(&format!("p{number}"), phrase);
            let [first, second] = ["a", "b"].map(|kind| words(&format!("{kind}{number}"), others));
            format!("{phrase}{first}{phrase}{second}")
        };
        (0..10).map(one).collect()
    }

    #[test]
    fn each_rule_removes_what_it_names() {
        let long = prose(300);
        let once = format!("{}\n\n", prose(12));
        let cases = [
            (String::new(), FilterVerdict::Keep),
            ("two words".to_owned(), FilterVerdict::Keep),
            (long.clone(), FilterVerdict::Keep),
            ("a b c\n\n".repeat(2) + &long, FilterVerdict::remove("duplicate_paragraphs")),
            (
                format!("{once}x\n\n{once}y\n\nz\n\n{}", prose(11)),
                FilterVerdict::remove("duplicate_paragraph_characters"),
            ),
            (format!("a\na\nb\n{long}"), FilterVerdict::Keep),
            (format!("a\na\na\nb\n{long}"), FilterVerdict::remove("duplicate_lines")),
            (format!("{0}\n{0}\nx\ny\nz", prose(30)), FilterVerdict::remove("duplicate_line_characters")),
            (
                (0..40).map(|number| format!("green tea {number}")).collect::<Vec<_>>().join(" "),
                FilterVerdict::remove("top_2_gram"),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(verdict(&text), expected, "{}", &text[..text.len().min(60)]);
        }
        assert_eq!(verdict(&repeated(5, 6)), FilterVerdict::remove("duplicate_5_grams"));
        assert_eq!(verdict(&repeated(10, 24)), FilterVerdict::remove("duplicate_10_grams"));
        assert_eq!(verdict(&repeated(10, 40)), FilterVerdict::Keep);
    }

    #[test]
    fn a_removed_document_has_its_share_and_the_bound() {
        let measured = |text: &str| match GopherRepetition::default().apply(text) {
            FilterVerdict::Remove(RemovalReason { rule, value: Some(value), bound: Some(bound), .. }) => {
                (rule, value, bound)
            }
            other => panic!("{other:?}"),
        };
        // Two of six lines.
        assert_eq!(measured("a\na\na\nb\nc\nd"), ("duplicate_lines", 2.0 / 6.0, 0.3));
        assert_eq!(measured("green tea, green tea!\nx\nx"), ("duplicate_lines", 1.0 / 3.0, 0.3));
        // `green tea` occurs twice, with one blank each: 18 of 35 characters.
        assert_eq!(measured("green tea one two green tea 3456789"), ("top_2_gram", 18.0 / 35.0, 0.2));
    }

    /// Counts of the definition, with strings instead of hashes.
    fn plain(text: &str, n: usize) -> [u64; 2] {
        let words: Vec<&str> = text.split_whitespace().collect();
        let grams: Vec<&[&str]> = words.windows(n).collect();
        let occurrences = |gram: &[&str]| grams.iter().filter(|other| **other == gram).count();
        let most = grams.iter().map(|gram| occurrences(gram)).max().unwrap_or(0);
        let top = grams.iter().find(|gram| occurrences(gram) == most).filter(|_| most > 1);
        let top = top.map_or(0, |gram| characters(&gram.join(" ")) * most as u64);
        let mut seen = std::collections::BTreeSet::new();
        let mut sum = 0;
        let mut at = 0;
        while at + n <= words.len() {
            let gram = &words[at..at + n];
            if seen.insert(gram) {
                at += 1;
            } else {
                sum += characters(&gram.concat());
                at += n;
            }
        }
        [top, sum]
    }

    proptest! {
        #[test]
        fn n_grams_are_counted_as_defined(text in "([abé]{1,2}[ \n]){0,60}") {
            let mut grams = NGrams::new(&text);
            for n in 2..=10 {
                grams.lengthen();
                prop_assert_eq!([grams.top_characters(), grams.duplicate_characters()], plain(&text, n), "n = {}", n);
            }
        }
    }
}
