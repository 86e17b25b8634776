//! `cloze explain`: what a step of a run learned from.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cloze::commands::inspect::rendered;
use cloze::report::row_view::{document, place, views_of};
use pipeline::corpus::Corpus;
use pipeline::load::{LeftOut, LoadPlan, RowFacts};
use pipeline::prepare::Origin;
use pipeline::shard::groups::Groups;
use schemas::{Batch, BatchIndex, RowIndex, printable};
use serde_json::json;
use telemetry::terminal::{Paint, line, note, painted};

use super::replay_session::{Logged, ReplaySession};

/// What is asked.
pub(crate) struct Options<'a> {
    /// The step, counted from 1.
    pub(crate) step: u64,
    /// One row alone, by its number in the stream.
    pub(crate) row: Option<u64>,
    /// How many rows, the hardest first.
    pub(crate) rows: usize,
    pub(crate) json: bool,
    pub(crate) set: &'a [String],
}

/// Bytes of a document that are shown.
const TEXT_BYTES: usize = 400;

/// Shows the rows of a step: where they come from, what the source says, how each view saw them, and how hard they were.
pub(crate) fn run(run: &Path, options: &Options<'_>) -> anyhow::Result<()> {
    let again = ReplaySession::before(run, options.step, options.set)?;
    let rows = again.rows();
    if let Some(row) = options.row.filter(|row| !rows.contains(row)) {
        let (first, last) = (rows.start, rows.end - 1);
        return Err(cloze::exit::Usage(format!("--row {row}: step {} has rows {first} to {last}", options.step)).into());
    }
    let logged = Logged::of(&again.store, options.step)?;
    let mut batches = again.batches(LeftOut::default())?;
    if let Some(row) = options.row {
        let alone = |batch: &Batch| {
            let at = usize::try_from(row.checked_sub(batch.first_row().0)?).ok()?;
            (at < batch.rows()).then(|| batch.slice(at, 1))
        };
        batches = batches.iter().filter_map(alone).collect();
    }
    let mut losses = again.replay.row_losses(&batches)?;
    losses.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    losses.truncate(options.rows);
    let shown = Shown::of(&again);
    let groups = again.load().groups();
    let facts = |row: RowIndex| again.load().row(&groups, row);
    if options.json {
        let rows = losses
            .iter()
            .map(|&(row, loss)| shown.json(row, loss, &facts(row)?))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let figures = logged.figures.map(|(loss, grad_norm)| json!({ "loss": loss, "grad_norm": grad_norm }));
        line(json!({
            "step": options.step, "from": again.replay.from(), "lr": again.replay.lr(), "log": figures,
            "passed_over": again.replay.skipped(), "rows": rows,
        }));
        return Ok(());
    }
    let paint = Paint::stdout();
    let begun = again.replay.from().unwrap_or("the beginning");
    painted(paint.bold(printable(&format!(
        "step {}: rows {} to {}, lr {:.1e}; weights from {begun}, {} steps further",
        options.step,
        rows.start,
        rows.end - 1,
        again.replay.lr(),
        again.steps
    ))));
    if let Some((loss, norm)) = logged.figures {
        line(format_args!("the log has loss {loss:.4}, norm {norm:.4}"));
    }
    if let Some(leap) = again.replay.skipped() {
        line(format_args!("it is skipped: {:.4} where {:.4} was usual", leap.value, leap.median));
    }
    for (row, loss) in losses {
        shown.row(row, loss, &facts(row)?, paint)?;
    }
    Ok(())
}

/// What rows are shown with.
struct Shown<'a> {
    again: &'a ReplaySession,
    /// Of each source, by name, or of all there is, by none; nothing where a corpus is not there any more.
    corpora: BTreeMap<String, Option<Corpus>>,
    /// The run's rows with all columns of all views.
    everything: Arc<LoadPlan>,
    groups: Groups,
}

impl<'a> Shown<'a> {
    fn of(again: &'a ReplaySession) -> Self {
        let open = |source: Option<&str>| {
            let opened = Corpus::open(&again.plan.config().corpus_of(source).corpus());
            let of = source.map_or(String::new(), |source| format!(" of source `{source}`"));
            opened.inspect_err(|error| note(format_args!("no text{of} is shown: {error}"))).ok()
        };
        let named = again.plan.data().all().map(|data| (data.name().unwrap_or_default().to_owned(), open(data.name())));
        let corpora = named.collect();
        let everything = again.plan.everything();
        Self { again, corpora, groups: everything.groups(), everything }
    }

    /// What the source says, where it still says it.
    fn text(&self, facts: &RowFacts, origin: &Origin) -> Option<String> {
        let found =
            self.corpora.get(facts.of.as_deref().unwrap_or_default())?.as_ref()?.find(&origin.source, &origin.range);
        let document = found.unwrap_or_else(|error| {
            note(format_args!("{}: {error}", origin.source));
            None
        })?;
        (document.id == origin.id).then(|| beginning(&document.text).to_owned())
    }

    fn row(&self, row: RowIndex, loss: f64, facts: &RowFacts, paint: Paint) -> anyhow::Result<()> {
        line("");
        painted(paint.bold(printable(&format!("row {row}: loss {loss:.4}: {}", place(facts)))));
        let origins = self.again.plan.data().origins(facts)?;
        for name in &facts.documents {
            let origin = origins.get(name);
            painted(paint.dim(printable(&document(*name, origin))));
            match origin.map(|origin| self.text(facts, origin)) {
                Some(Some(text)) => line(format_args!("  {}", text.replace('\n', " "))),
                Some(None) => line("  (its text is not there any more, or is another)"),
                None => {}
            }
        }
        let index = BatchIndex(row.0 / self.everything.rows_per_batch());
        let batch = self.everything.batch_with(&self.groups, index, &self.again.care())?;
        let at = usize::try_from(row.0 % self.everything.rows_per_batch())?;
        for (view, columns) in &views_of(&batch) {
            let shown = rendered(&batch, view, columns, at, self.again.plan.vocab(), paint)?;
            painted(format_args!("{} {shown}", paint.cyan(printable(view))));
        }
        Ok(())
    }

    fn json(&self, row: RowIndex, loss: f64, facts: &RowFacts) -> anyhow::Result<serde_json::Value> {
        let origins = self.again.plan.data().origins(facts)?;
        let document = |name: &u64| match origins.get(name) {
            None => json!({ "document": format!("{name:016x}") }),
            Some(origin) => json!({
                "document": format!("{name:016x}"), "id": origin.id, "source": origin.source,
                "start": origin.range.start, "end": origin.range.end, "text": self.text(facts, origin),
            }),
        };
        let documents: Vec<_> = facts.documents.iter().map(document).collect();
        Ok(json!({
            "row": row, "loss": loss, "of": facts.of, "epoch": facts.epoch, "dataset_version": facts.dataset_version, "shard": facts.shard,
            "group": facts.group, "row_in_group": facts.row_in_group, "piece": facts.piece, "copy": facts.copy,
            "documents": documents,
        }))
    }
}

/// As much of a text as is shown.
fn beginning(text: &str) -> &str {
    let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}
