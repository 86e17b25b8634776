//! Exact match and F1 of one answer, after SQuAD's normalization.
//!
//! # Source
//! The evaluation scripts of SQuAD 1.1 and 2.0.

use std::collections::BTreeMap;

use unicode_normalization::char::is_combining_mark;

/// Version of SQuAD. The two scripts differ for empty answers and for missing predictions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SquadVersion {
    /// Version 1.1: F1 of an answer without tokens is 0. A missing prediction counts 0.
    V1,
    /// Version 2.0: F1 of an answer without tokens is 1 for a prediction without tokens, otherwise 0. Gold answers
    /// without tokens are ignored. A missing prediction does not count.
    V2,
}

/// Exact match and F1 of a question, each the largest over its gold answers.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct AnswerScore {
    /// 1 if the normalized texts are equal, otherwise 0.
    pub exact: f64,
    /// F1 of the bags of tokens.
    pub f1: f64,
}

/// Scores a prediction with the gold answers of its question. Without gold answers, an empty prediction is right.
pub fn score_answer(version: SquadVersion, golds: &[&str], predicted: &str) -> AnswerScore {
    let predicted = normalize_answer(predicted);
    let mut golds: Vec<String> = golds.iter().map(|gold| normalize_answer(gold)).collect();
    if version == SquadVersion::V2 {
        golds.retain(|gold| !gold.is_empty());
    }
    if golds.is_empty() {
        golds.push(String::new());
    }
    golds.iter().fold(AnswerScore::default(), |best, gold| AnswerScore {
        exact: best.exact.max(if *gold == predicted { 1.0 } else { 0.0 }),
        f1: best.f1.max(token_f1(version, gold, &predicted)),
    })
}

/// Normalizes an answer: lower case, no ASCII punctuation, no articles, single blanks.
pub fn normalize_answer(text: &str) -> String {
    let lower = text.to_lowercase();
    let plain: String = lower.chars().filter(|character| !character.is_ascii_punctuation()).collect();
    let without = without_articles(&plain);
    let words = without.split(is_blank).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ")
}

fn token_f1(version: SquadVersion, gold: &str, predicted: &str) -> f64 {
    let tokens = |text: &str| text.split(' ').filter(|token| !token.is_empty()).map(str::to_owned).collect::<Vec<_>>();
    let gold = tokens(gold);
    let predicted = tokens(predicted);
    if version == SquadVersion::V2 && (gold.is_empty() || predicted.is_empty()) {
        return if gold == predicted { 1.0 } else { 0.0 };
    }
    let same = common(&gold, &predicted);
    if same == 0 {
        return 0.0;
    }
    let precision = same as f64 / predicted.len() as f64;
    let recall = same as f64 / gold.len() as f64;
    2.0 * precision * recall / (precision + recall)
}

/// Returns the number of tokens that two bags share.
fn common(left: &[String], right: &[String]) -> usize {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for token in left {
        *counts.entry(token).or_default() += 1;
    }
    let taken = right.iter().filter(|token| {
        let count = counts.get_mut(token.as_str()).filter(|count| **count > 0);
        count.map(|count| *count -= 1).is_some()
    });
    taken.count()
}

/// Replaces each article by a blank. An article is `a`, `an` or `the` between characters that are no word characters:
/// Python's `\b(a|an|the)\b`.
fn without_articles(text: &str) -> String {
    let mut kept = String::with_capacity(text.len());
    let mut word = String::new();
    for character in text.chars() {
        if is_word(character) {
            word.push(character);
        } else {
            push_word(&mut kept, &mut word);
            kept.push(character);
        }
    }
    push_word(&mut kept, &mut word);
    kept
}

fn push_word(kept: &mut String, word: &mut String) {
    kept.push_str(if matches!(word.as_str(), "a" | "an" | "the") { " " } else { word });
    word.clear();
}

/// Returns whether Python's `\w` matches: letters, numbers and the underscore. Marks and circled letters are alphabetic
/// for Rust and no letters for Python.
fn is_word(character: char) -> bool {
    let is_circled = matches!(character, '\u{24b6}'..='\u{24e9}' | '\u{1f130}'..='\u{1f189}');
    character == '_' || (character.is_alphanumeric() && !is_combining_mark(character) && !is_circled)
}

/// Returns whether Python's `str.split` splits at a character.
fn is_blank(character: char) -> bool {
    character.is_whitespace() || matches!(character, '\u{1c}'..='\u{1f}')
}
