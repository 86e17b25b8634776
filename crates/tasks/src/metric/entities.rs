//! Entity-level precision, recall and F1 of word labels.
//!
//! # Definition
//! The first character of a label is its prefix, the rest after a hyphen its type. Prefixes are lenient: an `I-` after
//! `O`, or after an entity of another type, begins an entity. `E-` and `S-` end one, so BIOES files are read too. An
//! entity is right if its type, its first and its last word are right. Scores are micro averages; divisions by 0 give 0.
//!
//! # Source
//! `seqeval` in its default mode, which follows `conlleval`.

use std::collections::BTreeSet;

use super::classes::ClassScore;
use super::value::{MetricValue, UndefinedReason};

/// Entity of a sentence.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entity<'a> {
    /// Type, such as `PER`.
    pub kind: &'a str,
    /// First word.
    pub first: usize,
    /// Last word.
    pub last: usize,
}

/// Returns the entities of a sentence.
pub fn entities<'a>(labels: &[&'a str]) -> Vec<Entity<'a>> {
    let mut found = Vec::new();
    let mut before = Label { prefix: 'O', kind: "" };
    let mut first = 0;
    for (index, label) in labels.iter().copied().chain(["O"]).enumerate() {
        let label = Label::new(label);
        if before.ends_at(label) {
            found.push(Entity { kind: before.kind, first, last: index.saturating_sub(1) });
        }
        if label.begins_after(before) {
            first = index;
        }
        before = label;
    }
    found
}

#[derive(Clone, Copy)]
struct Label<'a> {
    prefix: char,
    kind: &'a str,
}

impl<'a> Label<'a> {
    fn new(label: &'a str) -> Self {
        let mut rest = label.chars();
        let prefix = rest.next().unwrap_or('O');
        let rest = rest.as_str();
        let kind = rest.split_once('-').map_or(rest, |(_, kind)| kind);
        Self { prefix, kind: if kind.is_empty() { "_" } else { kind } }
    }

    /// Returns whether an entity ends between this label and the next one.
    fn ends_at(self, next: Self) -> bool {
        matches!(self.prefix, 'E' | 'S')
            || matches!((self.prefix, next.prefix), ('B' | 'I', 'B' | 'S' | 'O'))
            || (!matches!(self.prefix, 'O' | '.') && self.kind != next.kind)
    }

    /// Returns whether an entity begins with this label.
    fn begins_after(self, before: Self) -> bool {
        matches!(self.prefix, 'B' | 'S')
            || matches!((before.prefix, self.prefix), ('E' | 'S' | 'O', 'E' | 'I'))
            || (!matches!(self.prefix, 'O' | '.') && before.kind != self.kind)
    }
}

/// Counts of entities over sentences.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EntityCounts {
    /// Number of sentences.
    pub sentences: u64,
    /// Entities of the gold labels.
    pub gold: u64,
    /// Entities of the predictions.
    pub predicted: u64,
    /// Entities of both.
    pub correct: u64,
}

impl EntityCounts {
    /// Adds a sentence.
    ///
    /// # Panics
    /// Panics if the lengths differ.
    pub fn add(&mut self, gold: &[&str], predicted: &[&str]) {
        assert_eq!(gold.len(), predicted.len(), "one prediction per word");
        let gold: BTreeSet<_> = entities(gold).into_iter().collect();
        let predicted: BTreeSet<_> = entities(predicted).into_iter().collect();
        self.sentences += 1;
        self.gold += gold.len() as u64;
        self.predicted += predicted.len() as u64;
        self.correct += gold.intersection(&predicted).count() as u64;
    }

    /// Returns precision, recall or F1 over all sentences.
    pub fn score(&self, score: ClassScore) -> MetricValue {
        if self.sentences == 0 {
            return MetricValue::Undefined(UndefinedReason::NoExamples);
        }
        MetricValue::Defined(score.of_counts(self.correct, self.predicted, self.gold))
    }
}
