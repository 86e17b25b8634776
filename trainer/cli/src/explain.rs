//! `cloze explain`: rows of a step of a run, their origin and their loss.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use cloze::commands::inspect::rendered;
use cloze::report::row_view::{document, place, views_of};
use pipeline::corpus::Corpus;
use pipeline::load::{ExcludedRows, LoadPlan, RowFacts};
use pipeline::prepare::{Origin, open_corpus};
use pipeline::shard::groups::Groups;
use schemas::{Batch, BatchIndex, RowIndex, printable};
use serde_json::json;
use telemetry::terminal::{Paint, line, note, painted};

use super::replay_session::{Logged, ReplaySession};

/// Options of `cloze explain`.
pub(crate) struct Options<'a> {
    /// Step, counted from 1.
    pub(crate) step: u64,
    /// Number of a single row in the stream.
    pub(crate) row: Option<u64>,
    /// Maximum number of rows, the highest loss first.
    pub(crate) rows: usize,
    pub(crate) json: bool,
    pub(crate) set: &'a [String],
}

/// Maximum number of bytes of a document that are shown.
const TEXT_BYTES: usize = 400;

/// Shows the rows of a step: origin, source text, rendered views, and loss.
pub(crate) fn run(run: &Path, options: &Options<'_>) -> anyhow::Result<()> {
    let session = ReplaySession::prepare(run, options.step, options.set)?;
    let rows = session.rows();
    if let Some(row) = options.row.filter(|row| !rows.contains(row)) {
        let first = rows.start;
        let last = rows.end - 1;
        return Err(cloze::exit::Usage(format!("--row {row}: step {} has rows {first} to {last}", options.step)).into());
    }
    let logged = Logged::read(&session.store, options.step)?;
    let mut batches = session.batches(ExcludedRows::default())?;
    if let Some(row) = options.row {
        let alone = |batch: &Batch| {
            let at = usize::try_from(row.checked_sub(batch.first_row().0)?).ok()?;
            (at < batch.rows()).then(|| batch.slice(at, 1))
        };
        batches = batches.iter().filter_map(alone).collect();
    }
    let mut losses = session.replay.row_losses(&batches)?;
    losses.sort_by(|(_, one), (_, other)| other.total_cmp(one));
    losses.truncate(options.rows);
    let shown = RowDisplay::new(&session);
    let groups = session.load().groups();
    let facts = |row: RowIndex| session.load().row(&groups, row);
    if options.json {
        let rows = losses
            .iter()
            .map(|&(row, loss)| shown.json(row, loss, &facts(row)?))
            .collect::<anyhow::Result<Vec<_>>>()?;
        let logged_metrics = logged.figures.map(|(loss, grad_norm)| json!({ "loss": loss, "grad_norm": grad_norm }));
        line(json!({
            "step": options.step, "from": session.replay.from(), "lr": session.replay.lr(), "log": logged_metrics,
            "passed_over": session.replay.skipped(), "rows": rows,
        }));
        return Ok(());
    }
    let paint = Paint::stdout();
    let begun = session.replay.from().unwrap_or("the beginning");
    painted(paint.bold(printable(&format!(
        "step {}: rows {} to {}, lr {:.1e}; weights from {begun} plus {} steps",
        options.step,
        rows.start,
        rows.end - 1,
        session.replay.lr(),
        session.steps
    ))));
    if let Some((loss, norm)) = logged.figures {
        line(format_args!("logged: loss {loss:.4}, norm {norm:.4}"));
    }
    if let Some(spike) = session.replay.skipped() {
        line(format_args!("skipped after a loss spike: {:.4} (median {:.4})", spike.value, spike.median));
    }
    for (row, loss) in losses {
        shown.row(row, loss, &facts(row)?, paint)?;
    }
    Ok(())
}

/// Context for showing rows.
struct RowDisplay<'a> {
    session: &'a ReplaySession,
    /// Corpus of each source by name; the name is empty without sources. `None` if the corpus cannot be opened.
    corpora: BTreeMap<String, Option<Corpus>>,
    /// Load plan of the run with all columns of all views.
    everything: Arc<LoadPlan>,
    groups: Groups,
}

impl<'a> RowDisplay<'a> {
    fn new(session: &'a ReplaySession) -> Self {
        let open = |source: Option<&str>| {
            let opened = open_corpus(&session.plan.config().corpus_of(source));
            let of = source.map_or(String::new(), |source| format!(" of source `{source}`"));
            opened.inspect_err(|error| note(format_args!("cannot show the text{of}: {error}"))).ok()
        };
        let named =
            session.plan.data().all().map(|data| (data.name().unwrap_or_default().to_owned(), open(data.name())));
        let corpora = named.collect();
        let everything = session.plan.everything();
        Self { session, corpora, groups: everything.groups(), everything }
    }

    /// Returns the text of a document from its source, if the source still has it.
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
        let origins = self.session.plan.data().origins(facts)?;
        for name in &facts.documents {
            let origin = origins.get(name);
            painted(paint.dim(printable(&document(*name, origin))));
            match origin.map(|origin| self.text(facts, origin)) {
                Some(Some(text)) => line(format_args!("  {}", text.replace('\n', " "))),
                Some(None) => line("  (the text is missing or has changed)"),
                None => {}
            }
        }
        let index = BatchIndex(row.0 / self.everything.rows_per_batch());
        let batch = self.everything.batch_with(&self.groups, index, &self.session.row_policy())?;
        let at = usize::try_from(row.0 % self.everything.rows_per_batch())?;
        for (view, columns) in &views_of(&batch) {
            let shown = rendered(&batch, view, columns, at, self.session.plan.vocab(), paint)?;
            painted(format_args!("{} {shown}", paint.cyan(printable(view))));
        }
        Ok(())
    }

    fn json(&self, row: RowIndex, loss: f64, facts: &RowFacts) -> anyhow::Result<serde_json::Value> {
        let origins = self.session.plan.data().origins(facts)?;
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

/// Returns the part of a text that is shown.
fn beginning(text: &str) -> &str {
    let end = (0..=TEXT_BYTES.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    &text[..end]
}
