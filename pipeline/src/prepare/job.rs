//! Inputs that all workers of a preparation share: tasks, corpus, tokenizer, folder, and the text that is tokenized twice.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemas::{DatasetVersion, PartId};
use store::{Lock, Store};

use super::commit_record::Bound;
use super::config::PrepareConfig;
use super::part_list::Lists;
use crate::corpus::{Corpus, Part};
use crate::tokenize::{Tokenizer, front};

/// How a run differs from the plain one. Not part of any configuration.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrepareOptions {
    /// Deals the parts in the order of their list, for somebody who reads them as they come; else long ones first.
    pub in_order: bool,
    /// Throws samples away instead of writing them: shows what the other stages can do.
    pub null_writer: bool,
    /// Makes the writer sleep this long for each segment: shows that a slow writer is found out.
    pub write_delay: Duration,
}

/// A part in effect.
#[derive(Debug)]
pub(super) struct Task {
    pub(super) dataset_version: DatasetVersion,
    pub(super) part: Part,
    pub(super) omit: Omit,
}

/// The documents that a part must not have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Omit {
    /// BLAKE3 of their ids.
    digests: BTreeSet<String>,
    /// BLAKE3 over those.
    name: String,
}

impl Omit {
    /// What parts of that list leave out.
    pub(super) fn of(lists: &Lists, dataset_version: DatasetVersion) -> Self {
        let digests: BTreeSet<String> = lists.forgotten(dataset_version).into_keys().map(str::to_owned).collect();
        let mut hasher = blake3::Hasher::new();
        for digest in &digests {
            hasher.update(digest.as_bytes());
        }
        Self { digests, name: hasher.finalize().to_hex().to_string() }
    }

    /// Whether a document of that id is left out.
    pub(super) fn has(&self, id: &str) -> bool {
        !self.digests.is_empty() && self.digests.contains(&schemas::Document::digest(id))
    }

    /// What a commit record is bound to.
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

/// What every worker shares.
pub(super) struct Work {
    pub(super) config: PrepareConfig,
    pub(super) corpus: Corpus,
    pub(super) tokenizer: Box<dyn Tokenizer>,
    /// What is tokenized twice.
    pub(super) sample: Sample,
    /// BLAKE3 of the settings.
    pub(super) settings: String,
    /// In the order in which they are dealt.
    pub(super) tasks: Vec<Task>,
    pub(super) options: PrepareOptions,
    /// Where to put it, as long as it is ours, and the right to; none if it is thrown away.
    pub(super) target: Option<(Store, Lock)>,
}

impl Work {
    pub(super) fn store(&self) -> Option<&Store> {
        self.target.as_ref().map(|(store, _)| store)
    }

    /// Where it is put, or would be, in words.
    pub(super) fn place(&self) -> String {
        match self.store().filter(|store| store.local().is_none()) {
            Some(store) => store.place(""),
            None => self.config.folder.display().to_string(),
        }
    }

    pub(super) fn bound<'a>(&'a self, task: &'a Task) -> Bound<'a> {
        Bound { settings: &self.settings, forgotten: task.omit.name(), part: &task.part }
    }
}

/// The parts in effect, long ones first, so that none begins when the others end.
pub(super) fn long_ones_first(lists: &Lists, part_bytes: u64) -> Vec<Task> {
    let mut tasks = in_order(lists);
    let length = |task: &Task| if task.part.bytes > part_bytes { task.part.bytes } else { 0 };
    let order = |task: &Task| -> (std::cmp::Reverse<u64>, PartId) { (std::cmp::Reverse(length(task)), task.part.id) };
    tasks.sort_by_key(order);
    tasks
}

/// The parts in effect, in the order of their lists.
pub(super) fn in_order(lists: &Lists) -> Vec<Task> {
    let omits: Vec<Omit> = lists.iter().map(|list| Omit::of(lists, list.dataset_version)).collect();
    let task = |(dataset_version, part): (DatasetVersion, &Part)| {
        let omit = omits[dataset_version.0 as usize].clone();
        Task { dataset_version, part: part.clone(), omit }
    };
    lists.in_effect().into_values().map(task).collect()
}

/// Text of a run that is compared: the crate takes a tenth of a second for it.
const RUN_BYTES: u64 = 256 << 10;

/// Text of a document that is: so that there are several.
const DOCUMENT_BYTES: usize = 16 << 10;

/// How much is still to be compared. Whose documents come first is a matter of workers; what is made of them is not.
#[derive(Debug)]
pub(super) struct Sample {
    left: AtomicU64,
}

impl Default for Sample {
    fn default() -> Self {
        Self { left: AtomicU64::new(RUN_BYTES) }
    }
}

impl Sample {
    /// What of a document is to be compared, if there was not enough yet.
    pub(super) fn take<'a>(&self, text: &'a str) -> Option<&'a str> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let taken = front(text, DOCUMENT_BYTES);
        let less = |left: u64| Some(left.saturating_sub(taken.len() as u64));
        let left = self.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).unwrap_or(0);
        (left > 0).then_some(taken)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_of_several_documents_and_ends() {
        let (sample, long) = (Sample::default(), "é".repeat(DOCUMENT_BYTES));
        let taken: Vec<usize> = (0..100).map_while(|_| sample.take(&long)).map(str::len).collect();
        assert_eq!((taken.len() as u64, taken[0]), (RUN_BYTES / DOCUMENT_BYTES as u64, DOCUMENT_BYTES));
        assert_eq!(sample.take("a"), None);
    }
}
