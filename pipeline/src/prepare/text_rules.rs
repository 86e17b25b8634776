//! Normalization and filters of `[prepare]`, with their counts in a segment.

use std::borrow::Cow;

use filters::filter::FileDigest;
use filters::{AnyFilter, FilterVerdict, LoadedFilter, Normalization, RemovalReason};
use schemas::Problem;
use schemas::manifest::{CorpusReport, FilterReport};

use super::commit_record::FilteredText;
use crate::{Error, Result};

/// Maximum number of removed documents that a segment records for each filter.
const RECORDED: usize = 3;

/// Maximum number of characters that are recorded of a removed document.
const RECORDED_CHARACTERS: usize = 200;

/// Name of the normalization in reports, and of its rule.
const NORMALIZATION: &str = "normalization";
const BLANK: &str = "blank";

/// Normalization and filters. All workers share them.
#[derive(Debug, Default)]
pub(super) struct TextRules {
    normalization: Option<Normalization>,
    filters: Vec<LoadedFilter>,
}

/// Document that a filter removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilteredDocument {
    /// Name of the filter.
    pub filter: String,
    /// Name of the rule.
    pub rule: String,
    /// File and line.
    pub place: String,
    /// Beginning of the text, as it reached the filter.
    pub text: String,
}

/// Removal of a document by the normalization or a filter.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct FilterRemoval {
    /// Number of the step, for [`RuleCounts::name`].
    pub(super) step: usize,
    pub(super) reason: RemovalReason,
}

/// Place of a document in its part.
#[derive(Clone, Copy, Debug)]
pub(super) struct TextPlace {
    /// Index of the piece.
    pub(super) piece: usize,
    /// First line within the piece, 0-based.
    pub(super) line: u64,
}

impl TextRules {
    /// Reads the word lists of the filters.
    ///
    /// # Errors
    /// If a filter is invalid.
    pub(super) fn load(normalization: &Normalization, filters: &[AnyFilter]) -> Result<Self> {
        let numbered = filters.iter().enumerate();
        let loaded = numbered.map(|(number, filter)| filter.load().map_err(|problem| named(number, filter, problem)));
        let filters: std::result::Result<_, Problem> = loaded.collect();
        let filters = filters.map_err(|problem| Error::Config(problem.to_string()))?;
        let normalization = Some(normalization).filter(|normalization| !normalization.is_none()).cloned();
        Ok(Self { normalization, filters })
    }

    /// Returns the problems of settings that need no file.
    pub(super) fn problems(filters: &[AnyFilter]) -> Vec<Problem> {
        let numbered = filters.iter().enumerate();
        let problems = numbered.flat_map(|(number, filter)| {
            filter.problems().into_iter().map(move |problem| named(number, filter, problem))
        });
        problems.collect()
    }

    /// Returns the digest of each word list, with the number of its filter.
    pub(super) fn word_lists(&self) -> impl Iterator<Item = (usize, &FileDigest)> {
        self.filters.iter().enumerate().filter_map(|(number, filter)| Some(number).zip(filter.file()))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.normalization.is_none() && self.filters.is_empty()
    }

    /// Returns the names of all steps: kinds, numbered from the second one of a kind on.
    fn names(&self) -> Vec<String> {
        let normalization = self.normalization.iter().map(|_| NORMALIZATION);
        let mut names: Vec<String> = Vec::new();
        for kind in normalization.chain(self.filters.iter().map(LoadedFilter::kind)) {
            let numbered = (2..).map(|number| format!("{kind}_{number}"));
            let free = std::iter::once(kind.to_owned()).chain(numbered).find(|name| !names.contains(name));
            names.extend(free);
        }
        names
    }

    /// Returns the text for the tokenizer, or the reason if a filter removes it.
    pub(super) fn apply<'t>(
        &self,
        text: &'t str,
        place: TextPlace,
        counts: &mut RuleCounts,
    ) -> std::result::Result<Cow<'t, str>, FilterRemoval> {
        let mut text = Cow::Borrowed(text);
        let mut step = 0;
        if let Some(normalization) = &self.normalization {
            counts.reports[step].read.add_text(&text);
            let new = match normalization.apply(&text) {
                Cow::Borrowed(_) => None,
                Cow::Owned(new) => Some(new),
            };
            if let Some(new) = new {
                if new.trim().is_empty() {
                    counts.remove(step, BLANK, &text, place);
                    return Err(FilterRemoval { step, reason: RemovalReason::of_rule(BLANK) });
                }
                counts.change(step, &text, &new);
                text = Cow::Owned(new);
            }
            step += 1;
        }
        for (step, filter) in (step..).zip(&self.filters) {
            counts.reports[step].read.add_text(&text);
            match filter.apply(&text) {
                FilterVerdict::Keep => {}
                FilterVerdict::Change(new) => {
                    counts.change(step, &text, &new);
                    text = Cow::Owned(new);
                }
                FilterVerdict::Remove(reason) => {
                    counts.remove(step, reason.rule, &text, place);
                    return Err(FilterRemoval { step, reason });
                }
            }
        }
        Ok(text)
    }
}

/// Adds the filter to the key of a problem.
fn named(number: usize, filter: &AnyFilter, problem: Problem) -> Problem {
    let key = format!("prepare.filters[{number}].{}", problem.key);
    let message = format!("filter `{}`: {}", filter.kind(), problem.message);
    Problem { key, message, ..problem }
}

/// Counts of all steps in a segment, and the first removed documents.
#[derive(Debug)]
pub(super) struct RuleCounts {
    reports: Vec<FilterReport>,
    /// First removed documents of each step.
    removed: Vec<Vec<FilteredText>>,
}

impl RuleCounts {
    pub(super) fn new(rules: &TextRules) -> Self {
        let names = rules.names();
        let removed = vec![Vec::new(); names.len()];
        let reports = names.into_iter().map(|name| FilterReport { name, ..FilterReport::default() });
        Self { reports: reports.collect(), removed }
    }

    /// Returns the name of a step.
    pub(super) fn name(&self, step: usize) -> &str {
        &self.reports[step].name
    }

    fn change(&mut self, step: usize, before: &str, after: &str) {
        self.reports[step].changed += 1;
        self.reports[step].cut_bytes += before.len().saturating_sub(after.len()) as u64;
    }

    fn remove(&mut self, step: usize, rule: &str, text: &str, place: TextPlace) {
        let report = &mut self.reports[step];
        match report.removed.get_mut(rule) {
            Some(count) => count.add_text(text),
            None => report.removed.entry(rule.to_owned()).or_default().add_text(text),
        }
        if self.removed[step].len() < RECORDED {
            let TextPlace { piece, line } = place;
            let text = text.chars().take(RECORDED_CHARACTERS).collect();
            self.removed[step].push(FilteredText {
                filter: report.name.clone(),
                rule: rule.to_owned(),
                piece,
                line,
                text,
            });
        }
    }

    /// Returns the reports of all steps, and the first removed documents of each.
    pub(super) fn finish(self) -> (Vec<FilterReport>, Vec<FilteredText>) {
        (self.reports, self.removed.into_iter().flatten().collect())
    }
}

/// Returns the error for a corpus without documents, if filters or decontamination removed some.
pub(super) fn all_removed(report: &CorpusReport, inputs: &[String]) -> Option<Error> {
    let mut parts = Vec::new();
    for filter in report.filters.iter().filter(|filter| !filter.removed.is_empty()) {
        let rules = filter.removed.iter().map(|(rule, count)| format!("{rule} {}", count.documents));
        let rules = rules.collect::<Vec<_>>().join(", ");
        parts.push(format!("`{}` removed {} ({rules})", filter.name, filter.removed_in_all().documents));
    }
    let mut hint = "change the filter in `[[prepare.filters]]`, or try its settings with `cloze prepare --dry-run`";
    if report.contaminated.documents > 0 {
        if parts.is_empty() {
            hint = "change the test sets of `[prepare.decontamination]`, or prepare another corpus";
        }
        parts.push(format!("decontamination removed {}", report.contaminated.documents));
    }
    let inputs = inputs.join("`, `");
    let removed = parts.join(", ");
    let error = || Error::UnusableCorpus(format!("`{inputs}`: no document is left: {removed}; {hint}"));
    (!parts.is_empty()).then(error)
}
