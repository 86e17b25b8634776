//! `cloze exposure`: counts how often a run has trained on each document.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Display};
use std::path::Path;
use std::sync::Arc;

use pipeline::exposure::{self, Counts, ExposurePage, ListedPage};
use pipeline::prepare;
use schemas::{DatasetVersion, Document};
use serde_json::json;
use store::Store;
use telemetry::quantities::count;
use telemetry::terminal::{line, note};

use crate::exit::Usage;
use crate::plan::Plan;
use crate::run::data::copy;

/// Minimum length of an id prefix. Shorter prefixes do not identify a document.
const PREFIX_MIN: usize = 6;

/// Prints the totals of a run, or of one of its documents.
pub(crate) fn run(run: &Path, document: Option<&str>, json: bool) -> anyhow::Result<()> {
    let store = remote_store::existing_path(run)?;
    if let Some(asked) = document {
        let (id, [kept, rolled_back]) = asked_for(run, &store, asked)?;
        one(&id, &kept, &rolled_back, json);
    } else {
        let [kept, rolled_back] = read_exposure(&store, None)?;
        all(&files(run, &kept), &kept, &rolled_back, json);
    }
    Ok(())
}

/// Exposure records of a run, kept and rolled back, for all documents or for some.
fn read_exposure(store: &Store, only: Option<&BTreeSet<u64>>) -> anyhow::Result<[ExposureCounts; 2]> {
    let pages = exposure::pages(store)?;
    if exposure::first(store, &pages)?.is_none() {
        let message = format!("{}: no exposure record; it is written with each checkpoint", store.place(""));
        return Err(Usage(message).into());
    }
    let folder = store.prefixed(exposure::FOLDER);
    Ok([
        ExposureCounts::read(&folder, pages, only)?,
        ExposureCounts::read(&folder.prefixed(exposure::ROLLED_BACK), exposure::rolled_back_pages(store)?, only)?,
    ])
}

/// Id and exposure of the requested document. A document that neither the exposure record nor the data contain is an
/// error, because "never trained on" would be misleading.
fn asked_for(run: &Path, store: &Store, asked: &str) -> anyhow::Result<(String, [ExposureCounts; 2])> {
    let called = called(asked);
    let names = called.into_iter().chain([Document::hash(asked)]).collect();
    let of_names = read_exposure(store, Some(&names))?;
    if of_names.iter().any(|told| !told.documents.is_empty()) {
        return Ok((asked.to_owned(), of_names));
    }
    let like = match ids_like(run, asked, called) {
        Ok(like) => like,
        Err(error) => {
            note(format_args!("warning: cannot check whether the document exists: {error:#}"));
            return Ok((asked.to_owned(), of_names));
        }
    };
    let is_exact = |id: &&String| *id == asked || called == Some(Document::hash(id));
    let mut found: Vec<&String> = like.iter().filter(is_exact).collect();
    if found.is_empty() && asked.chars().count() >= PREFIX_MIN {
        found = like.iter().collect();
    }
    match found[..] {
        [id] => Ok((id.clone(), read_exposure(store, Some(&[Document::hash(id)].into()))?)),
        [] => Err(Usage(format!(
            "no document `{}` in the data or the exposure record of this run; `documents/` of the data lists the existing ids \
             (column `id`); a unique prefix of at least {PREFIX_MIN} characters suffices",
            asked.escape_debug()
        ))
        .into()),
        [first, second, ..] => {
            Err(Usage(format!("several documents begin with `{asked}`, such as `{first}` and `{second}`")).into())
        }
    }
}

/// Parses the hash of a document as `explain --json` writes it.
fn called(asked: &str) -> Option<u64> {
    let is_name = asked.len() == 16 && asked.bytes().all(|digit| digit.is_ascii_hexdigit());
    is_name.then(|| u64::from_str_radix(asked, 16).ok()).flatten()
}

/// Ids in the data of a run that match the request.
fn ids_like(run: &Path, asked: &str, called: Option<u64>) -> anyhow::Result<BTreeSet<String>> {
    let mut like = BTreeSet::new();
    let plan = Plan::of_run(run)?;
    copy::refuse(plan.data())?;
    for folder in plan.data().all() {
        like.extend(prepare::ids_like(&folder.store, asked, called)?);
    }
    Ok(like)
}

/// Sum of exposure records.
#[derive(Default)]
struct ExposureCounts {
    /// Rows that the records cover.
    rows: Counts,
    first: u64,
    end: u64,
    /// Rows per document, by the data that contain it.
    documents: BTreeMap<Data, BTreeMap<u64, Counts>>,
}

/// Data of a document: the source of a mixture (empty if there is only one folder) and the dataset version.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Data {
    of: Arc<str>,
    dataset_version: DatasetVersion,
}

impl Data {
    /// Name of the source in JSON. `null` without a mixture.
    fn source(&self) -> Option<&str> {
        Some(&*self.of).filter(|of| !of.is_empty())
    }
}

impl Display for Data {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { dataset_version, .. } = self;
        match self.source() {
            Some(source) => write!(f, "dataset version {dataset_version} of {source}"),
            None => write!(f, "dataset version {dataset_version}"),
        }
    }
}

impl ExposureCounts {
    /// Reads the records, for all documents or for some.
    fn read(folder: &Store, pages: Vec<ListedPage>, only: Option<&BTreeSet<u64>>) -> pipeline::Result<Self> {
        let mut told = Self { first: pages.first().map_or(0, |page| page.from), ..Self::default() };
        for ListedPage { name, to, .. } in pages {
            let page = ExposurePage::read(folder, &name)?;
            told.rows += page.rows;
            told.end = told.end.max(to);
            for entry in page.entries.into_iter().filter(|entry| only.is_none_or(|only| only.contains(&entry.document)))
            {
                let data = Data { of: entry.of, dataset_version: entry.dataset_version };
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

fn one(id: &str, kept: &ExposureCounts, rolled_back: &ExposureCounts, json: bool) {
    let found: BTreeSet<&Data> = kept.documents.keys().chain(rolled_back.documents.keys()).collect();
    if json {
        let of = |data: &&Data| {
            json!({ "source": data.source(), "dataset_version": data.dataset_version, "rows": kept.counts(data),
                    "rolled_back": rolled_back.counts(data).total() })
        };
        let dataset_versions: Vec<_> = found.iter().map(of).collect();
        line(json!({ "document": id, "rows_consumed": kept.end, "dataset_versions": dataset_versions }));
        return;
    }
    if found.is_empty() {
        line(format_args!("document {id}: in none of the {} rows that were consumed", count(kept.end)));
    }
    for data in found {
        let Counts { trained, skipped, bad } = kept.counts(data);
        let rolled_back = rolled_back.counts(data).total();
        line(format_args!(
            "document {id}, {data}: trained in {trained} rows, skipped in {skipped}, bad in {bad}, rolled back in \
             {rolled_back}"
        ));
    }
}

/// Counts of the documents of one corpus file.
#[derive(Clone, Copy, Default)]
struct FileExposure {
    documents: u64,
    counts: Counts,
}

/// Counts by file, if the prepared folders still have the table of documents.
fn files(run: &Path, kept: &ExposureCounts) -> BTreeMap<(Data, String), FileExposure> {
    let found = Plan::of_run(run).and_then(|plan| by_file(&plan, kept));
    found.unwrap_or_else(|error| {
        note(format_args!("warning: cannot group documents by file: {error:#}"));
        BTreeMap::new()
    })
}

fn by_file(plan: &Plan, kept: &ExposureCounts) -> anyhow::Result<BTreeMap<(Data, String), FileExposure>> {
    let mut found = BTreeMap::<(Data, String), FileExposure>::new();
    copy::refuse(plan.data())?;
    for folder in plan.data().all() {
        let of = folder.name().unwrap_or_default();
        let read: Vec<_> = kept.documents.iter().filter(|(data, _)| *data.of == *of).collect();
        let mut known = BTreeSet::new();
        prepare::each_document(&folder.store, |document, file| {
            for (data, documents) in &read {
                // Of documents with equal text, the first counts.
                let Some(counts) = documents.get(&document).filter(|_| known.insert((data.dataset_version, document)))
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

fn all(
    files: &BTreeMap<(Data, String), FileExposure>,
    kept: &ExposureCounts,
    rolled_back: &ExposureCounts,
    json: bool,
) {
    if json {
        let dataset_version = |(data, documents): (&Data, &BTreeMap<u64, Counts>)| {
            json!({ "source": data.source(), "dataset_version": data.dataset_version, "documents": documents.len(),
                    "counts": kept.counts(data) })
        };
        let file = |((data, file), found): (&(Data, String), &FileExposure)| {
            json!({ "source": data.source(), "dataset_version": data.dataset_version, "file": file, "documents": found.documents,
                    "counts": found.counts })
        };
        line(json!({
            "rows_consumed": kept.end, "first_row": kept.first, "rows": kept.rows, "rolled_back_rows": rolled_back.rows.total(),
            "dataset_versions": kept.documents.iter().map(dataset_version).collect::<Vec<_>>(),
            "files": files.iter().map(file).collect::<Vec<_>>(),
        }));
        return;
    }
    let Counts { trained, skipped, bad } = kept.rows;
    line(format_args!(
        "{} rows consumed: {} trained, {} skipped, {} bad; {} more were rolled back",
        count(kept.end - kept.first),
        count(trained),
        count(skipped),
        count(bad),
        count(rolled_back.rows.total())
    ));
    if kept.first > 0 {
        line(format_args!(
            "it begins with row {}: an older program without exposure records consumed the rows before",
            kept.first
        ));
    }
    for (data, documents) in &kept.documents {
        let most = documents.values().map(|counts| counts.trained).max().unwrap_or(0);
        let least = documents.values().map(|counts| counts.trained).min().unwrap_or(0);
        line(format_args!(
            "{data}: {} documents, each trained in {least} to {most} rows",
            count(documents.len() as u64)
        ));
    }
    for ((data, file), FileExposure { documents, counts }) in files {
        line(format_args!(
            "  {file} ({data}): {} documents, trained {} times, skipped {}, bad {}",
            count(*documents),
            count(counts.trained),
            count(counts.skipped),
            count(counts.bad)
        ));
    }
}
