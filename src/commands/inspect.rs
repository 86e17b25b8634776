//! `cloze inspect`: shows batches and shards.

use std::path::Path;
use std::sync::Arc;

use anyhow::Context as _;
use pipeline::load::{self, LoadPlan, RowPolicy};
use pipeline::prepare;
use pipeline::shard::reader::{ShardExpectation, ShardReader};
use schemas::columns::IS_RANDOM;
use schemas::{Batch, BatchIndex, PartId, Sample, Vocab, printable};
use store::Store;
use telemetry::quantities::count;
use telemetry::terminal::{Paint, line, painted};

use crate::cli::ConfigArgs;
use crate::exit::Usage;
use crate::plan::Plan;
use crate::report::row_view::{self, Fate, RowView, Token, document, place, views_of};

/// Prints the rows of micro-batch `index`, in every view.
pub(crate) fn batch(index: u64, args: &ConfigArgs, rows: usize) -> anyhow::Result<()> {
    let plan = Plan::load_read_only(args)?;
    let load = plan.everything();
    let groups = load.groups();
    let paint = Paint::stdout();
    let index = BatchIndex(index);
    check_number(&load, index)?;
    // A row that cannot be rendered is shown as padding, as in a run.
    let policy = RowPolicy { bad_rows: Some(Arc::new(plan.left_out()?)), ..RowPolicy::default() };
    let batch = load.batch_with(&groups, index, &policy)?;
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
            line(format_args!("{view}: {random} of {} second segments do not follow the first", batch.rows()));
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

/// Prints the samples of one shard with their documents.
pub(crate) fn shard(file: &Path, rows: usize) -> anyhow::Result<()> {
    let folder = file.parent().and_then(Path::parent).filter(|folder| !folder.as_os_str().is_empty());
    let folder = folder.with_context(|| {
        Usage(format!(
            "{}: expected a shard in `train` or `valid` of a prepared folder; give its path in the folder",
            file.display()
        ))
    })?;
    let store = load::find(folder)?;
    let manifest = load::open(&store)?;
    let vocab = load::read_vocab(&store, &manifest, manifest.newest())?;
    let paint = Paint::stdout();
    let name = file.strip_prefix(folder).context("the shard is outside its prepared folder")?.to_string_lossy();
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
    let reader =
        ShardReader::open(&store, shard, ShardExpectation::from_manifest(&manifest)).map_err(pipeline::Error::from)?;
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

/// Checks that the batch exists. If a run follows its folder, the data of an epoch are decided when the epoch begins.
fn check_number(load: &LoadPlan, index: BatchIndex) -> anyhow::Result<()> {
    let rows = load.rows_of(index);
    if rows.end - rows.start < load.rows_per_batch() {
        return Err(Usage(format!("there is no batch {index}: the row number is too large; give a smaller one")).into());
    }
    match load.rows_decided()? {
        Some(decided) if rows.end > decided.0 => Err(Usage(format!(
            "batch {index} is not decided yet: each epoch reads the newest dataset version of the folder, and epochs are \
             decided up to row {decided}; give a batch below {}",
            decided.0 / load.rows_per_batch()
        ))
        .into()),
        _ => Ok(()),
    }
}

/// One line per document: its id, for `cloze prepare forget`, and its place in the corpus. Without a table of
/// documents, the hash in the shard.
fn documents(store: &Store, part: PartId, names: &[u64]) -> anyhow::Result<Vec<String>> {
    let origins = prepare::origins(store, part, &names.iter().copied().collect())?;
    Ok(names.iter().map(|name| document(*name, origins.get(name))).collect())
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

fn legend(paint: Paint) -> String {
    format!(
        "{} {} {} {}",
        paint.red("[MASK]‹masked›"),
        paint.yellow("random‹replaced›"),
        paint.green("kept‹kept›"),
        paint.dim("+2: the positive is two positions to the right")
    )
}

/// Formats a row of a view.
pub fn rendered(
    batch: &Batch,
    view: &str,
    columns: &[String],
    row: usize,
    vocab: &Vocab,
    paint: Paint,
) -> anyhow::Result<String> {
    let RowView { note, tokens, offsets } = row_view::row(batch, (view, columns), row, vocab)?;
    let note = (!note.is_empty()).then(|| note.to_owned());
    let offsets = offsets.iter().map(|offset| format!("{offset:+}"));
    let words = note.into_iter().chain(offsets).chain(tokens.iter().map(|token| shown(token, paint)));
    Ok(words.collect::<Vec<_>>().join(" "))
}

/// Formats one token, and its label if it is predicted.
fn shown(token: &Token<'_>, paint: Paint) -> String {
    let text = printable(token.text);
    let text = token.original.map_or(text.to_string(), |original| format!("{text}‹{}›", printable(original)));
    match token.fate {
        Fate::Plain => text,
        Fate::Special => paint.dim(text),
        Fate::Masked => paint.red(text),
        Fate::Kept => paint.green(text),
        Fate::Random => paint.yellow(text),
    }
}
