//! `cloze inspect`: look at your data.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;
use pipeline::load::{self, RowFacts};
use pipeline::shard::reader::{Promise, ShardReader};
use schemas::columns::{ATTENTION_MASK, IGNORE, INPUT_IDS, IS_RANDOM, LABELS, POSITIVES};
use schemas::{Batch, BatchIndex, Sample, Vocab};

use crate::cli::ConfigArgs;
use crate::plan::Plan;
use crate::terminal::{Paint, count, line};

/// The rows of micro-batch `index`, every view of it.
pub(crate) fn batch(index: u64, args: &ConfigArgs, rows: usize) -> anyhow::Result<()> {
    let plan = Plan::to_look_at(args)?;
    let load = plan.everything();
    let groups = load.groups();
    let paint = Paint::stdout();
    let index = BatchIndex(index);
    let batch = load.batch(&groups, index)?;
    let views = views_of(&batch);
    line(format_args!(
        "batch {index}: {} rows, views {}; {}",
        batch.rows(),
        views.keys().cloned().collect::<Vec<_>>().join(", "),
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
        line(paint.bold(format_args!("row {row}: {}", place(source))));
        for (view, columns) in &views {
            line(format_args!("{} {}", paint.cyan(view), render(&batch, view, columns, row, plan.vocab(), paint)?));
        }
    }
    Ok(())
}

/// The samples of one shard, with their documents.
pub(crate) fn shard(file: &Path, rows: usize) -> anyhow::Result<()> {
    let folder = file.parent().and_then(Path::parent).context("a shard lies in `<prepared folder>/train/`")?;
    let store = load::find(folder)?;
    let manifest = load::open(&store)?;
    let vocab = load::read_vocab(&store, &manifest, manifest.newest())?;
    let paint = Paint::stdout();
    let name = file.strip_prefix(folder).context("a shard lies in its prepared folder")?.to_string_lossy();
    let now = manifest.now();
    let known = now.train.shards.iter().chain(&now.valid.shards);
    let shard = known.clone().find(|shard| shard.path == name);
    let shard = shard.with_context(|| format!("{}: not a shard of {}", file.display(), folder.display()))?;
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
            show(shown + row, &group.sample(row), &vocab, paint);
        }
        shown += group.rows().min(rows - shown);
        if shown == rows {
            break;
        }
    }
    Ok(())
}

/// Where a row comes from, in words.
fn place(row: &RowFacts) -> String {
    let documents: Vec<String> = row.documents.iter().map(|name| format!("{name:016x}")).collect();
    format!(
        "stream row {}, epoch {}, sample {} ({}, row group {}, row {}), piece {}, copy {}, documents {}",
        row.row,
        row.epoch,
        row.sample,
        row.shard,
        row.group,
        row.row_in_group,
        row.piece,
        row.copy,
        documents.join(" ")
    )
}

fn show(number: usize, sample: &Sample<'_>, vocab: &Vocab, paint: Paint) {
    let documents: Vec<String> = sample.documents.iter().map(|name| format!("{name:016x}")).collect();
    let begins = |at: usize| at > 0 && sample.sentence_starts.iter().any(|&start| usize::from(start) == at);
    let token =
        |(at, id): (usize, u32)| if begins(at) { format!("| {}", vocab.token(id)) } else { vocab.token(id).into() };
    let tokens: Vec<String> = sample.input_ids.iter().enumerate().map(token).collect();
    line("");
    line(paint.bold(format_args!("sample {number}: {} tokens, documents {}", tokens.len(), documents.join(" "))));
    line(tokens.join(" "));
}

/// The columns that each view of a batch has.
fn views_of(batch: &Batch) -> BTreeMap<String, Vec<String>> {
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

fn render(
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
    let shown = vocab.token(id);
    if label == IGNORE {
        return if vocab.is_special(id) { paint.dim(shown) } else { shown.to_owned() };
    }
    let original = vocab.token(label.cast_unsigned());
    let text = format!("{shown}‹{original}›");
    if id == vocab.special().mask {
        paint.red(text)
    } else if id == label.cast_unsigned() {
        paint.green(text)
    } else {
        paint.yellow(text)
    }
}
