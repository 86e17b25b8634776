//! A prepared corpus on a page: what is in it, how it is tokenized, what was lost.

use ::report::html::Cell::{Bars, Code, Number, Text};
use ::report::html::{bars_legend, figures, static_page, table, text};
use maud::{Markup, html};
use pipeline::corpus_stats::{CorpusStats, Lengths, SourceStats, SplitStats};
use schemas::manifest::Frame;
use telemetry::quantities::{bytes, count};

use crate::run::monitoring::PROGRAM;

/// Files that are named one by one.
const SOURCES: usize = 200;

/// Tokens that are named.
const FREQUENT: usize = 25;

/// The page of these corpora, each with the name of its source where there are several.
pub(crate) fn page(corpora: &[(Option<String>, CorpusStats)]) -> String {
    let title = corpora.first().map_or("", |(_, portrait)| portrait.place.as_str());
    let body = html! {
        @for (name, portrait) in corpora {
            h1 { (text(name.as_deref().unwrap_or(&portrait.place))) }
            (glance(portrait))
            h2 { "Documents by length" }
            (documents(portrait))
            h2 { "Tokens per word" }
            (words(portrait))
            h3 { "The vocabulary" }
            (vocabulary(portrait))
            h2 { "Unknown words" }
            (unknown(portrait))
            h2 { "Rejected and repaired" }
            (rejected(portrait))
            h2 { "Rows and padding" }
            (rows(portrait))
            h2 { "Sources" }
            (sources(portrait))
        }
        // No time: of the same folder the same page.
        p { (PROGRAM) }
    };
    static_page(title, "", &body)
}

/// What it is, in a few figures.
fn glance(portrait: &CorpusStats) -> Markup {
    let CorpusStats { corpus, tokenizer, splits: [train, valid], .. } = portrait;
    let case = if tokenizer.lowercase { ", lowercased" } else { "" };
    let frame = match portrait.pack.frame {
        Frame::ClsSep => "[CLS] and [SEP] around each",
        Frame::None => "with the frames of their documents inside",
    };
    let sentence = format!(
        "dataset version {} of {}: {} of {} ids{case}; packed as {}: up to {} tokens in a row, {frame}",
        portrait.dataset_version,
        portrait.place,
        tokenizer.kind,
        count(tokenizer.vocab_size.into()),
        portrait.pack.name,
        portrait.pack.content
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
            ("padding at full width", percent(portrait.padding())),
            ("rejected or repaired", count(corpus.rejected.values().sum())),
        ]))
        (table(
            &["split", "documents", "rows", "tokens", "shards", "on disk"],
            [row("training", train), row("validation", valid)],
        ))
    }
}

/// How long documents are.
fn documents(portrait: &CorpusStats) -> Markup {
    let lengths = &portrait.documents;
    let longest = portrait.longest.iter();
    let longest = longest.map(|(tokens, id, file)| vec![Number(count(*tokens)), Code(id.clone()), Text(file.clone())]);
    html! {
        p { (quantiles(lengths)) "; to a sixteenth, in tokens without separators." }
        (lengths_table(lengths, ("of the documents", "of the tokens"), "tokens"))
        h3 { "The longest" }
        (table(&["tokens", "document", "file"], longest))
    }
}

/// Into how many tokens words fall.
fn words(portrait: &CorpusStats) -> Markup {
    let (pieces, (read, all)) = (portrait.rows.pieces, portrait.rows.groups);
    let seen: u64 = pieces.iter().sum();
    let last = pieces.len();
    let of = |at: usize| if at + 1 == last { format!("{last} or more") } else { (at + 1).to_string() };
    let rows = pieces.iter().enumerate().filter(|(_, number)| **number > 0).map(|(at, &number)| {
        let part = share(number, seen);
        vec![Text(of(at)), Bars(vec![part]), Number(percent(part)), Number(count(number))]
    });
    html! {
        p {
            (ratio(portrait.corpus.tokens, portrait.corpus.words)) " tokens for each of " (count(portrait.corpus.words))
            " words between white space. Below, words as the tokenizer cuts them, punctuation among them, in " (read) " of "
            (all) " row groups of the training split."
        }
        (table(&["tokens", "", "of the words", "words"], rows))
    }
}

/// Which ids documents use.
fn vocabulary(portrait: &CorpusStats) -> Markup {
    let (used, ids) = portrait.ids_used();
    let frequent = portrait.frequent_ids();
    let total: u64 = frequent.iter().map(|(_, count)| count).sum();
    let most = frequent.first().map_or(1, |(_, count)| *count);
    let rows = frequent.iter().take(FREQUENT).map(|&(id, number)| {
        let token = portrait.vocab.token(id).to_owned();
        vec![Code(token), Bars(vec![share(number, most)]), Number(percent(share(number, total))), Number(count(number))]
    });
    let [half, most_of, nearly_all] = [0.5, 0.9, 0.99].map(|share| covering(&frequent, total, share));
    html! {
        p {
            (count(used as u64)) " of " (count(ids as u64)) " ids occur in training documents. Half of the tokens are " (half)
            ", nine in ten are " (most_of) ", 99 in a hundred " (nearly_all) "."
        }
        (table(&["token", "", "of the tokens", "occurrences"], rows))
    }
}

/// What the tokenizer has no token for.
fn unknown(portrait: &CorpusStats) -> Markup {
    let corpus = &portrait.corpus;
    if corpus.unknown == 0 {
        return html! { p { "There are none: every token is one of the vocabulary." } };
    }
    // Of a character that no font has it is all that can be seen.
    let points = |word: &str| match (word.chars().next(), word.chars().count()) {
        (Some(character), 1) => format!("U+{:04X}", u32::from(character)),
        _ => String::new(),
    };
    let rows = portrait.unknown_words.iter();
    let rows = rows.map(|(word, number)| vec![Code(word.clone()), Text(points(word)), Number(count(*number))]);
    html! {
        p {
            (count(corpus.unknown)) " tokens are unknown, " (percent(share(corpus.unknown, corpus.tokens)))
            " of all. Most often it was, in the first 20,000 words of each segment's documents that have any:"
        }
        (table(&["word or character", "code point", "seen"], rows))
    }
}

/// What was rejected or repaired.
fn rejected(portrait: &CorpusStats) -> Markup {
    let rejected = &portrait.corpus.rejected;
    if rejected.is_empty() {
        return html! { p { "Nothing was." } };
    }
    let most = rejected.values().copied().max().unwrap_or(1);
    let reasons = rejected.iter();
    let reasons = reasons
        .map(|(reason, &number)| vec![Code(reason.clone()), Bars(vec![share(number, most)]), Number(count(number))]);
    let examples = portrait.rejects.iter().map(|reject| {
        let text = reject.text.clone().map_or_else(|| Text("not to be looked at any more".to_owned()), Code);
        vec![Text(reject.place.clone()), Code(reject.reason.clone()), text]
    });
    html! {
        (table(&["reason", "", "lines or documents"], reasons))
        h3 { "Some of them" }
        (table(&["place", "reason", "the line begins"], examples))
    }
}

/// How rows are filled.
fn rows(portrait: &CorpusStats) -> Markup {
    let (rows, packing) = (&portrait.rows, &portrait.corpus.packing);
    html! {
        p {
            (percent(portrait.padding())) " of what rows of " (portrait.pack.content)
            " tokens could hold is padding, in the training split as a whole. A row has "
            (format!("{:.2}", rows.documents.mean()))
            " documents or parts of them in the mean. Batches are as wide as their longest row asks for."
        }
        @if packing.cut_tokens + packing.cut_sentences + packing.cut_documents > 0 {
            p {
                "Packing cut " (count(packing.cut_sentences)) " sentences and " (count(packing.cut_documents)) " documents; "
                (count(packing.cut_tokens)) " tokens (" (percent(share(packing.cut_tokens, portrait.corpus.tokens)))
                ") are in no row."
            }
        }
        (lengths_table(&rows.lengths, ("of the rows", "of the tokens"), "tokens in a row"))
    }
}

/// Where it comes from.
fn sources(portrait: &CorpusStats) -> Markup {
    let mut files: Vec<&SourceStats> = portrait.sources.iter().collect();
    files.sort_by_key(|file| (std::cmp::Reverse(file.documents.sum()), &file.name));
    let all = portrait.documents.sum();
    let (named, others) = files.split_at(SOURCES.min(files.len()));
    let rows = named.iter().map(|file| {
        let lengths = &file.documents;
        let part = share(lengths.sum(), all);
        let median = Number(rounded(lengths.quantile(0.5)));
        let numbers = [Number(count(lengths.count())), Number(count(lengths.sum())), median];
        [Text(file.name.clone()), Bars(vec![part]), Number(percent(part))].into_iter().chain(numbers).collect()
    });
    let rest: u64 = others.iter().map(|file| file.documents.sum()).sum();
    html! {
        (table(&["file", "", "of the tokens", "documents", "tokens", "median document"], rows))
        @if !others.is_empty() {
            p { "and " (count(others.len() as u64)) " more files with " (count(rest)) " tokens" }
        }
    }
}

/// Lengths by octaves, how many there are and what they hold.
fn lengths_table(lengths: &Lengths, (number, sum): (&str, &str), what: &str) -> Markup {
    let octaves = lengths.octaves();
    let shares = |&(_, number, sum): &(u64, u64, u64)| (share(number, lengths.count()), share(sum, lengths.sum()));
    let most = octaves.iter().map(shares).fold(0.0, |most: f64, (a, b)| most.max(a).max(b)).max(f64::MIN_POSITIVE);
    let rows = octaves.iter().map(|octave| {
        let (number, sum) = shares(octave);
        let label = match octave.0 {
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

/// Where the middle of lengths is, and their end.
fn quantiles(lengths: &Lengths) -> String {
    let at = |share| rounded(lengths.quantile(share));
    format!(
        "Half are no longer than {}, nine in ten than {}, 99 in a hundred than {}; the mean is {}, the longest has {}",
        at(0.5),
        at(0.9),
        at(0.99),
        rounded(lengths.mean()),
        count(lengths.max())
    )
}

/// How many of the most frequent ids make up such a share.
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
