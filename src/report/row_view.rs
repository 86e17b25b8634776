//! Rows as their views render them: each token with its treatment, for terminals and pages.

use std::collections::BTreeMap;

use pipeline::corpus::plain_extension;
use pipeline::load::RowFacts;
use pipeline::prepare::Origin;
use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, IS_RANDOM, LABELS, POSITIVES};
use schemas::{Batch, Vocab};
use serde::Serialize;

/// Treatment of a token by a view.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Fate {
    /// Unchanged, and not a target.
    Plain,
    /// Special token that frames the text.
    Special,
    /// Target, replaced by `[MASK]`.
    Masked,
    /// Target, replaced by another token.
    Random,
    /// Target, unchanged.
    Kept,
}

/// Token of a row.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Token<'a> {
    /// Text of the token in the view.
    pub(crate) text: &'a str,
    /// Treatment of the original token.
    #[serde(rename = "kind")]
    pub(crate) fate: Fate,
    /// Text of the original token, if it is a target.
    pub(crate) original: Option<&'a str>,
}

/// A row as one view renders it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct RowView<'a> {
    /// For a pair: whether the second segment follows the first.
    pub(crate) note: &'static str,
    /// Tokens without padding.
    pub(crate) tokens: Vec<Token<'a>>,
    /// For a view with positives and without tokens: distance of each positive, to the right.
    pub(crate) offsets: Vec<i16>,
}

/// Returns the row of that number in a batch, as a view with these columns renders it.
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

/// Returns the columns of each view of a batch.
pub fn views_of(batch: &Batch) -> BTreeMap<String, Vec<String>> {
    let mut views = BTreeMap::<String, Vec<String>>::new();
    for (view, column) in batch.names().filter_map(|name| name.rsplit_once('.')) {
        views.entry(view.to_owned()).or_default().push(column.to_owned());
    }
    views
}

/// Describes the origin of a row.
pub fn place(row: &RowFacts) -> String {
    let source = row.of.as_ref().map_or(String::new(), |source| format!(" of {source}"));
    format!(
        "stream row {}, epoch {}{source}, sample {} ({}, row group {}, row {}), piece {}, copy {}",
        row.row, row.epoch, row.sample, row.shard, row.group, row.row_in_group, row.piece, row.copy,
    )
}

/// Describes a document.
pub fn document(name: u64, origin: Option<&Origin>) -> String {
    let Some(Origin { id, source, range }) = origin else { return format!("document {name:016x}") };
    let unit = if plain_extension(source) == "parquet" { "rows" } else { "bytes" };
    format!("document {id} ({source}, {unit} {} to {})", range.start, range.end)
}
