//! `cloze ledger`: how often a run has learnt each document.

use std::collections::BTreeMap;
use std::path::Path;

use pipeline::ledger::{self, Counts, Page};
use pipeline::prepare;
use schemas::{Document, Generation};
use serde_json::json;
use store::Store;

use crate::exit::Usage;
use crate::plan::Plan;
use crate::terminal::{count, line, note};

/// Totals of a run, or of one of its documents.
pub(crate) fn run(run: &Path, document: Option<&str>, json: bool) -> anyhow::Result<()> {
    let store = Store::existing(run)?;
    let kept = Told::of(&store.within(ledger::FOLDER), ledger::pages(&store)?, document)?;
    let undone = Told::of(&store.within(ledger::FOLDER).within(ledger::UNDONE), ledger::undone(&store)?, document)?;
    if kept.pages == 0 {
        let message = format!("{}: there is no ledger here: it is written with each checkpoint", store.place(""));
        return Err(Usage(message).into());
    }
    match document {
        Some(id) => one(id, &kept, &undone, json),
        None => all(&sources(run, &kept), &kept, &undone, json),
    }
    Ok(())
}

/// What pages say.
#[derive(Default)]
struct Told {
    pages: usize,
    /// The rows that they tell of.
    rows: Counts,
    first: u64,
    end: u64,
    /// In how many rows each document was, by generation.
    documents: BTreeMap<Generation, BTreeMap<u64, Counts>>,
}

impl Told {
    /// Of all documents, or of one.
    fn of(folder: &Store, pages: Vec<(String, u64, u64)>, only: Option<&str>) -> pipeline::Result<Self> {
        let only = only.map(Document::hash);
        let mut told = Self { pages: pages.len(), first: pages.first().map_or(0, |page| page.1), ..Self::default() };
        for (name, _, to) in pages {
            let page = Page::read(folder, &name)?;
            told.rows += page.rows;
            told.end = told.end.max(to);
            for entry in page.entries.iter().filter(|entry| only.is_none_or(|only| only == entry.document)) {
                *told.documents.entry(entry.generation).or_default().entry(entry.document).or_default() += entry.counts;
            }
        }
        Ok(told)
    }

    fn generation(&self, generation: Generation) -> Counts {
        let mut counts = Counts::default();
        self.documents.get(&generation).into_iter().flat_map(BTreeMap::values).for_each(|document| counts += *document);
        counts
    }
}

fn one(id: &str, kept: &Told, undone: &Told, json: bool) {
    let generations: std::collections::BTreeSet<Generation> =
        kept.documents.keys().chain(undone.documents.keys()).copied().collect();
    if json {
        let of = |generation: &Generation| {
            json!({ "generation": generation, "rows": kept.generation(*generation),
                    "undone": undone.generation(*generation).total() })
        };
        let generations: Vec<_> = generations.iter().map(of).collect();
        line(json!({ "document": id, "rows_consumed": kept.end, "generations": generations }));
        return;
    }
    if generations.is_empty() {
        line(format_args!("document {id}: in none of the {} rows that were consumed", count(kept.end)));
    }
    for generation in generations {
        let Counts { learnt, skipped, left_out } = kept.generation(generation);
        let undone = undone.generation(generation).total();
        line(format_args!(
            "document {id}, generation {generation}: learnt in {learnt} rows, skipped in {skipped}, left out in {left_out}, \
             undone in {undone}"
        ));
    }
}

/// What became of the documents of one source.
#[derive(Clone, Copy, Default)]
struct OfSource {
    documents: u64,
    counts: Counts,
}

/// By source, where the prepared folder still says which file a document is of.
fn sources(run: &Path, kept: &Told) -> BTreeMap<(Generation, String), OfSource> {
    let found = Plan::of_run(run).and_then(|plan| by_source(&plan, kept));
    found.unwrap_or_else(|error| {
        note(format_args!("warning: documents are not told apart by source: {error:#}"));
        BTreeMap::new()
    })
}

fn by_source(plan: &Plan, kept: &Told) -> anyhow::Result<BTreeMap<(Generation, String), OfSource>> {
    let mut found = BTreeMap::<(Generation, String), OfSource>::new();
    let mut known = std::collections::BTreeSet::new();
    prepare::each_document(&plan.data().store, |document, source| {
        for (generation, documents) in &kept.documents {
            // Of equal texts, the first.
            let Some(counts) = documents.get(&document).filter(|_| known.insert((*generation, document))) else {
                continue;
            };
            let of = found.entry((*generation, source.to_owned())).or_default();
            of.documents += 1;
            of.counts += *counts;
        }
    })?;
    Ok(found)
}

fn all(sources: &BTreeMap<(Generation, String), OfSource>, kept: &Told, undone: &Told, json: bool) {
    if json {
        let generation = |(generation, documents): (&Generation, &BTreeMap<u64, Counts>)| json!({ "generation": generation, "documents": documents.len(), "counts": kept.generation(*generation) });
        let source = |((generation, source), of): (&(Generation, String), &OfSource)| json!({ "generation": generation, "source": source, "documents": of.documents, "counts": of.counts });
        line(json!({
            "rows_consumed": kept.end, "first_row": kept.first, "rows": kept.rows, "undone_rows": undone.rows.total(),
            "generations": kept.documents.iter().map(generation).collect::<Vec<_>>(),
            "sources": sources.iter().map(source).collect::<Vec<_>>(),
        }));
        return;
    }
    let Counts { learnt, skipped, left_out } = kept.rows;
    line(format_args!(
        "{} rows consumed: {} learnt, {} skipped, {} left out; {} more were undone",
        count(kept.end - kept.first),
        count(learnt),
        count(skipped),
        count(left_out),
        count(undone.rows.total())
    ));
    if kept.first > 0 {
        line(format_args!(
            "it begins with row {}: what was before was consumed by a program without a ledger",
            kept.first
        ));
    }
    for (generation, documents) in &kept.documents {
        let most = documents.values().map(|counts| counts.learnt).max().unwrap_or(0);
        let least = documents.values().map(|counts| counts.learnt).min().unwrap_or(0);
        line(format_args!(
            "generation {generation}: {} documents, each learnt in {least} to {most} rows",
            count(documents.len() as u64)
        ));
    }
    for ((generation, source), OfSource { documents, counts }) in sources {
        line(format_args!(
            "  {source} (generation {generation}): {} documents, learnt {} times, skipped {}, left out {}",
            count(*documents),
            count(counts.learnt),
            count(counts.skipped),
            count(counts.left_out)
        ));
    }
}
