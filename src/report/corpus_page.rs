//! HTML page about a prepared corpus: content, tokenization, losses.

use ::report::html::Cell::{Bars, Code, File, Number, Text};
use ::report::html::{bars_legend, figures, static_page, table, text};
use maud::{Markup, html};
use pipeline::corpus_stats::{CorpusStats, Lengths, Octave, SourceStats, SplitStats};
use schemas::manifest::Frame;
use telemetry::quantities::{bytes, count};

use crate::run::monitoring::PROGRAM;

/// Maximum number of files with their own row.
const SOURCES: usize = 200;

/// Maximum number of tokens with their own row.
const FREQUENT: usize = 25;

/// Renders the page of these corpora, each with the name of its source if there are several.
pub(crate) fn page(corpora: &[(Option<String>, CorpusStats)]) -> String {
    let title = corpora.first().map_or("", |(_, stats)| stats.place.as_str());
    let body = html! {
        @for (name, stats) in corpora {
            h1 { (text(name.as_deref().unwrap_or(&stats.place))) }
            (overview(stats))
            h2 { "Documents by length" }
            (documents(stats))
            h2 { "Tokens per word" }
            (word_table(stats))
            h3 { "The vocabulary" }
            (vocabulary(stats))
            h2 { "Unknown words" }
            (unknown(stats))
            h2 { "Rejected and repaired" }
            (rejected(stats))
            @if !stats.corpus.filters.is_empty() {
                h2 { "Filters" }
                (filters(stats))
            }
            (removed(stats))
            h2 { "Rows and padding" }
            (rows(stats))
            h2 { "Sources" }
            (sources(stats))
        }
        // Without a timestamp, so that the same folder gives the same page.
        p { (PROGRAM) }
    };
    static_page(title, "", &body)
}

/// Renders the overview.
fn overview(stats: &CorpusStats) -> Markup {
    let CorpusStats { corpus, tokenizer, splits: [train, valid], .. } = stats;
    let case = if tokenizer.lowercase { ", lowercased" } else { "" };
    let frame = match stats.pack.frame {
        Frame::ClsSep => "[CLS] and [SEP] around each",
        Frame::None => "with the frames of their documents inside",
    };
    let sentence = format!(
        "dataset version {} of {}: {} of {} ids{case}; packed as {}: up to {} tokens in a row, {frame}",
        stats.dataset_version,
        stats.place,
        tokenizer.kind,
        count(tokenizer.vocab_size.into()),
        stats.pack.name,
        stats.pack.content
    );
    let row = |name: &str, split: &SplitStats| {
        let numbers = [split.documents, split.samples, split.tokens, split.shards];
        let numbers = numbers.into_iter().map(|number| Number(count(number)));
        [Text(name.to_owned())].into_iter().chain(numbers).chain([Number(bytes(split.bytes))]).collect()
    };
    html! {
        p { (text(&sentence)) }
        (figures(&[
            ("documents", count(corpus.documents)),
            ("text", bytes(corpus.text_bytes)),
            ("words", count(corpus.words)),
            ("tokens", count(corpus.tokens)),
            ("tokens per word", ratio(corpus.tokens, corpus.words)),
            ("unknown", percent(share(corpus.unknown, corpus.tokens))),
            ("padding at full width", percent(stats.padding())),
            ("rejected or repaired", count(corpus.rejected.values().sum())),
        ]))
        (table(
            &["split", "documents", "rows", "tokens", "shards", "on disk"],
            [row("training", train), row("validation", valid)],
        ))
    }
}

/// Renders the lengths of documents.
fn documents(stats: &CorpusStats) -> Markup {
    let lengths = &stats.documents;
    let longest = stats.longest.iter();
    let longest = longest.map(|it| vec![Number(count(it.tokens)), Code(it.id.clone()), File(it.file.clone())]);
    html! {
        p { (quantiles(lengths)) "; rounded to 1/16, in tokens without separators." }
        (lengths_table(lengths, ("of the documents", "of the tokens"), "tokens"))
        h3 { "The longest" }
        div.scroll { (table(&["tokens", "document", "file"], longest)) }
    }
}

/// Renders the number of tokens per word.
fn word_table(stats: &CorpusStats) -> Markup {
    let (pieces, (read, all)) = (stats.rows.pieces, stats.rows.groups);
    let seen: u64 = pieces.iter().sum();
    let last = pieces.len();
    let of = |at: usize| if at + 1 == last { format!("{last} or more") } else { (at + 1).to_string() };
    let rows = pieces.iter().enumerate().filter(|(_, number)| **number > 0).map(|(at, &number)| {
        let part = share(number, seen);
        vec![Text(of(at)), Bars(vec![part]), Number(percent(part)), Number(count(number))]
    });
    html! {
        p {
            (ratio(stats.corpus.tokens, stats.corpus.words)) " tokens for each of " (count(stats.corpus.words))
            " words between white space. Below, words as the tokenizer cuts them, punctuation among them, in " (read) " of "
            (all) " row groups of the training split."
        }
        (table(&["tokens", "", "of the words", "words"], rows))
    }
}

/// Renders the use of the vocabulary.
fn vocabulary(stats: &CorpusStats) -> Markup {
    let (used, ids) = stats.ids_used();
    let frequent = stats.frequent_ids();
    let total: u64 = frequent.iter().map(|(_, count)| count).sum();
    let most = frequent.first().map_or(1, |(_, count)| *count);
    let rows = frequent.iter().take(FREQUENT).map(|&(id, number)| {
        let token = stats.vocab.token(id).to_owned();
        vec![Code(token), Bars(vec![share(number, most)]), Number(percent(share(number, total))), Number(count(number))]
    });
    let [half, most_of, nearly_all] = [0.5, 0.9, 0.99].map(|share| covering(&frequent, total, share));
    html! {
        p {
            (count(used as u64)) " of " (count(ids as u64)) " ids occur in training documents. Half of the tokens are " (half)
            ", 90 % are " (most_of) ", 99 % are " (nearly_all) "."
        }
        (table(&["token", "", "of the tokens", "occurrences"], rows))
    }
}

/// Renders words that the tokenizer cannot represent.
fn unknown(stats: &CorpusStats) -> Markup {
    let corpus = &stats.corpus;
    if corpus.unknown == 0 {
        return html! { p { "None: every token is in the vocabulary." } };
    }
    // A character without a glyph is recognizable only by its code point.
    let points = |word: &str| match (word.chars().next(), word.chars().count()) {
        (Some(character), 1) => format!("U+{:04X}", u32::from(character)),
        _ => String::new(),
    };
    let rows = stats.unknown_words.iter();
    let rows = rows.map(|(word, number)| vec![Code(word.clone()), Text(points(word)), Number(count(*number))]);
    html! {
        p {
            (count(corpus.unknown)) " tokens are unknown, " (percent(share(corpus.unknown, corpus.tokens)))
            " of all. The most frequent, in the first 20,000 words of the documents with unknown words of each segment:"
        }
        (table(&["word or character", "code point", "occurrences"], rows))
    }
}

/// Renders rejected and repaired documents.
fn rejected(stats: &CorpusStats) -> Markup {
    let rejected = &stats.corpus.rejected;
    if rejected.is_empty() {
        return html! { p { "None." } };
    }
    let most = rejected.values().copied().max().unwrap_or(1);
    let reasons = rejected.iter();
    let reasons = reasons
        .map(|(reason, &number)| vec![Code(reason.clone()), Bars(vec![share(number, most)]), Number(count(number))]);
    let examples = stats.rejects.iter().map(|reject| {
        let text = reject.text.clone().map_or_else(|| Text("no longer available".to_owned()), Code);
        vec![Text(reject.place.clone()), Code(reject.reason.clone()), text]
    });
    html! {
        (table(&["reason", "", "lines or documents"], reasons))
        h3 { "Examples" }
        (table(&["place", "reason", "begin of the line"], examples))
    }
}

/// Renders what the filters removed and changed, and the first removed documents.
fn filters(stats: &CorpusStats) -> Markup {
    let reports = &stats.corpus.filters;
    let rows = reports.iter().map(|report| {
        let removed = report.removed_in_all();
        let part = share(removed.documents, report.read.documents);
        let numbers = [report.read.documents, removed.documents].map(|number| Number(count(number)));
        let sizes = [count(report.changed), bytes(removed.bytes), bytes(report.cut_bytes)].map(Number);
        [Code(report.name.clone())].into_iter().chain(numbers).chain([Number(percent(part))]).chain(sizes).collect()
    });
    let rules = reports.iter().flat_map(|report| {
        let all = report.read.documents;
        report.removed.iter().map(move |(rule, removed)| {
            let part = share(removed.documents, all);
            let numbers = [Number(percent(part)), Number(count(removed.documents)), Number(bytes(removed.bytes))];
            let names = [Code(report.name.clone()), Code(rule.clone()), Bars(vec![part])];
            names.into_iter().chain(numbers).collect()
        })
    });
    let examples = stats.filtered.iter().map(|found| {
        let [filter, rule, text] = [&found.filter, &found.rule, &found.text].map(|it| Code(it.clone()));
        vec![filter, rule, File(found.place.clone()), text]
    });
    html! {
        (table(&["filter", "documents read", "removed", "", "changed", "removed text", "cut from changed"], rows))
        h3 { "Removed by rule" }
        (table(&["filter", "rule", "", "of the documents", "documents", "text"], rules))
        @if !stats.filtered.is_empty() {
            h3 { "First removed documents" }
            div.scroll { (table(&["filter", "rule", "place", "begin of the text"], examples)) }
        }
    }
}

/// Renders the duplicates that were removed, and the documents that share text with each test set.
fn removed(stats: &CorpusStats) -> Markup {
    let (duplicates, contaminated) = (stats.corpus.duplicates, &stats.corpus.contaminated);
    let row = |what: &str, documents, text_bytes, runs: Option<u64>| {
        vec![
            Text(what.to_owned()),
            Number(count(documents)),
            Number(bytes(text_bytes)),
            Number(runs.map_or_else(String::new, count)),
        ]
    };
    let kinds = [
        ("exact duplicates", duplicates.exact_documents, duplicates.exact_bytes),
        ("near duplicates", duplicates.near_documents, duplicates.near_bytes),
    ];
    let kinds = kinds.into_iter().filter(|(_, documents, _)| *documents > 0);
    let kinds = kinds.map(|(what, documents, text_bytes)| row(what, documents, text_bytes, None));
    let sets = contaminated.test_sets.iter();
    let sets = sets.map(|(name, set)| row(&format!("text of {name}"), set.documents, set.text_bytes, Some(set.runs)));
    html! {
        @if !duplicates.is_empty() || !contaminated.is_empty() {
            h3 { "Duplicates and text of test sets" }
            (table(&["removed", "documents", "text", "shared runs"], kinds.chain(sets)))
        }
    }
}

/// Renders the fill of the rows.
fn rows(stats: &CorpusStats) -> Markup {
    let rows = &stats.rows;
    let packing = &stats.corpus.packing;
    html! {
        p {
            (percent(stats.padding())) " of the capacity of rows of " (stats.pack.content)
            " tokens is padding, in the whole training split. On average, a row has "
            (format!("{:.2}", rows.documents.mean()))
            " documents or parts of documents. Batches are padded to their longest row."
        }
        @if packing.cut_tokens + packing.cut_sentences + packing.cut_documents > 0 {
            p {
                "Packing cut " (count(packing.cut_sentences)) " sentences and " (count(packing.cut_documents)) " documents; "
                (count(packing.cut_tokens)) " tokens (" (percent(share(packing.cut_tokens, stats.corpus.tokens)))
                ") were dropped."
            }
        }
        (lengths_table(&rows.lengths, ("of the rows", "of the tokens"), "tokens in a row"))
    }
}

/// Renders the source files.
fn sources(stats: &CorpusStats) -> Markup {
    let mut files: Vec<&SourceStats> = stats.sources.iter().collect();
    files.sort_by_key(|file| (std::cmp::Reverse(file.documents.sum()), &file.name));
    let all = stats.documents.sum();
    let (named, others) = files.split_at(SOURCES.min(files.len()));
    let rows = named.iter().map(|file| {
        let lengths = &file.documents;
        let part = share(lengths.sum(), all);
        let median = Number(rounded(lengths.quantile(0.5)));
        let numbers = [Number(count(lengths.count())), Number(count(lengths.sum())), median];
        [File(file.name.clone()), Bars(vec![part]), Number(percent(part))].into_iter().chain(numbers).collect()
    });
    let rest: u64 = others.iter().map(|file| file.documents.sum()).sum();
    html! {
        div.scroll { (table(&["file", "", "of the tokens", "documents", "tokens", "median document"], rows)) }
        @if !others.is_empty() {
            p { "and " (count(others.len() as u64)) " more files with " (count(rest)) " tokens" }
        }
    }
}

/// Renders a table of lengths by octaves: share of the items, and share of the tokens.
fn lengths_table(lengths: &Lengths, (number, sum): (&str, &str), what: &str) -> Markup {
    let octaves = lengths.octaves();
    let shares = |octave: &Octave| (share(octave.count, lengths.count()), share(octave.sum, lengths.sum()));
    let most = octaves.iter().map(shares).fold(0.0, |most: f64, (a, b)| most.max(a).max(b)).max(f64::MIN_POSITIVE);
    let rows = octaves.iter().map(|octave| {
        let (number, sum) = shares(octave);
        let label = match octave.least {
            least @ (0 | 1) => least.to_string(),
            least => format!("{} to {}", count(least), count(2 * least - 1)),
        };
        vec![Text(label), Bars(vec![number / most, sum / most]), Number(percent(number)), Number(percent(sum))]
    });
    html! {
        (bars_legend(number, sum))
        (table(&[what, "", number, sum], rows))
    }
}

/// Describes quantiles, mean and maximum of lengths.
fn quantiles(lengths: &Lengths) -> String {
    let at = |share| rounded(lengths.quantile(share));
    format!(
        "50 % are at most {}, 90 % at most {}, 99 % at most {}; the mean is {}, the maximum {}",
        at(0.5),
        at(0.9),
        at(0.99),
        rounded(lengths.mean()),
        count(lengths.max())
    )
}

/// Number of the most frequent ids that make up this share.
fn covering(frequent: &[(u32, u64)], total: u64, share: f64) -> String {
    let wanted = share * total as f64;
    let mut so_far = 0;
    let at = frequent.iter().position(|(_, count)| {
        so_far += count;
        so_far as f64 >= wanted
    });
    count(at.map_or(0, |at| at as u64 + 1))
}

fn share(part: u64, whole: u64) -> f64 {
    part as f64 / whole.max(1) as f64
}

fn ratio(part: u64, whole: u64) -> String {
    format!("{:.2}", share(part, whole))
}

fn percent(share: f64) -> String {
    match share * 100.0 {
        none if none <= 0.0 => "0 %".to_owned(),
        little if little < 0.005 => "< 0.01 %".to_owned(),
        some if some < 10.0 => format!("{some:.2} %"),
        much => format!("{much:.1} %"),
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "lengths are counts")]
fn rounded(length: f64) -> String {
    count(length.round() as u64)
}
