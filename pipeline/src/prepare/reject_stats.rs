//! Rejected text: counts while parts are made, the bound on them, and the report from the commit records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use schemas::{PartId, Sealed as _};
use store::Store;

use super::commit_record::CommitRecord;
use super::text_stats::most_frequent;
use crate::corpus::Piece;
use crate::{Error, Result};

/// Lines before which nothing is judged.
const LINES_MIN: u64 = 1000;

/// As often may the lines that are to come be shorter than those that were read.
const SHORTER: u64 = 4;

/// Places that are named.
const PLACES: usize = 5;

/// Lines, and what is wrong with them, of all workers.
#[derive(Debug, Default)]
pub(crate) struct RejectStats(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    lines: u64,
    rejected: BTreeMap<String, u64>,
    places: Vec<String>,
}

impl RejectStats {
    /// Adds lines, and what was wrong with them: reasons and places.
    pub(crate) fn add(&self, lines: u64, complaints: Vec<(String, String)>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.lines += lines;
        for (reason, place) in complaints {
            if counts.places.len() < PLACES {
                counts.places.push(format!("{place} ({reason})"));
            }
            *counts.rejected.entry(reason).or_default() += 1;
        }
    }

    /// Adds what another has found, which lies behind.
    pub(crate) fn append(&self, other: Self) {
        let other = other.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.lines += other.lines;
        for (reason, more) in other.rejected {
            *counts.rejected.entry(reason).or_default() += more;
        }
        let room = PLACES.saturating_sub(counts.places.len());
        counts.places.extend(other.places.into_iter().take(room));
    }

    /// Refuses more dirt than is allowed in a corpus that was read to its end; says what there is.
    pub(crate) fn judge_all(&self, max_bad_lines: Option<u64>) -> Result<Option<String>> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (bad, max) = (counts.rejected.values().sum::<u64>(), max_bad_lines.unwrap_or(usual_max(counts.lines)));
        let places = || counts.places.iter().map(String::as_str);
        if bad > max {
            return Err(Error::Poison(too_dirty(&counts.lines.to_string(), &counts.rejected, max, places())));
        }
        let first = || places().collect::<Vec<_>>().join(", ");
        let said = || format!("rejected or repaired: {}; first {}", reasons(&counts.rejected), first());
        Ok((bad > 0).then(said))
    }

    /// Refuses a corpus that cannot come to less dirt than is allowed: more than the bound that was asked for; or, where the
    /// bound is a share of lines that are not counted yet, most of what was read, and more than that share of all lines
    /// that there can be, `done` of the corpus being read.
    pub(super) fn judge(&self, max_bad_lines: Option<u64>, done: f64) -> Result<()> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bad: u64 = counts.rejected.values().sum();
        let all = (counts.lines * SHORTER) as f64 / done.max(1e-9);
        // A number of lines, and no less than ten.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast of a count")]
        let max = max_bad_lines.unwrap_or((all / 1000.0).max(10.0) as u64);
        let early = max_bad_lines.is_some() || (counts.lines >= LINES_MIN && bad * 2 > counts.lines);
        if !early || bad <= max {
            return Ok(());
        }
        let of = format!("the first {}", counts.lines);
        Err(Error::Poison(too_dirty(&of, &counts.rejected, max, counts.places.iter().map(String::as_str))))
    }
}

/// Lines that may be rejected or repaired of so many, where nobody says how many may.
pub(super) fn usual_max(lines: u64) -> u64 {
    (lines / 1000).max(10)
}

/// What is said of a corpus of which more lines than `max` were rejected or repaired, among so many.
pub(super) fn too_dirty<'p>(
    of: &str,
    rejected: &BTreeMap<String, u64>,
    max: u64,
    first: impl Iterator<Item = &'p str>,
) -> String {
    let (bad, reasons) = (rejected.values().sum::<u64>(), reasons(rejected));
    let first = first.collect::<Vec<_>>().join(", ");
    let first = if first.is_empty() { first } else { format!("; first {first}") };
    let hint = "mend the corpus, or raise `prepare.max_bad_lines`";
    format!("{bad} of {of} lines were rejected or repaired ({reasons}), more than {max}{first}; {hint}")
}

/// Reasons with their counts.
pub(super) fn reasons(rejected: &BTreeMap<String, u64>) -> String {
    let reasons: Vec<_> = rejected.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    reasons.join(", ")
}

/// What was noted while parts were made.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Noted {
    /// Something that was rejected or repaired, the first few of each segment, in the order of the parts.
    pub complaints: Vec<Complained>,
    /// What became the unknown token, with how often, the most frequent first: of the words of each segment that were
    /// looked at, and of those the most frequent.
    pub unknown_words: Vec<(String, u64)>,
}

/// A place of the corpus where something was rejected or repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Complained {
    /// What is wrong there.
    pub reason: String,
    /// The piece of a file.
    pub piece: Piece,
    /// 0-based line within it.
    pub line: u64,
}

/// What was noted of these parts.
///
/// # Errors
/// If a record cannot be read.
pub(crate) fn noted(store: &Store, parts: &BTreeSet<PartId>, most: usize) -> Result<Noted> {
    let (mut complaints, mut unknown) = (Vec::new(), BTreeMap::<String, u64>::new());
    for entry in store.list("parts")? {
        let damaged = |message: &dyn std::fmt::Display| {
            let place = store.place(&entry.name);
            Error::Config(format!("{place}: {message}; run `cloze prepare` again, it makes the segment again"))
        };
        let record = CommitRecord::unseal(&store.read(&entry.name)?).map_err(|error| damaged(&error))?;
        if !parts.contains(&record.part.id) {
            continue;
        }
        for (word, count) in record.unknown_words {
            *unknown.entry(word).or_default() += count;
        }
        for example in record.examples {
            let piece =
                record.part.pieces.get(example.piece).ok_or_else(|| damaged(&"it names no piece of its part"))?;
            if complaints.len() < most {
                complaints.push(Complained { reason: example.reason, piece: piece.clone(), line: example.line });
            }
        }
    }
    Ok(Noted { complaints, unknown_words: most_frequent(unknown, most) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(lines: u64, bad: u64) -> RejectStats {
        let dirt = RejectStats::default();
        let complaint = |line| ("missing_field".to_owned(), format!("a.jsonl:{line}"));
        dirt.add(lines, (1..=bad).map(complaint).collect());
        dirt
    }

    #[test]
    fn a_corpus_of_dirt_is_refused_as_soon_as_nothing_can_save_it() {
        let error =
            found(2000, 2000).judge(None, 0.01).expect_err("0.4 % of all lines are 3200 at the most").to_string();
        assert!(
            error.contains("2000 of the first 2000 lines") && error.contains("first a.jsonl:1 (missing"),
            "{error}"
        );
        assert!(error.contains("more than 800") && error.contains("`prepare.max_bad_lines`"), "{error}");
        found(2000, 2000).judge(None, 0.001).expect("the rest may be clean, and long");
        found(900, 900).judge(None, 1.0).expect("too few lines to judge by");
        found(100_000, 49_000).judge(None, 0.9).expect("most of it is clean: counted, and judged in the end");
        found(10, 3).judge(Some(3), 0.0).expect("as many as are allowed");
        found(10, 4).judge(Some(3), 0.0).expect_err("one more, whatever follows");
    }
}
