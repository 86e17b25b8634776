//! Entity-level precision, recall and F1 of word labels.
//!
//! # Definition
//! The first character of a label is its prefix, the rest after a hyphen its type. The [`EntityScheme`] defines which
//! labels are an entity:
//!
//! - BIO, IOB1 and IO are lenient: an `I-` after `O`, or after an entity of another type, begins an entity.
//! - BIOES and BILOU are strict: words whose labels break the scheme are no entity.
//!
//! An entity is right if its type, its first and its last word are right. Scores are micro averages; divisions by 0 give
//! 0.
//!
//! # Source
//! `seqeval`: for BIO, IOB1 and IO its default mode, which follows `conlleval`; for the others its mode `strict` with the scheme.

use std::collections::BTreeSet;

use super::classes::ClassScore;
use super::entity_scheme::EntityScheme;
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
pub fn entities<'a>(labels: &[&'a str], scheme: EntityScheme) -> Vec<Entity<'a>> {
    match scheme {
        EntityScheme::Plain => of_types(labels),
        EntityScheme::Io | EntityScheme::Bio => lenient(labels),
        EntityScheme::Bioes => delimited(labels, 'E', 'S'),
        EntityScheme::Bilou => delimited(labels, 'L', 'U'),
    }
}

/// Returns runs of words of the same type.
fn of_types<'a>(labels: &[&'a str]) -> Vec<Entity<'a>> {
    let mut found = Vec::new();
    for run in labels.chunk_by(PartialEq::eq).scan(0, |first, run| {
        let range = *first..*first + run.len();
        *first = range.end;
        Some(range)
    }) {
        let kind = labels[run.start];
        if kind != "O" {
            found.push(Entity { kind, first: run.start, last: run.end - 1 });
        }
    }
    found
}

fn lenient<'a>(labels: &[&'a str]) -> Vec<Entity<'a>> {
    let mut found = Vec::new();
    let mut before = Label::OUTSIDE;
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

/// Returns entities of one word with the prefix `single`, and those from `B-` over `I-` to the prefix `end`.
fn delimited<'a>(labels: &[&'a str], end: char, single: char) -> Vec<Entity<'a>> {
    let mut found = Vec::new();
    // First word of an entity whose end is not found yet.
    let mut begun: Option<(usize, &str)> = None;
    for (index, label) in labels.iter().enumerate() {
        let Label { prefix, kind } = Label::new(label);
        let first = begun.filter(|(_, begun)| *begun == kind).map(|(first, _)| first);
        begun = None;
        if prefix == single {
            found.push(Entity { kind, first: index, last: index });
        } else if prefix == 'B' {
            begun = Some((index, kind));
        } else if let (Some(first), true) = (first, prefix == end) {
            found.push(Entity { kind, first, last: index });
        } else if prefix == 'I' {
            begun = first.map(|first| (first, kind));
        }
    }
    found
}

#[derive(Clone, Copy)]
struct Label<'a> {
    prefix: char,
    kind: &'a str,
}

impl<'a> Label<'a> {
    const OUTSIDE: Label<'static> = Label { prefix: 'O', kind: "_" };

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
    pub fn add(&mut self, gold: &[&str], predicted: &[&str], scheme: EntityScheme) {
        assert_eq!(gold.len(), predicted.len(), "one prediction per word");
        let gold: BTreeSet<_> = entities(gold, scheme).into_iter().collect();
        let predicted: BTreeSet<_> = entities(predicted, scheme).into_iter().collect();
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
