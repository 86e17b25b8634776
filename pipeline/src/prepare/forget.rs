//! Documents that are to be forgotten.

use schemas::{Document, Generation};

use super::change::Change;
use super::list::PartList;
use super::plan::Planned;
use super::record::{Bound, FoundPart};
use super::table;
use super::work::Omit;
use crate::corpus::Part;
use crate::{Error, Result};
use store::Store;

/// What forgetting a document asks for.
pub(super) enum Forgetting {
    /// A list said so before.
    Before(Generation),
    /// The list that says so.
    Now(Box<(PartList, Change)>),
}

/// Finds the parts that hold a document, and the list that drops them and makes them anew without it.
pub(super) fn forget(planned: &Planned, store: &Store, id: &str) -> Result<Forgetting> {
    let digest = Document::digest(id);
    if let Some(&generation) = planned.lists.forgotten(planned.lists.newest()).get(digest.as_str()) {
        return Ok(Forgetting::Before(generation));
    }
    let refused = |why: String| Error::Config(format!("{}: {why}", store.place("")));
    if let Some((_, change)) = &planned.next {
        let what = if change.generation.0 == 0 {
            "nothing is prepared".into()
        } else {
            format!("the corpus has changed ({change})")
        };
        return Err(refused(format!("{what}; run `cloze prepare`, then forget")));
    }
    let (settings, mut holders) = (planned.settings.digest(), Vec::<&Part>::new());
    let (mut documents, mut of_that_id) = (0, 0);
    for (generation, part) in planned.lists.in_effect().into_values() {
        let omit = Omit::of(&planned.lists, generation);
        let found = FoundPart::read(store, Bound { settings: &settings, forgotten: omit.name(), part })?;
        if !found.is_whole() {
            return Err(refused(format!("part {} is not there; run `cloze prepare` to its end, then forget", part.id)));
        }
        documents += found.records.iter().map(|record| record.report.documents).sum::<u64>();
        let mut tables = found.records.iter().filter_map(|record| record.documents.as_ref());
        let here = tables.try_fold(0, |sum, table| Ok::<_, Error>(sum + table::count(store, table, id)?))?;
        of_that_id += here;
        if here > 0 {
            holders.push(part);
        }
    }
    if holders.is_empty() {
        return Err(refused(format!(
            "no document `{}`; `documents/` lists the ids that there are (column `id`)",
            id.escape_debug()
        )));
    }
    if of_that_id == documents {
        return Err(refused("it has no other document; delete it to forget this one".into()));
    }
    Ok(Forgetting::Now(Box::new(planned.comparison(Some(store)).without(digest, &holders)?)))
}
