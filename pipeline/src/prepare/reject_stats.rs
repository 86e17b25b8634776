//! Rejected text: counts while parts are made, their limit, and the report from the commit records.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, PoisonError};

use schemas::{PartId, Sealed as _};
use store::Store;

use super::commit_record::{CommitRecord, Example};
use super::text_rules::FilteredDocument;
use super::text_stats::most_frequent;
use crate::corpus::{Piece, RejectReason};
use crate::{Error, Result};

/// Minimum number of lines before the limit is checked.
const LINES_MIN: u64 = 1000;

/// Maximum factor by which later lines can be shorter than the lines read so far.
const SHORTER: u64 = 4;

/// Maximum number of reported places.
const PLACES: usize = 5;

/// Line counts and reject counts of all workers.
#[derive(Debug, Default)]
pub(crate) struct RejectStats(Mutex<Counts>);

#[derive(Debug, Default)]
struct Counts {
    lines: u64,
    rejected: BTreeMap<String, u64>,
    places: Vec<String>,
}

impl RejectStats {
    /// Adds lines, and the reasons and places of rejects.
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

    /// Adds the counts of a segment that exists. `path` returns the path of a piece.
    pub(super) fn add_recorded(&self, record: &CommitRecord, path: impl Fn(&Piece) -> String) {
        let places = record.examples.iter().map(|Example { reason, piece, line }| {
            let piece = &record.part.pieces[*piece];
            format!("{} ({reason})", piece.describe(&path(piece), *line))
        });
        self.merge(record.lines, &record.report.rejected, places);
    }

    /// Appends the counts of text that follows.
    pub(crate) fn append(&self, other: Self) {
        let Counts { lines, rejected, places } = other.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        self.merge(lines, &rejected, places.into_iter());
    }

    fn merge(&self, lines: u64, rejected: &BTreeMap<String, u64>, places: impl Iterator<Item = String>) {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.lines += lines;
        for (reason, more) in rejected {
            *counts.rejected.entry(reason.clone()).or_default() += more;
        }
        let room = PLACES.saturating_sub(counts.places.len());
        counts.places.extend(places.take(room));
    }

    /// Rejects a corpus with more bad lines than allowed, after all of it was read. Otherwise returns a summary of the
    /// rejects.
    pub(crate) fn check_all(&self, max_bad_lines: Option<u64>) -> Result<Option<String>> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bad = counts.rejected.values().sum::<u64>();
        let max = max_bad_lines.unwrap_or(usual_max(counts.lines));
        let places = || counts.places.iter().map(String::as_str);
        if bad > max {
            return Err(Error::UnusableCorpus(too_many_bad_lines(
                &counts.lines.to_string(),
                &counts.rejected,
                max,
                places(),
            )));
        }
        let first = || places().collect::<Vec<_>>().join(", ");
        let said = || format!("rejected or repaired: {}; first {}", reasons(&counts.rejected), first());
        Ok((bad > 0).then(said))
    }

    /// Rejects a corpus that must exceed the limit of bad lines. A configured limit counts lines. The default limit is
    /// a share of all lines, whose number is not known yet. Then most lines read so far must be bad, and more than that
    /// share of the maximum possible number of lines. `done` is the share of the corpus that was read.
    pub(super) fn check(&self, max_bad_lines: Option<u64>, done: f64) -> Result<()> {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let bad: u64 = counts.rejected.values().sum();
        let all = (counts.lines * SHORTER) as f64 / done.max(1e-9);
        // Default limit: at least ten lines.
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast of a count")]
        let max = max_bad_lines.unwrap_or((all / 1000.0).max(10.0) as u64);
        let early = max_bad_lines.is_some() || (counts.lines >= LINES_MIN && bad * 2 > counts.lines);
        if !early || bad <= max {
            return Ok(());
        }
        let of = format!("the first {}", counts.lines);
        Err(Error::UnusableCorpus(too_many_bad_lines(
            &of,
            &counts.rejected,
            max,
            counts.places.iter().map(String::as_str),
        )))
    }
}

/// Default limit of rejected or repaired lines for a corpus with this many lines.
pub(super) fn usual_max(lines: u64) -> u64 {
    (lines / 1000).max(10)
}

/// Returns the error message for a corpus with more than `max` rejected or repaired lines.
pub(super) fn too_many_bad_lines<'p>(
    of: &str,
    rejected: &BTreeMap<String, u64>,
    max: u64,
    first: impl Iterator<Item = &'p str>,
) -> String {
    let bad = rejected.values().sum::<u64>();
    let reasons = reasons(rejected);
    let first = first.collect::<Vec<_>>().join(", ");
    let first = if first.is_empty() { first } else { format!("; first {first}") };
    let is_long = has_reason(rejected, RejectReason::TooLong);
    let longer = if is_long { "raise `prepare.max_document_bytes` if they are too long, " } else { "" };
    let is_encoded = has_reason(rejected, RejectReason::InvalidUtf8);
    let encoding = if is_encoded { "set `prepare.encoding` if the text is not UTF-8, " } else { "" };
    let is_broken = has_reason(rejected, RejectReason::BrokenRecord);
    let quotes = if is_broken { "write a quote within a field of a table twice, " } else { "" };
    let hint = format!("fix the corpus, {encoding}{longer}{quotes}or raise `prepare.max_bad_lines`");
    format!("{bad} of {of} lines were rejected or repaired ({reasons}), more than {max}{first}; {hint}")
}

/// Whether documents were rejected or repaired for that reason.
pub(super) fn has_reason(rejected: &BTreeMap<String, u64>, reason: RejectReason) -> bool {
    rejected.contains_key(&reason.to_string())
}

/// Formats reasons with their counts.
pub(super) fn reasons(rejected: &BTreeMap<String, u64>) -> String {
    let reasons: Vec<_> = rejected.iter().map(|(reason, count)| format!("{reason} {count}")).collect();
    reasons.join(", ")
}

/// Rejects and unknown words, as recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RecordedReject {
    /// First rejected or repaired lines of each segment, in the order of the parts.
    pub complaints: Vec<RejectsOfReason>,
    /// First documents that filters removed in each segment, in the order of the parts.
    pub filtered: Vec<FilteredDocument>,
    /// Words that became the unknown token with their counts, the most frequent first. Each segment contributes the
    /// most frequent of its examined words.
    pub unknown_words: Vec<(String, u64)>,
}

/// Place of the corpus where a line was rejected or repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RejectsOfReason {
    /// Reason.
    pub reason: String,
    /// Piece of a file.
    pub piece: Piece,
    /// 0-based line within the piece.
    pub line: u64,
}

/// Reads the recorded rejects and unknown words of these parts.
///
/// # Errors
/// If a record cannot be read.
pub(crate) fn noted(store: &Store, parts: &BTreeSet<PartId>, most: usize) -> Result<RecordedReject> {
    let mut complaints = Vec::new();
    let mut filtered = Vec::new();
    let mut unknown = BTreeMap::<String, u64>::new();
    for entry in store.list("parts")? {
        let damaged = |message: &dyn std::fmt::Display| {
            let place = store.place(&entry.name);
            Error::Config(format!("{place}: {message}; run `cloze prepare` again to remake the segment"))
        };
        let record = CommitRecord::unseal(&store.get(&entry.name)?).map_err(|error| damaged(&error))?;
        if !parts.contains(&record.part.id) {
            continue;
        }
        for (word, count) in record.unknown_words {
            *unknown.entry(word).or_default() += count;
        }
        for text in record.filtered.into_iter().take(most.saturating_sub(filtered.len())) {
            let piece = record.part.pieces.get(text.piece).ok_or_else(|| damaged(&"it names no piece of its part"))?;
            let place = piece.describe(&piece.name, text.line);
            filtered.push(FilteredDocument { filter: text.filter, rule: text.rule, place, text: text.text });
        }
        for example in record.examples {
            let piece =
                record.part.pieces.get(example.piece).ok_or_else(|| damaged(&"it names no piece of its part"))?;
            if complaints.len() < most {
                complaints.push(RejectsOfReason { reason: example.reason, piece: piece.clone(), line: example.line });
            }
        }
    }
    Ok(RecordedReject { complaints, filtered, unknown_words: most_frequent(unknown, most) })
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
    fn corpus_above_the_reject_limit_is_refused_early() {
        let error =
            found(2000, 2000).check(None, 0.01).expect_err("0.4 % of all lines are 3200 at the most").to_string();
        assert!(
            error.contains("2000 of the first 2000 lines") && error.contains("first a.jsonl:1 (missing"),
            "{error}"
        );
        assert!(error.contains("more than 800") && error.contains("`prepare.max_bad_lines`"), "{error}");
        found(2000, 2000).check(None, 0.001).expect("the rest may be clean, and long");
        found(900, 900).check(None, 1.0).expect("too few lines to judge by");
        found(100_000, 49_000).check(None, 0.9).expect("most of it is clean: counted, and judged in the end");
        found(10, 3).check(Some(3), 0.0).expect("as many as are allowed");
        found(10, 4).check(Some(3), 0.0).expect_err("one more, whatever follows");
    }
}
