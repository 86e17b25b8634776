//! Checks before a folder gets a part list: a preparation neither replaces nor removes what others wrote there, and reads
//! none of it as an input.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use schemas::{Sealed, manifest};
use serde_json::Value;
use store::Store;

use super::config::PrepareConfig;
use super::fingerprints::{self, Fingerprints};
use super::folder_lock::LOCK;
use super::listing::ObjectListing;
use super::part_list;
use super::part_objects::is_like_a_part;
use super::planned_inputs::{self, PlannedInputs};
use super::provisional_manifest::{self, ProvisionalManifest};
use crate::corpus::{Corpus, KnownFiles};
use crate::tokenize::{Facts, TOKENIZER_CONFIG, prepared_config};
use crate::{Error, Result};

/// Vocabulary of the first dataset version.
const FIRST_VOCAB: &str = "vocab/00000.parquet";

const HINT: &str = "name another `prepare.folder`, or move it elsewhere";

/// Refuses a folder without a part list in which there are objects named like those of parts.
pub(super) fn refuse_parts(store: &Store) -> Result<()> {
    let listing = ObjectListing::read(store)?;
    let Some(name) = listing.names().find(|name| is_like_a_part(name)) else { return Ok(()) };
    if store.head(&part_list::file_name(0))?.is_some() {
        // Another process has begun meanwhile.
        return Ok(());
    }
    Err(Error::Config(format!(
        "{}: it is there, but no part list: it is of another program, or of a format before {}; {HINT}",
        store.place(name),
        manifest::VERSION
    )))
}

/// Refuses a folder without a part list whose files a preparation with this tokenizer would replace.
pub(super) fn refuse_files(store: &Store, tokenizer: &Facts, config: &PrepareConfig) -> Result<()> {
    if ProvisionalManifest::read(store).is_ok() {
        // A preparation has begun here.
        return Ok(());
    }
    // A tokenizer that is configured in the folder keeps its own file of this name.
    let for_transformers = (!config.has_tokenizer_in_folder()).then_some(TOKENIZER_CONFIG);
    let names =
        [manifest::TOKENIZER, fingerprints::NAME, planned_inputs::NAME, provisional_manifest::NAME, FIRST_VOCAB, LOCK];
    for name in names.into_iter().chain(for_transformers) {
        let found = store.get_with_stat(name)?;
        if found.is_some_and(|(bytes, _)| !is_ours(name, &bytes, tokenizer, config)) {
            let place = store.place(name);
            return Err(Error::Config(format!(
                "{place}: a preparation would replace this file of another origin; {HINT}"
            )));
        }
    }
    Ok(())
}

/// Whether a preparation with this tokenizer may have written the file.
fn is_ours(name: &str, bytes: &[u8], tokenizer: &Facts, config: &PrepareConfig) -> bool {
    match name {
        manifest::TOKENIZER => bytes == tokenizer.json,
        TOKENIZER_CONFIG => bytes == prepared_config(tokenizer, config.max_seq_len).as_bytes(),
        fingerprints::NAME => Fingerprints::unseal(bytes).is_ok(),
        planned_inputs::NAME => PlannedInputs::unseal(bytes).is_ok(),
        // A readable one has ended the check, and vocabularies come after the first list.
        provisional_manifest::NAME | FIRST_VOCAB => false,
        _ => bytes.is_empty() || serde_json::from_slice::<Value>(bytes).is_ok_and(|lock| lock.get("holder").is_some()),
    }
}

/// Refuses new files of the corpus that are in the folder itself. Files that a preparation wrote are found by no input.
pub(super) fn refuse_inputs(corpus: &Corpus, known: &KnownFiles, folder: &Path) -> Result<()> {
    // Files of one folder share the answer, except links.
    let mut answers = BTreeMap::new();
    for file in corpus.files().iter().filter(|file| !known.contains_key(&file.name)) {
        let is_within = |path: &Path| remote_store::is_within(&path.to_string_lossy(), folder);
        let is_link = !file.is_object() && fs::symlink_metadata(&file.path).is_ok_and(|found| found.is_symlink());
        let parent = file.path.parent().unwrap_or(&file.path);
        let is_inside =
            if is_link { is_within(&file.path) } else { *answers.entry(parent).or_insert_with(|| is_within(parent)) };
        if is_inside {
            return Err(Error::Config(format!(
                "{}: this input is in `prepare.folder`; name another folder, or inputs without it",
                file.path.display()
            )));
        }
    }
    Ok(())
}
