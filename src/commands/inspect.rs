//! `cloze inspect`: look at your data.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use pipeline::corpus::plain_extension;
use pipeline::load::{self, Care, LoadPlan, RowFacts};
use pipeline::prepare::{self, Origin};
use pipeline::shard::reader::{Promise, ShardReader};
use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, IS_RANDOM, LABELS, POSITIVES};
use schemas::{Batch, BatchIndex, PartId, Sample, Vocab, printable};
use store::Store;

use crate::cli::ConfigArgs;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::terminal::{Paint, count, line, painted};

/// The rows of micro-batch `index`, every view of it.
pub(crate) fn batch(index: u64, args: &ConfigArgs, rows: usize) -> anyhow::Result<()> {
    let plan = Plan::to_look_at(args)?;
    let load = plan.everything();
    let groups = load.groups();
    let paint = Paint::stdout();
    let index = BatchIndex(index);
    check_number(&load, index)?;
    // A row that cannot be made is shown as the padding that a run would make of it.
    let care = Care { bad_rows: Some(Arc::new(plan.left_out()?)), ..Care::default() };
    let batch = load.batch_with(&groups, index, &care)?;
    let views = views_of(&batch);
    painted(format_args!(
        "batch {index}: {} rows, views {}; {}",
        batch.rows(),
        printable(&views.keys().cloned().collect::<Vec<_>>().join(", ")),
        legend(paint)
    ));
    for view in views.keys() {
        if let Some(labels) = batch.find(view, IS_RANDOM)? {
            let random = (0..batch.rows()).filter(|&row| labels.row(row)[0] == 1).count();
            line(format_args!("{view}: {random} of {} second segments are not the next", batch.rows()));
        }
    }
    for (row, source) in load.explain(&groups, index)?.iter().enumerate().take(rows.min(batch.rows())) {
        line("");
        painted(paint.bold(printable(&format!("row {row}: {}", place(source)))));
        let origins = plan.data().origins(source)?;
        for name in &source.documents {
            painted(paint.dim(printable(&document(*name, origins.get(name)))));
        }
        for (view, columns) in &views {
            painted(format_args!(
                "{} {}",
                paint.cyan(printable(view)),
                rendered(&batch, view, columns, row, plan.vocab(), paint)?
            ));
        }
    }
    Ok(())
}

/// The samples of one shard, with their documents.
pub(crate) fn shard(file: &Path, rows: usize) -> anyhow::Result<()> {
    let folder = file.parent().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.with_context(|| {
        Usage(format!("{}: a shard lies in `train` or `valid` of a prepared folder; name it with that", file.display()))
    })?;
    let store = load::find(folder)?;
    let manifest = load::open(&store)?;
    let vocab = load::read_vocab(&store, &manifest, manifest.newest())?;
    let paint = Paint::stdout();
    let name = file.strip_prefix(folder).context("a shard lies in its prepared folder")?.to_string_lossy();
    let now = manifest.now();
    let known = now.train.shards.iter().chain(&now.valid.shards);
    let shard = known.clone().find(|shard| shard.path == name);
    let shard = shard.with_context(|| {
        let there = known.take(3).map(|shard| shard.path.clone()).collect::<Vec<_>>().join(", ");
        Usage(format!("{}: not a shard of {}, which has {there}, …", file.display(), folder.display()))
    })?;
    line(format_args!(
        "{name}: {} samples, {} tokens, row groups {:?}, {} bytes",
        count(shard.rows),
        count(shard.tokens),
        shard.groups,
        count(shard.bytes)
    ));
    let reader = ShardReader::open(&store, shard, Promise::of(&manifest)).map_err(pipeline::Error::from)?;
    let mut shown = 0;
    for group in 0..shard.groups.len() {
        let group = reader.read(group).map_err(pipeline::Error::from)?;
        for row in 0..group.rows().min(rows - shown) {
            let sample = group.sample(row);
            show(shown + row, &sample, &documents(&store, shard.part, sample.documents)?, &vocab, paint);
        }
        shown += group.rows().min(rows - shown);
        if shown == rows {
            break;
        }
    }
    Ok(())
}

/// That there is such a batch. Which data an epoch is over is decided when it begins, where a run follows its folder.
fn check_number(load: &LoadPlan, index: BatchIndex) -> anyhow::Result<()> {
    let rows = load.rows_of(index);
    if rows.end - rows.start < load.rows_per_batch() {
        return Err(
            Usage(format!("there is no batch {index}: rows have no numbers as large; give a smaller one")).into()
        );
    }
    match load.rows_decided()? {
        Some(decided) if rows.end > decided.0 => Err(Usage(format!(
            "batch {index} is not decided yet: the run is over the newest generation of its folder in each epoch, and has \
             come to row {decided}; give a batch below {}",
            decided.0 / load.rows_per_batch()
        ))
        .into()),
        _ => Ok(()),
    }
}

/// Where a row comes from, in words.
pub(super) fn place(row: &RowFacts) -> String {
    let source = row.of.as_ref().map_or(String::new(), |source| format!(" of {source}"));
    format!(
        "stream row {}, epoch {}{source}, sample {} ({}, row group {}, row {}), piece {}, copy {}",
        row.row, row.epoch, row.sample, row.shard, row.group, row.row_in_group, row.piece, row.copy,
    )
}

/// Documents in words, one a line: the id by which one is forgotten, and where it stands in the corpus; the name that
/// shards have for it where no table knows it.
fn documents(store: &Store, part: PartId, names: &[u64]) -> anyhow::Result<Vec<String>> {
    let origins = prepare::origins(store, part, &names.iter().copied().collect())?;
    Ok(names.iter().map(|name| document(*name, origins.get(name))).collect())
}

/// A document in words.
pub(super) fn document(name: u64, origin: Option<&Origin>) -> String {
    let Some(Origin { id, source, range }) = origin else { return format!("document {name:016x}") };
    let unit = if plain_extension(source) == "parquet" { "rows" } else { "bytes" };
    format!("document {id} ({source}, {unit} {} to {})", range.start, range.end)
}

fn show(number: usize, sample: &Sample<'_>, documents: &[String], vocab: &Vocab, paint: Paint) {
    let begins = |at: usize| at > 0 && sample.sentence_starts.iter().any(|&start| usize::from(start) == at);
    let token =
        |(at, id): (usize, u32)| if begins(at) { format!("| {}", vocab.token(id)) } else { vocab.token(id).into() };
    let tokens: Vec<String> = sample.input_ids.iter().enumerate().map(token).collect();
    line("");
    painted(paint.bold(format_args!("sample {number}: {} tokens", tokens.len())));
    for text in documents {
        painted(paint.dim(printable(text)));
    }
    line(tokens.join(" "));
}

/// The columns that each view of a batch has.
pub(super) fn views_of(batch: &Batch) -> BTreeMap<String, Vec<String>> {
    let mut views = BTreeMap::<String, Vec<String>>::new();
    for (view, column) in batch.names().filter_map(|name| name.rsplit_once('.')) {
        views.entry(view.to_owned()).or_default().push(column.to_owned());
    }
    views
}

fn legend(paint: Paint) -> String {
    format!(
        "{} {} {} {}",
        paint.red("[MASK]‹masked›"),
        paint.yellow("random‹replaced›"),
        paint.green("kept‹kept›"),
        paint.dim("+2: the positive lies two to the right")
    )
}

/// A row as a view saw it.
pub(super) fn rendered(
    batch: &Batch,
    view: &str,
    columns: &[String],
    row: usize,
    vocab: &Vocab,
    paint: Paint,
) -> anyhow::Result<String> {
    let has = |name: &str| columns.iter().any(|column| column == name);
    let length = match batch.find(view, ATTENTION_MASK)? {
        Some(mask) => mask.row(row).iter().map(|&valid| usize::from(valid)).sum(),
        None => usize::MAX,
    };
    if has(POSITIVES.name()) && !has(INPUT_IDS.name()) {
        let positives = batch.column(view, POSITIVES)?.row(row);
        let offsets = (0_i16..).zip(positives).filter(|&(_, &positive)| positive >= 0);
        return Ok(offsets.map(|(anchor, positive)| format!("{:+}", positive - anchor)).collect::<Vec<_>>().join(" "));
    }
    let pair = match batch.find(view, IS_RANDOM)? {
        Some(labels) if labels.row(row)[0] == 1 => "(not the next) ",
        Some(_) => "(the next) ",
        None => "",
    };
    if !has(INPUT_IDS.name()) {
        return Ok(pair.to_owned());
    }
    let ids = batch.column(view, INPUT_IDS)?;
    let labels = if has(LABELS.name()) { Some(batch.column(view, LABELS)?) } else { None };
    let tokens = ids.row(row).iter().take(length).enumerate().map(|(column, &id)| {
        let label = labels.map_or(IGNORE, |labels| labels.row(row)[column]);
        token(id.cast_unsigned(), label, vocab, paint)
    });
    Ok(format!("{pair}{}", tokens.collect::<Vec<_>>().join(" ")))
}

/// One token, with what it stands for where it is predicted.
fn token(id: u32, label: i32, vocab: &Vocab, paint: Paint) -> String {
    let shown = printable(vocab.token(id));
    if label == IGNORE {
        return if vocab.is_special(id) { paint.dim(shown) } else { shown.into_owned() };
    }
    let original = printable(vocab.token(label.cast_unsigned()));
    let text = format!("{shown}‹{original}›");
    if id == vocab.special().mask {
        paint.red(text)
    } else if id == label.cast_unsigned() {
        paint.green(text)
    } else {
        paint.yellow(text)
    }
}
