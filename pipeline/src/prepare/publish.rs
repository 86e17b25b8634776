//! Lists and records ↦ manifest: an entry for each list, the newest computed, the others as they were published.
//!
//! What was published of a generation stays, since runs are bound to it. Where the manifest is lost, generations of which
//! every part is still there are computed again; of the others only the numbers of their parts are known.

use std::collections::BTreeSet;

use schemas::manifest::{CorpusReport, FileEntry, GenerationEntry, PartEntry};
use schemas::{Generation, Manifest, PartId, Split, manifest};

use super::fold::{Fold, ListSum};
use super::list::{Lists, PartList};
use super::vocab;
use super::work::Work;
use crate::Result;

/// Writes what stands beside the parts, the manifest last, unless it is there already. Returns whether anything had to be
/// written.
pub(super) fn publish(work: &Work, lists: &Lists, fold: &Fold<'_>) -> Result<bool> {
    let Some(store) = work.store() else { return Ok(false) };
    let mut written = false;
    let mut write = |name: &str, bytes: &[u8]| -> Result<()> {
        if store.read_with_stat(name)?.is_none_or(|(found, _)| found != bytes) {
            store.put(name, bytes)?;
            written = true;
        }
        Ok(())
    };
    let before = store.read_with_stat(manifest::NAME)?.and_then(|(bytes, _)| Manifest::from_json(&bytes).ok());
    let facts = work.tokenizer.facts();
    write(manifest::TOKENIZER, &facts.json)?;
    let mut generations = Vec::new();
    let newest = lists.iter().count() - 1;
    for (number, list) in lists.iter().enumerate() {
        let known = before.as_ref().filter(|_| number < newest).and_then(|before| before.generations.get(number));
        let known = known.filter(|entry| is_of(entry, list)).filter(|entry| !entry.content.is_empty());
        let mut entry = bare(fold, list);
        let sums = whole(lists, fold, list.generation);
        assert!(sums.is_some() || number < newest, "a generation is published after the last of its parts");
        if let Some((corpus, counts)) = sums {
            let (path, bytes) = (format!("vocab/{number:05}.parquet"), vocab::to_parquet(&facts.vocab(counts)));
            write(&path, &bytes)?;
            let blake3 = blake3::hash(&bytes).to_hex().to_string();
            let content = content(lists, fold, list.generation);
            entry = GenerationEntry { vocab: FileEntry { path, blake3 }, corpus, content, ..entry };
        }
        generations.push(known.cloned().unwrap_or(entry));
    }
    let manifest = Manifest {
        tokenizer: facts.manifest.clone(),
        tokens_max: work.config.tokens_max,
        pack: work.config.pack.facts(work.config.tokens_max),
        files: [(manifest::TOKENIZER.to_owned(), blake3::hash(&facts.json).to_hex().to_string())].into(),
        generations,
    };
    write(manifest::NAME, &manifest.to_json())?;
    Ok(written)
}

/// Whether an entry was published of that list.
fn is_of(entry: &GenerationEntry, list: &PartList) -> bool {
    entry.dropped == list.dropped && entry.parts.iter().map(|part| part.id).eq(list.parts.iter().map(|part| part.id))
}

/// What a list says, with the shards of the parts that are there.
fn bare(fold: &Fold<'_>, list: &PartList) -> GenerationEntry {
    let entry =
        |id: PartId| fold.parts.get(&id).cloned().unwrap_or(PartEntry { id, train: Vec::new(), valid: Vec::new() });
    GenerationEntry {
        dropped: list.dropped.clone(),
        parts: list.parts.iter().map(|part| entry(part.id)).collect(),
        vocab: FileEntry::default(),
        corpus: CorpusReport::default(),
        content: String::new(),
    }
}

/// The parts in effect in a generation, in order.
fn in_effect(lists: &Lists, generation: Generation) -> impl Iterator<Item = PartId> {
    let dropped: BTreeSet<PartId> = lists.dropped(generation);
    let parts = lists.iter().take(generation.0 as usize + 1).flat_map(|list| &list.parts).map(|part| part.id);
    parts.filter(move |id| !dropped.contains(id))
}

/// What the parts of a generation come to, if every one of them is there.
fn whole(lists: &Lists, fold: &Fold<'_>, generation: Generation) -> Option<(CorpusReport, Vec<u64>)> {
    if !in_effect(lists, generation).all(|id| fold.parts.contains_key(&id)) {
        return None;
    }
    let mut sums = fold.lists.range(..=generation).map(|(_, sum)| sum);
    let ListSum { mut corpus, mut counts } = sums.next()?.clone();
    for sum in sums {
        corpus.add(&sum.corpus);
        counts.iter_mut().zip(&sum.counts).for_each(|(count, more)| *count += more);
    }
    Some((corpus, counts))
}

fn content(lists: &Lists, fold: &Fold<'_>, generation: Generation) -> String {
    let shards = in_effect(lists, generation).flat_map(|id| fold.parts[&id].train.clone());
    Split { shards: shards.collect() }.content()
}
