//! `cloze prepare --dry-run`: a preparation of a sample that writes nothing, and its report.

use pipeline::prepare::{CorpusEstimate, FilteredDocument, Preparation, PrepareConfig, PrepareOptions, PrepareSummary};
use serde_json::{Value, json};
use telemetry::quantities::{bytes, count};
use telemetry::terminal::{json_document, line};
use telemetry::{Clock, Fanout, event_text};

use crate::config::corpora::NamedCorpus;

/// Text about duplicates in a sample.
const LOWER_BOUND: &str =
    "most copies of sampled documents are not in the sample, so this is a lower bound for the whole corpus";

/// Text about the way in which an estimate was made.
const BASIS: &str = "documents are scaled by the ratio of documents, tokens, rows and bytes by that of text; bytes are \
                     those of the first encoded rows";

/// Options of a dry run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DryRunOptions {
    /// Share of the documents in the sample.
    pub(crate) share: f64,
    /// Whether the report is a JSON object.
    pub(crate) json: bool,
}

/// Prepares a sample of each corpus and prints what the filters remove, and estimates for the whole.
pub(super) fn run(corpora: &[NamedCorpus], options: DryRunOptions) -> pipeline::Result<()> {
    let DryRunOptions { share, json } = options;
    let mut reports = Vec::new();
    for corpus in corpora {
        let NamedCorpus { source, prepare, .. } = corpus;
        if let (Some(source), 2.., false) = (source, corpora.len(), json) {
            line(format_args!("source {source}"));
        }
        let summary = sampled(prepare, share).map_err(|error| corpus.with_own_keys(error))?;
        let estimate = summary.estimate.unwrap_or_default();
        let dry_run = DryRun { config: prepare, summary: &summary, share, estimate };
        if json {
            reports.push(dry_run.json(source.as_deref()));
        } else {
            line(dry_run.text());
        }
    }
    if json {
        json_document(&json!({ "corpora": reports }));
    }
    Ok(())
}

fn sampled(config: &PrepareConfig, share: f64) -> pipeline::Result<PrepareSummary> {
    let options = PrepareOptions { null_writer: true, sample: Some(share), ..PrepareOptions::default() };
    Preparation::plan_dry(config)?.run(options, &Clock::system(), &mut Fanout::default())
}

/// Finished dry run of a corpus.
struct DryRun<'a> {
    config: &'a PrepareConfig,
    summary: &'a PrepareSummary,
    share: f64,
    estimate: CorpusEstimate,
}

impl DryRun<'_> {
    /// Returns the report as text: the sample, what each filter removed, first removed documents, the estimate.
    fn text(&self) -> String {
        let Self { config, summary, share, estimate } = self;
        let corpus = &summary.corpus;
        let mut lines = vec![
            format!("{}: dry run, nothing is written", config.inputs.join(", ")),
            format!(
                "  {} lines or documents read; a sample of {share} has {} of {} documents, {} of {}",
                count(summary.lines),
                count(estimate.sampled_documents),
                count(estimate.read_documents),
                bytes(estimate.sampled_text_bytes),
                bytes(estimate.read_text_bytes),
            ),
            format!(
                "  kept of the sample: {} documents, {}, {} tokens",
                count(corpus.documents),
                bytes(corpus.text_bytes),
                count(corpus.tokens)
            ),
        ];
        lines.extend(corpus.filters.iter().map(event_text::filter));
        for FilteredDocument { filter, rule, place, text } in &summary.filtered {
            let text = text.replace(['\n', '\t'], " ");
            lines.push(format!("    {filter}, {rule}, {place}: {}", schemas::printable(&text)));
        }
        let rejected = corpus.rejected.iter();
        lines.extend(rejected.map(|(reason, number)| format!("  rejected or repaired: {} × {reason}", count(*number))));
        if config.decontamination.is_some() {
            let documents = count(corpus.contaminated.documents);
            lines.push(format!("  {documents} documents share a run of words with a test set"));
        }
        lines.extend(config.duplicates.as_ref().map(|_| self.duplicates()));
        lines.push(self.estimates());
        if !self.estimate.has_all_bytes {
            lines.push(format!("  basis: {BASIS}"));
        }
        lines.join("\n")
    }

    fn duplicates(&self) -> String {
        let found = &self.summary.corpus.duplicates;
        let [exact, near] = [found.exact_documents, found.near_documents].map(count);
        let share = 100.0 * self.duplicate_share();
        let bound = if self.estimate.is_whole() { String::new() } else { format!("; {LOWER_BOUND}") };
        format!(
            "  duplicates within the sample: {exact} exact, {near} near, {share:.2} % of the compared documents{bound}"
        )
    }

    /// Share of the compared documents that are removed as duplicates.
    fn duplicate_share(&self) -> f64 {
        let corpus = &self.summary.corpus;
        let removed = corpus.duplicates.exact_documents + corpus.duplicates.near_documents;
        removed as f64 / (removed + corpus.documents).max(1) as f64
    }

    fn estimates(&self) -> String {
        let CorpusEstimate { documents, tokens, rows, shards, shard_bytes, has_all_bytes, .. } = self.estimate;
        let is_whole = self.estimate.is_whole();
        let number = |value: f64| if is_whole { integer(value) } else { rounded(value) };
        let [documents, tokens, rows, shards] = [documents, tokens, rows, shards].map(|value| count(number(value)));
        let [about, about_bytes] = [is_whole, has_all_bytes].map(|is_exact| if is_exact { "" } else { "about " });
        let bytes = bytes(if has_all_bytes { integer(shard_bytes) } else { rounded(shard_bytes) });
        format!(
            "  estimate for the whole corpus: {about}{documents} documents, {tokens} tokens, {rows} rows, {shards} shards \
             of {about_bytes}{bytes} in all"
        )
    }

    /// Returns the report as a JSON object.
    fn json(&self, source: Option<&str>) -> Value {
        let Self { config, summary, share, estimate } = self;
        let corpus = &summary.corpus;
        let example = |document: &FilteredDocument| {
            let FilteredDocument { filter, rule, place, text } = document;
            json!({ "filter": filter, "rule": rule, "place": place, "text": text })
        };
        let duplicates = config.duplicates.as_ref().map(|_| {
            json!({
                "exact": corpus.duplicates.exact_documents,
                "near": corpus.duplicates.near_documents,
                "share": self.duplicate_share(),
                "is_lower_bound": !estimate.is_whole(),
            })
        });
        let contaminated = config.decontamination.as_ref().map(|_| &corpus.contaminated);
        json!({
            "source": source,
            "inputs": config.inputs,
            "sample": share,
            "lines_read": summary.lines,
            "documents_read": estimate.read_documents,
            "text_bytes_read": estimate.read_text_bytes,
            "documents_sampled": estimate.sampled_documents,
            "text_bytes_sampled": estimate.sampled_text_bytes,
            "kept": {
                "documents": corpus.documents,
                "text_bytes": corpus.text_bytes,
                "words": corpus.words,
                "tokens": corpus.tokens,
                "unknown_tokens": corpus.unknown,
            },
            "filters": corpus.filters,
            "removed_examples": summary.filtered.iter().map(example).collect::<Vec<_>>(),
            "rejected": corpus.rejected,
            "duplicates": duplicates,
            "contaminated": contaminated,
            "estimate": {
                "is_exact": estimate.is_whole(),
                "documents": integer(estimate.documents),
                "tokens": integer(estimate.tokens),
                "rows": integer(estimate.rows),
                "shards": integer(estimate.shards),
                "shard_bytes": integer(estimate.shard_bytes),
                "has_all_bytes": estimate.has_all_bytes,
                "basis": (!estimate.has_all_bytes).then_some(BASIS),
            },
        })
    }
}

/// Rounds a number to three digits.
fn rounded(value: f64) -> u64 {
    let unit = 10_f64.powf((value.max(1.0).log10().floor() - 2.0).max(0.0));
    integer((value / unit).round() * unit)
}

fn integer(value: f64) -> u64 {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a saturating cast of a count")]
    let number = value.round() as u64;
    number
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_has_three_digits() {
        assert_eq!([1_234_500.0, 14.2, 0.0, 999.6].map(rounded), [1_230_000, 14, 0, 1000]);
    }
}
