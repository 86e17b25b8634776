//! `cloze ledger`: how often a run has learnt each document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;

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
        None => all(&files(run, &kept), &kept, &undone, json),
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
    /// In how many rows each document was, by the data that it is of.
    documents: BTreeMap<Data, BTreeMap<u64, Counts>>,
}

/// Which data documents are of: the source of a mixture, empty where one folder is all there is, and the generation.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Data {
    of: Arc<str>,
    generation: Generation,
}

impl Data {
    /// The name of the source for programs: null where there is none.
    fn source(&self) -> Option<&str> {
        Some(&*self.of).filter(|of| !of.is_empty())
    }
}

impl Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { generation, .. } = self;
        match self.source() {
            Some(source) => write!(f, "generation {generation} of {source}"),
            None => write!(f, "generation {generation}"),
        }
    }
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
            for entry in page.entries.into_iter().filter(|entry| only.is_none_or(|only| only == entry.document)) {
                let data = Data { of: entry.of, generation: entry.generation };
                *told.documents.entry(data).or_default().entry(entry.document).or_default() += entry.counts;
            }
        }
        Ok(told)
    }

    fn counts(&self, data: &Data) -> Counts {
        let mut counts = Counts::default();
        self.documents.get(data).into_iter().flat_map(BTreeMap::values).for_each(|document| counts += *document);
        counts
    }
}

fn one(id: &str, kept: &Told, undone: &Told, json: bool) {
    let found: BTreeSet<&Data> = kept.documents.keys().chain(undone.documents.keys()).collect();
    if json {
        let of = |data: &&Data| {
            json!({ "of": data.source(), "generation": data.generation, "rows": kept.counts(data),
                    "undone": undone.counts(data).total() })
        };
        let generations: Vec<_> = found.iter().map(of).collect();
        line(json!({ "document": id, "rows_consumed": kept.end, "generations": generations }));
        return;
    }
    if found.is_empty() {
        line(format_args!("document {id}: in none of the {} rows that were consumed", count(kept.end)));
    }
    for data in found {
        let Counts { learnt, skipped, left_out } = kept.counts(data);
        let undone = undone.counts(data).total();
        line(format_args!(
            "document {id}, {data}: learnt in {learnt} rows, skipped in {skipped}, left out in {left_out}, undone in \
             {undone}"
        ));
    }
}

/// What became of the documents of one file of the corpus.
#[derive(Clone, Copy, Default)]
struct OfFile {
    documents: u64,
    counts: Counts,
}

/// By file, where the prepared folders still say which one a document is of.
fn files(run: &Path, kept: &Told) -> BTreeMap<(Data, String), OfFile> {
    let found = Plan::of_run(run).and_then(|plan| by_file(&plan, kept));
    found.unwrap_or_else(|error| {
        note(format_args!("warning: documents are not told apart by file: {error:#}"));
        BTreeMap::new()
    })
}

fn by_file(plan: &Plan, kept: &Told) -> anyhow::Result<BTreeMap<(Data, String), OfFile>> {
    let mut found = BTreeMap::<(Data, String), OfFile>::new();
    for folder in plan.data().all() {
        let of = folder.name().unwrap_or_default();
        let read: Vec<_> = kept.documents.iter().filter(|(data, _)| *data.of == *of).collect();
        let mut known = BTreeSet::new();
        prepare::each_document(&folder.store, |document, file| {
            for (data, documents) in &read {
                // Of equal texts, the first.
                let Some(counts) = documents.get(&document).filter(|_| known.insert((data.generation, document)))
                else {
                    continue;
                };
                let of = found.entry(((*data).clone(), file.to_owned())).or_default();
                of.documents += 1;
                of.counts += *counts;
            }
        })?;
    }
    Ok(found)
}

fn all(files: &BTreeMap<(Data, String), OfFile>, kept: &Told, undone: &Told, json: bool) {
    if json {
        let generation = |(data, documents): (&Data, &BTreeMap<u64, Counts>)| {
            json!({ "of": data.source(), "generation": data.generation, "documents": documents.len(),
                    "counts": kept.counts(data) })
        };
        let file = |((data, file), found): (&(Data, String), &OfFile)| {
            json!({ "of": data.source(), "generation": data.generation, "source": file, "documents": found.documents,
                    "counts": found.counts })
        };
        line(json!({
            "rows_consumed": kept.end, "first_row": kept.first, "rows": kept.rows, "undone_rows": undone.rows.total(),
            "generations": kept.documents.iter().map(generation).collect::<Vec<_>>(),
            "sources": files.iter().map(file).collect::<Vec<_>>(),
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
    for (data, documents) in &kept.documents {
        let most = documents.values().map(|counts| counts.learnt).max().unwrap_or(0);
        let least = documents.values().map(|counts| counts.learnt).min().unwrap_or(0);
        line(format_args!(
            "{data}: {} documents, each learnt in {least} to {most} rows",
            count(documents.len() as u64)
        ));
    }
    for ((data, file), OfFile { documents, counts }) in files {
        line(format_args!(
            "  {file} ({data}): {} documents, learnt {} times, skipped {}, left out {}",
            count(*documents),
            count(counts.learnt),
            count(counts.skipped),
            count(counts.left_out)
        ));
    }
}
