//! A row as its views saw it: each token with what became of it, for terminals and for pages.

use std::collections::BTreeMap;

use pipeline::corpus::plain_extension;
use pipeline::load::RowFacts;
use pipeline::prepare::Origin;
use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, IS_RANDOM, LABELS, POSITIVES};
use schemas::{Batch, Vocab};
use serde::Serialize;

/// What became of a token.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    /// It is as it was, and nobody asks for it.
    Plain,
    /// It frames the text.
    Special,
    /// `[MASK]` stands for it.
    Masked,
    /// Another stands for it.
    Random,
    /// It is asked for, and stands there.
    Kept,
}

/// A token of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Token<'a> {
    /// What stands there.
    pub(crate) text: &'a str,
    /// What became of what stood there.
    #[serde(rename = "kind")]
    pub(crate) fate: Fate,
    /// What stood there, where that is asked for.
    pub(crate) original: Option<&'a str>,
}

/// A row as one view saw it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RowView<'a> {
    /// Of a pair: whether the second segment is the next.
    pub(crate) note: &'static str,
    /// Real tokens; no padding.
    pub(crate) tokens: Vec<Token<'a>>,
    /// Of a view that has positives and no tokens: how far to the right each lies.
    pub(crate) offsets: Vec<i16>,
}

/// The row of that number in a batch, as a view with these columns saw it.
pub(crate) fn row<'a>(
    batch: &Batch,
    (view, columns): (&str, &[String]),
    row: usize,
    vocab: &'a Vocab,
) -> anyhow::Result<RowView<'a>> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    if has(POSITIVES.name()) && !has(INPUT_IDS.name()) {
        let positives = batch.column(view, POSITIVES)?.row(row);
        let offsets = (0_i16..).zip(positives).filter(|&(_, &positive)| positive >= 0);
        return Ok(RowView {
            offsets: offsets.map(|(anchor, positive)| positive - anchor).collect(),
            ..RowView::default()
        });
    }
    let note = match batch.find(view, IS_RANDOM)? {
        Some(labels) if labels.row(row)[0] == 1 => "(not the next)",
        Some(_) => "(the next)",
        None => "",
    };
    if !has(INPUT_IDS.name()) {
        return Ok(RowView { note, ..RowView::default() });
    }
    let length = match batch.find(view, ATTENTION_MASK)? {
        Some(mask) => mask.row(row).iter().map(|&valid| usize::from(valid)).sum(),
        None => usize::MAX,
    };
    let ids = batch.column(view, INPUT_IDS)?;
    let labels = if has(LABELS.name()) { Some(batch.column(view, LABELS)?) } else { None };
    let tokens = ids.row(row).iter().take(length).enumerate().map(|(column, &id)| {
        let label = labels.map_or(IGNORE, |labels| labels.row(row)[column]);
        token(id.cast_unsigned(), label, vocab)
    });
    Ok(RowView { note, tokens: tokens.collect(), offsets: Vec::new() })
}

fn token(id: u32, label: i32, vocab: &Vocab) -> Token<'_> {
    let text = vocab.token(id);
    if label == IGNORE {
        let fate = if vocab.is_special(id) { Fate::Special } else { Fate::Plain };
        return Token { text, fate, original: None };
    }
    let fate = if id == vocab.special().mask {
        Fate::Masked
    } else if id == label.cast_unsigned() {
        Fate::Kept
    } else {
        Fate::Random
    };
    Token { text, fate, original: Some(vocab.token(label.cast_unsigned())) }
}

/// The columns that each view of a batch has.
pub fn views_of(batch: &Batch) -> BTreeMap<String, Vec<String>> {
    let mut views = BTreeMap::<String, Vec<String>>::new();
    for (view, column) in batch.names().filter_map(|name| name.rsplit_once('.')) {
        views.entry(view.to_owned()).or_default().push(column.to_owned());
    }
    views
}

/// Where a row comes from, in words.
pub fn place(row: &RowFacts) -> String {
    let source = row.of.as_ref().map_or(String::new(), |source| format!(" of {source}"));
    format!(
        "stream row {}, epoch {}{source}, sample {} ({}, row group {}, row {}), piece {}, copy {}",
        row.row, row.epoch, row.sample, row.shard, row.group, row.row_in_group, row.piece, row.copy,
    )
}

/// A document in words.
pub fn document(name: u64, origin: Option<&Origin>) -> String {
    let Some(Origin { id, source, range }) = origin else { return format!("document {name:016x}") };
    let unit = if plain_extension(source) == "parquet" { "rows" } else { "bytes" };
    format!("document {id} ({source}, {unit} {} to {})", range.start, range.end)
}
