//! Events of a preparation as text.

use schemas::manifest::FilterReport;

use crate::preparation::{LargestFile, PrepareEnd, PrepareProgress, PrepareStart};
use crate::quantities::{bytes, count, counted, eta};

pub(super) fn start(start: &PrepareStart) -> String {
    let plan = format!(
        "{}, {} in {} for {}; at most {} of text in memory",
        counted(start.files, "file"),
        bytes(start.bytes),
        counted(start.parts, "part"),
        counted(start.workers, "worker"),
        bytes(start.text_bytes_max),
    );
    let largest = start.largest_compressed.as_ref().map(|LargestFile { name, bytes: size }| {
        format!("largest compressed file, which one worker reads from start to end: {name}, {}", bytes(*size))
    });
    let tokenizer = (!start.tokenized_by.is_empty()).then(|| format!("text to ids: {}", start.tokenized_by));
    [Some(plan), tokenizer, start.change.clone(), largest].into_iter().flatten().collect::<Vec<_>>().join("\n")
}

/// Returns the text next to a progress bar: parts and rates.
pub(crate) fn beside_progress_bar(progress: &PrepareProgress) -> String {
    let PrepareProgress { parts, parts_total, text_bytes_per_s, tokens_per_s, .. } = progress;
    let text = text_bytes_per_s / 1e6;
    let tokens = tokens_per_s / 1e6;
    format!("{parts}/{parts_total} parts  {text:.1} MB/s  {tokens:.2} M tokens/s")
}

pub(super) fn line(now: &PrepareProgress) -> String {
    format!("prepare: {:.0} %  {}{}", 100.0 * now.share(), beside_progress_bar(now), eta(now.eta_s))
}

pub(super) fn end(end: &PrepareEnd) -> String {
    let place = &end.place;
    if end.nothing_to_do {
        return format!("{place}: nothing to do, all {} parts exist", end.parts_kept);
    }
    let text_per_s = end.text_bytes_made as f64 / 1e6 / end.seconds.max(1e-9);
    let mut lines = vec![
        format!(
            "{place}: {} parts made, {} kept, {} of input read, in {:.1} s ({text_per_s:.1} MB/s of text)",
            end.parts_made,
            end.parts_kept,
            bytes(end.bytes_read),
            end.seconds,
        ),
        format!(
            "  {} documents, {} words, {} tokens: {:.2} tokens per word, {:.2} % unknown",
            count(end.documents),
            count(end.words),
            count(end.tokens),
            end.tokens_per_word(),
            100.0 * end.unknown_rate(),
        ),
        format!("  {}", packing(end)),
        format!(
            "  {} samples to train on, {} to validate on; {:.2} % of their rows would be padding",
            count(end.train.samples),
            count(end.valid.samples),
            100.0 * end.padding_share(),
        ),
        format!("  {} on disk, {:.2} bytes per token", bytes(end.shard_bytes), end.bytes_per_token()),
    ];
    if end.forgotten > 0 {
        lines.push(format!("  documents excluded because they are to be forgotten: {}", count(end.forgotten)));
    }
    if end.exact_duplicates + end.near_duplicates > 0 {
        lines.push(format!(
            "  removed duplicates: {} exact, {} near ({} of text)",
            count(end.exact_duplicates),
            count(end.near_duplicates),
            bytes(end.duplicate_bytes),
        ));
    }
    if end.contaminated > 0 || !end.contaminated_by.is_empty() {
        let sets = end.contaminated_by.iter().map(|(name, documents)| format!("{name} {}", count(*documents)));
        lines.push(format!(
            "  removed documents that share text with test sets: {} ({} of text): {}",
            count(end.contaminated),
            bytes(end.contaminated_bytes),
            sets.collect::<Vec<_>>().join(", "),
        ));
    }
    let rejected = end.rejected.iter();
    lines.extend(rejected.map(|(reason, number)| format!("  rejected or repaired: {} × {reason}", count(*number))));
    lines.extend(end.filters.iter().map(filter));
    lines.extend(end.warnings.iter().map(|warning| format!("  warning: {warning}")));
    lines.join("\n")
}

/// Returns what a filter removed and changed: documents, bytes, and documents by rule.
#[must_use]
pub fn filter(filter: &FilterReport) -> String {
    let FilterReport { name, read, removed, changed, cut_bytes } = filter;
    let all = filter.removed_in_all();
    let share = 100.0 * all.documents as f64 / read.documents.max(1) as f64;
    let mut text = format!(
        "  filter {name}: {} of {} removed ({share:.1} %), {}",
        count(all.documents),
        counted(read.documents, "document"),
        bytes(all.bytes)
    );
    for (rule, removed) in removed {
        text.extend(["; ", &count(removed.documents), " × ", rule]);
    }
    if *changed > 0 {
        text.extend(["; ", &counted(*changed, "document"), " changed, ", &bytes(*cut_bytes), " cut"]);
    }
    text
}

/// Returns the packing of documents into samples, and what it cut.
fn packing(end: &PrepareEnd) -> String {
    let counts = [
        (end.sentences, "sentences"),
        (end.cut_sentences, "of them longer than a sample, cut"),
        (end.cut_documents, "documents longer than a sample, truncated"),
        (end.cut_tokens, "tokens in no sample"),
    ];
    let found = counts.iter().filter(|(number, _)| *number > 0);
    let found = found.map(|(number, what)| format!("{} {what}", count(*number)));
    let parts: Vec<String> = std::iter::once(format!("packed as `{}`", end.pack)).chain(found).collect();
    parts.join(", ")
}
