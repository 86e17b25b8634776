//! Documents of a prepared folder that share their id.
//!
//! # What
//! Counts the documents whose id an earlier document has, and finds the first two of one id.
//!
//! # Why
//! `cloze prepare forget --document` and the counts of `cloze exposure` go by id. They apply to all documents of an id
//! together.
//!
//! # Definition
//! Ids are compared by their 64-bit hash. A set holds at most [`MAX_IDS`] hashes, about 40 MB. If there are more ids, only
//! those whose lowest `k` bits are 0 are counted, and the count is multiplied by `2^k`; `k` grows by one whenever the set is
//! full. The count is exact for up to [`MAX_IDS`] ids, and an estimate above.
//!
//! # Reference
//! Gibbons 2001, "Distinct Sampling for Highly-Accurate Answers to Distinct Values Queries and Event Reports".

use std::collections::{BTreeMap, BTreeSet};

use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt64Type;
use schemas::PartId;
use store::Store;
use telemetry::quantities::count;
use telemetry::training::Warning;

use super::document_table::{Origin, each_origin, each_table, is_of};
use crate::Result;
use crate::corpus::AnyFormat;

/// Maximum number of ids that are compared exactly.
const MAX_IDS: usize = 1 << 20;

/// Documents that share their id with an earlier one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct DuplicateIds {
    /// Number of documents, without the first of each id.
    documents: u64,
    /// One id in this number of ids was counted.
    sampled: u64,
    /// First two documents of one id, in the order of the parts.
    example: [Origin; 2],
}

/// Finds the documents of these parts that share their id. `None` if all ids differ.
///
/// # Errors
/// If a table cannot be read.
pub(super) fn find(store: &Store, parts: &BTreeSet<PartId>) -> Result<Option<DuplicateIds>> {
    find_within(store, parts, MAX_IDS)
}

fn find_within(store: &Store, parts: &BTreeSet<PartId>, max_ids: usize) -> Result<Option<DuplicateIds>> {
    let mut counter = IdCounter { max_ids, ..IdCounter::default() };
    each_table(store, is_of("documents", parts), &["document"], |batch| {
        let documents = batch.column_by_name("document")?.as_primitive_opt::<UInt64Type>()?;
        documents.values().iter().for_each(|&document| counter.add(document));
        Some(())
    })?;
    let Some(first) = counter.first else { return Ok(None) };
    let mut places: Vec<Origin> = Vec::new();
    each_origin(store, parts, &[first].into(), |_, origin| {
        if places.len() < 2 {
            places.push(origin);
        }
    })?;
    let example = <[Origin; 2]>::try_from(places).ok();
    let documents = counter.duplicates();
    let sampled = counter.mask + 1;
    Ok(example.map(|example| DuplicateIds { documents, sampled, example }))
}

/// Number of documents of each id, for the ids of which the bits of the mask are 0.
#[derive(Debug, Default)]
struct IdCounter {
    max_ids: usize,
    mask: u64,
    documents: BTreeMap<u64, u32>,
    /// First id that was seen twice.
    first: Option<u64>,
}

impl IdCounter {
    fn add(&mut self, document: u64) {
        if document & self.mask != 0 {
            return;
        }
        let known = self.documents.entry(document).or_default();
        *known = known.saturating_add(1);
        if *known == 2 {
            self.first.get_or_insert(document);
        }
        while self.documents.len() > self.max_ids {
            self.mask = 2 * self.mask + 1;
            let mask = self.mask;
            self.documents.retain(|document, _| document & mask == 0);
        }
    }

    fn duplicates(&self) -> u64 {
        let more: u64 = self.documents.values().map(|&documents| u64::from(documents) - 1).sum();
        // The first pair may not be among the ids that are left.
        (more * (self.mask + 1)).max(u64::from(self.first.is_some()))
    }
}

impl DuplicateIds {
    /// Returns the warning for a corpus whose ids are those of the field `id_field`.
    pub(super) fn warning(&self, id_field: &str, format: &AnyFormat) -> Warning {
        let Self { documents, sampled, example } = self;
        let unit = if format.has_rows() { "rows" } else { "bytes" };
        let [first, second] = example
            .each_ref()
            .map(|Origin { source, range, .. }| format!("{source}, {unit} {} to {}", range.start, range.end));
        let (number, verb) = match documents {
            1 => ("1 document".to_owned(), "has"),
            _ => (format!("{} documents", count(*documents)), "have"),
        };
        let about =
            if *sampled > 1 { format!(" (estimated from one in {} ids)", count(*sampled)) } else { String::new() };
        let id = example[0].id.escape_debug();
        Warning {
            topic: "duplicate_ids".into(),
            message: format!(
                "{number} {verb} the id of an earlier one{about}, such as `{id}`: {first}, and {second}; all are kept, and \
                 `forget` and `exposure` treat documents of one id together"
            ),
            hint: Some(format!("make `{id_field}` unique, or set another `prepare.id_field`")),
        }
    }
}

#[cfg(test)]
mod tests {
    use schemas::Document;
    use store::FaultConfig;

    use super::super::document_table::{Entry, TableWriter};
    use super::*;

    /// Writes a table for each list of ids.
    fn folder(tables: &[Vec<String>]) -> Store {
        let store = Store::in_memory(FaultConfig::none());
        for (part, ids) in tables.iter().enumerate() {
            let mut writer = TableWriter::new(&store, format!("documents/part-{part:05}-00.parquet"));
            for (at, id) in (0_u64..).zip(ids) {
                let document = Document::hash(id);
                let source = format!("{part}.jsonl");
                let range = 10 * at..10 * at + 9;
                writer.add(&Entry { id, document, source: &source, range, valid: false, row: at, tokens: 5 });
            }
            let (_, object) = writer.finish().expect("written").expect("it has documents");
            object.commit().expect("written");
        }
        store
    }

    fn ids(range: std::ops::Range<u32>) -> Vec<String> {
        range.map(|number| format!("d{number}")).collect()
    }

    #[test]
    fn duplicates_are_counted_exactly_with_the_places_of_two() {
        let store = folder(&[ids(0..100), ids(50..60), [ids(0..1), ids(0..1), ids(7..8)].concat()]);
        let of = |parts: &[u32]| find(&store, &parts.iter().copied().map(PartId).collect()).expect("readable");
        assert_eq!(of(&[0]), None);
        assert_eq!(of(&[1, 2]).map(|it| it.documents), Some(1), "parts that are not in effect do not count");
        let all = of(&[0, 1, 2]).expect("duplicates");
        assert_eq!((all.documents, all.sampled), (13, 1));
        let text = all.warning("id", &AnyFormat::of_kind("jsonl").expect("known")).message;
        for words in ["13 documents have", "`d50`: 0.jsonl, bytes 500 to 509, and 1.jsonl, bytes 0 to 9"] {
            assert!(text.contains(words), "`{words}` is missing in {text}");
        }
    }

    /// With fewer places than ids, the count is an estimate: here its standard error is 6 %.
    #[test]
    fn memory_is_bounded_and_the_count_is_estimated() {
        let store = folder(&[ids(0..20_000), ids(5000..15_000)]);
        let parts = [PartId(0), PartId(1)].into();
        let found = find_within(&store, &parts, 1000).expect("readable").expect("duplicates");
        assert!(found.sampled >= 20 && (8000..12_000).contains(&found.documents), "{found:?}");
        assert!(found.warning("id", &AnyFormat::default()).message.contains("(estimated from one in "));
        // A pair is reported though its id is not among the sampled ones.
        let store = folder(&[[ids(0..1), ids(0..1), ids(1..5000)].concat()]);
        let found = find_within(&store, &[PartId(0)].into(), 10).expect("readable").expect("one pair");
        assert!(found.documents >= 1 && found.example[0].id == "d0", "{found:?}");
    }
}
