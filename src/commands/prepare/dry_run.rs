//! `cloze prepare --dry-run`: a preparation of a sample that writes nothing, and its report.

use pipeline::prepare::{FilteredDocument, Preparation, PrepareConfig, PrepareOptions, PrepareSummary};
use telemetry::quantities::{bytes, count};
use telemetry::terminal::outcome;
use telemetry::{Clock, Fanout, event_text};

use crate::config::corpora::NamedCorpus;

/// Prepares a sample of each corpus and prints what the filters remove.
pub(super) fn run(corpora: &[NamedCorpus], share: f64) -> pipeline::Result<()> {
    for corpus in corpora {
        let NamedCorpus { source, prepare, .. } = corpus;
        if let (Some(source), 2..) = (source, corpora.len()) {
            outcome(format_args!("source {source}"));
        }
        let summary = sampled(prepare, share).map_err(|error| corpus.with_own_keys(error))?;
        outcome(report(prepare, &summary, share));
    }
    Ok(())
}

fn sampled(config: &PrepareConfig, share: f64) -> pipeline::Result<PrepareSummary> {
    let options = PrepareOptions { null_writer: true, sample: Some(share), ..PrepareOptions::default() };
    Preparation::plan_dry(config)?.run(options, &Clock::system(), &mut Fanout::default())
}

/// Returns the report: counts of the sample, what each filter removed, first removed documents, an estimate for the
/// whole corpus.
fn report(config: &PrepareConfig, summary: &PrepareSummary, share: f64) -> String {
    let corpus = &summary.corpus;
    let mut lines = vec![
        format!("{}: dry run, nothing is written", config.inputs.join(", ")),
        format!(
            "  {} lines or documents read; a sample of {share} has {} documents, {}, {} tokens",
            count(summary.lines),
            count(corpus.documents),
            bytes(corpus.text_bytes),
            count(corpus.tokens),
        ),
    ];
    lines.extend(corpus.filters.iter().map(event_text::filter));
    for FilteredDocument { filter, rule, place, text } in &summary.filtered {
        let text = text.replace(['\n', '\t'], " ");
        lines.push(format!("    {filter}, {rule}, {place}: {}", schemas::printable(&text)));
    }
    let rejected = corpus.rejected.iter();
    lines.extend(rejected.map(|(reason, number)| format!("  rejected or repaired: {} × {reason}", count(*number))));
    if !corpus.contaminated.is_empty() {
        let documents = count(corpus.contaminated.documents);
        lines.push(format!("  {documents} documents share a run of words with a test set"));
    }
    if config.duplicates.is_some() {
        lines.push("  duplicates are not compared in a dry run, and are still in these numbers".to_owned());
    }
    let [documents, tokens] = [corpus.documents, corpus.tokens].map(|number| estimate(number, share));
    lines.push(format!("  estimate for the whole corpus: {documents} documents, {tokens} tokens"));
    lines.join("\n")
}

/// Scales a number of the sample to the corpus, with three digits.
fn estimate(number: u64, share: f64) -> String {
    let whole = number as f64 / share;
    let unit = 10_f64.powf((whole.max(1.0).log10().floor() - 2.0).max(0.0));
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a count")]
    let rounded = ((whole / unit).round() * unit) as u64;
    let about = if share < 1.0 { "about " } else { "" };
    format!("{about}{}", count(if share < 1.0 { rounded } else { number }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_estimate_has_three_digits() {
        assert_eq!(estimate(12_345, 0.01), "about 1,230,000");
        assert_eq!(estimate(7, 0.5), "about 14");
        assert_eq!(estimate(12_345, 1.0), "12,345");
    }
}
