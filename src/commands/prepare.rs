//! `cloze prepare`: the offline half, with its progress and its closing report.

use std::sync::Arc;
use std::time::Instant;

use pipeline::actor::Gauges;
use pipeline::prepare::{self, Observer, Preparation, PrepareOptions, PreparePlan, Summary};

use crate::cli::ConfigArgs;
use crate::config::Parsed;
use crate::terminal::{Progress, bytes, count, line, note};

/// Prepares, or continues to.
pub(crate) fn run(args: &ConfigArgs) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_config()?.prepare;
    let mut watcher = Watcher { bar: None, began: Instant::now() };
    let summary = prepare::run(&config, PrepareOptions::default(), &mut watcher);
    watcher.finish();
    report(&summary?, &config.folder.display().to_string());
    Ok(())
}

/// Leaves a document out of the corpus.
pub(crate) fn forget(args: &ConfigArgs, document: &str) -> anyhow::Result<()> {
    let config = Parsed::read(&args.config, &args.set)?.into_config()?.prepare;
    let mut watcher = Watcher { bar: None, began: Instant::now() };
    let done = Preparation::plan(&config).and_then(|preparation| preparation.forget(document, &mut watcher));
    watcher.finish();
    let (summary, before) = done?;
    let folder = config.folder.display().to_string();
    line(match before {
        Some(generation) => format!("{folder}: forgotten already, in generation {generation}"),
        None => format!("{folder}: forgotten; runs that read the parts that held it are refused from now on"),
    });
    report(&summary, &folder);
    Ok(())
}

/// How documents became samples, in words.
fn packing(summary: &Summary) -> String {
    let report = &summary.corpus.packing;
    let counts = [
        (report.sentences, "sentences"),
        (report.cut_sentences, "of them longer than a sample, cut"),
        (report.cut_documents, "documents longer than a sample, truncated"),
        (report.cut_tokens, "tokens in no sample"),
    ];
    let found = counts.iter().filter(|(number, _)| *number > 0);
    let found = found.map(|(number, what)| format!("{} {what}", count(*number)));
    let parts: Vec<String> = std::iter::once(format!("packed as `{}`", summary.pack)).chain(found).collect();
    parts.join(", ")
}

/// Draws the progress.
struct Watcher {
    bar: Option<Progress>,
    began: Instant,
}

impl Observer for Watcher {
    fn began(&mut self, plan: &PreparePlan, progress: &Arc<prepare::Progress>, _gauges: Gauges) {
        note(format_args!(
            "{} files, {} in {} parts for {} lanes; at most {} of text in memory",
            count(plan.files as u64),
            bytes(plan.bytes),
            count(plan.parts as u64),
            plan.lanes,
            bytes(plan.text_bytes_max),
        ));
        if let Some(change) = &plan.change {
            note(change);
        }
        if let Some((name, size)) = &plan.largest_compressed {
            note(format_args!("the largest compressed file takes one lane from end to end: {name}, {}", bytes(*size)));
        }
        self.bar = Some(Progress::new("prepare", progress.bytes_total));
    }

    fn progressed(&mut self, progress: &prepare::Progress) {
        let seconds = self.began.elapsed().as_secs_f64().max(1e-9);
        let (text, tokens) = (progress.text_bytes() as f64 / 1e6 / seconds, progress.tokens() as f64 / 1e6 / seconds);
        let message =
            format!("{}/{} parts  {text:.1} MB/s  {tokens:.2} M tokens/s", progress.parts(), progress.parts_total);
        if let Some(bar) = &mut self.bar {
            bar.set(progress.bytes(), &message);
        }
    }
}

impl Watcher {
    fn finish(&self) {
        if let Some(bar) = &self.bar {
            bar.finish();
        }
    }
}

fn report(summary: &Summary, folder: &str) {
    if summary.nothing_to_do {
        line(format_args!("{folder}: nothing to do, all {} parts are there", summary.parts_skipped));
        return;
    }
    let corpus = &summary.corpus;
    let per_second = summary.text_bytes_made as f64 / 1e6 / summary.elapsed.as_secs_f64().max(1e-9);
    line(format_args!(
        "{folder}: {} parts made, {} kept from before, {} of input read, in {:.1} s ({per_second:.1} MB/s of text)",
        summary.parts_made,
        summary.parts_skipped,
        bytes(summary.bytes_read),
        summary.elapsed.as_secs_f64(),
    ));
    line(format_args!(
        "  {} documents, {} words, {} tokens: {:.2} tokens per word, {:.2} % unknown",
        count(corpus.documents),
        count(corpus.words),
        count(corpus.tokens),
        summary.tokens_per_word(),
        100.0 * summary.unknown_rate(),
    ));
    line(format_args!("  {}", packing(summary)));
    line(format_args!(
        "  {} samples to train on, {} to validate on; {:.2} % of their rows would be padding",
        count(summary.train.0),
        count(summary.valid.0),
        100.0 * summary.padding_share(),
    ));
    line(format_args!("  {} on disk, {:.2} bytes per token", bytes(summary.shard_bytes), summary.bytes_per_token()));
    if corpus.forgotten > 0 {
        line(format_args!("  documents forgotten and left out: {}", count(corpus.forgotten)));
    }
    for (reason, number) in &corpus.rejected {
        line(format_args!("  rejected or repaired: {} × {reason}", count(*number)));
    }
    if summary.valid.0 == 0 {
        line("  warning: no document fell into the validation split; raise `prepare.valid_fraction` to validate");
    }
    if let Some(warning) = summary.unknown_warning() {
        line(format_args!("  warning: {warning}"));
    }
}
