//! Plan of a preparation: checks of corpus, folder and memory, the part list that follows, documents to forget.
//!
//! `prepare.max_memory_bytes` limits text from a file to its ids. A worker that needs more than is left waits
//! ([`MemoryBudget`](crate::corpus::MemoryBudget)). The other memory of a worker does not grow with the text:
//! [`PrepareMemory`] states it.

use std::io::ErrorKind;

use duplicates::FoldMemory;
use schemas::sample::{ROWS_PER_GROUP, id_type};
use schemas::{DatasetVersion, Document, Manifest, ManifestError, manifest};
use store::Store;
use telemetry::preparation::{LargestFile, PrepareStart};
use telemetry::training::Warning;

use super::change::{ComparedCorpus, Comparison, DatasetChange, InvalidFiles};
use super::commit_memory;
use super::commit_record::{FoundPart, PartBinding};
use super::config::{PrepareConfig, Settings};
use super::document_table;
use super::duplicate_fold::sorted_bytes;
use super::fingerprints::Fingerprints;
use super::first_use;
use super::job::ForgottenDocuments;
use super::list_proof;
use super::part_list::{self, DamagedList, PartList, ReadableLists, VersionLists};
use super::removed_documents;
use super::signatures;
use super::text_tools::TextTools;
use super::verdicts::VerdictDigests;
use crate::corpus::{Corpus, KnownFiles, Part, READER_BYTES, Shares};
use crate::{Error, Result};

/// Numbers of a preparation that `plan` prints.
#[derive(Clone, Debug, PartialEq)]
pub struct PreparePlan {
    /// Files.
    pub files: usize,
    /// Bytes on disk.
    pub bytes: u64,
    /// Parts in effect, including existing ones.
    pub parts: usize,
    /// Bytes on disk of the largest part.
    pub largest_part_bytes: u64,
    /// Threads.
    pub workers: usize,
    /// Longest document that is accepted, in bytes of text.
    pub max_document_bytes: u64,
    /// Upper limit of the memory for text.
    pub text_bytes_max: u64,
    /// Memory by purpose.
    pub memory: PrepareMemory,
    /// Name and bytes of the largest compressed file. It cannot be split, so it is the critical path.
    pub largest_compressed: Option<(String, u64)>,
    /// Cost of comparing documents, if duplicates are removed.
    pub duplicates: Option<DuplicatesCost>,
    /// Runs of words of all test sets, if documents that have one are removed.
    pub test_runs: Option<u64>,
    /// Changes since the folder was prepared, if any.
    pub change: Option<DatasetChange>,
    /// The tokenizer.
    pub tokenizer: manifest::TokenizerInfo,
    /// Tokenizer implementation, and the reason why a faster one is not used.
    pub tokenized_by: String,
}

impl PreparePlan {
    /// Returns the start event of a run that ends with that dataset version.
    pub(super) fn start(&self, dataset_version: DatasetVersion) -> PrepareStart {
        let largest = self.largest_compressed.clone();
        PrepareStart {
            files: self.files as u64,
            bytes: self.bytes,
            parts: self.parts as u64,
            workers: self.workers as u64,
            text_bytes_max: self.text_bytes_max,
            largest_compressed: largest.map(|(name, bytes)| LargestFile { name, bytes }),
            dataset_version,
            tokenized_by: self.tokenized_by.clone(),
            change: self.change.map(|change| change.to_string()),
        }
    }
}

/// Configuration, its corpus and its folder, read and checked.
pub(super) struct Planned {
    pub(super) config: PrepareConfig,
    pub(super) corpus: Corpus,
    pub(super) tools: TextTools,
    pub(super) settings: Settings,
    pub(super) part_bytes: u64,
    /// Existing lists.
    pub(super) lists: VersionLists,
    /// Newest list, if it is lost or damaged: the new list replaces it.
    pub(super) damaged: Option<DamagedList>,
    /// New list that the corpus requires.
    pub(super) next: Option<(PartList, DatasetChange)>,
    /// Files that are skipped because they are invalid, each with the reason.
    pub(super) unfit: InvalidFiles,
    /// Files that were modified but have the same content.
    pub(super) fingerprints: Fingerprints,
}

/// Checks that an existing folder matches the configuration, without reading the corpus.
pub fn fits(config: &PrepareConfig) -> Result<()> {
    config.check()?;
    let Ok(store) = remote_store::existing_path(&config.folder) else { return Ok(()) };
    let ReadableLists { lists, damaged } = VersionLists::read_undamaged(&store)?;
    if damaged.is_some() {
        // A preparation tries to remake it.
        return Ok(());
    }
    check_lists(&store, lists.iter().count())?;
    let Some(found) = lists.settings() else { return Ok(()) };
    let part_bytes = config.part_bytes.or(found.part_bytes()).unwrap_or_default();
    check_settings(found, &TextTools::load(config)?.settings(config, part_bytes), &store)
}

impl Planned {
    /// Reads the outline of the corpus, the tokenizer and an existing folder, and rejects invalid combinations. Writes
    /// nothing.
    pub(super) fn new(config: &PrepareConfig, store: Option<&Store>) -> Result<Self> {
        config.check()?;
        let tools = TextTools::load(config)?;
        let ReadableLists { lists, damaged } =
            store.map_or_else(|| Ok(ReadableLists::default()), VersionLists::read_undamaged)?;
        let listed = lists.iter().count() + usize::from(damaged.is_some());
        let known = match store.filter(|_| listed > 0) {
            Some(store) => Fingerprints::read(store)?.known_files(&lists),
            None => KnownFiles::new(),
        };
        let corpus = Corpus::open_known(&config.corpus(), &known)?;
        if let Some(store) = store {
            check_lists(store, listed)?;
            if listed == 0 {
                first_use::refuse_files(store, tools.tokenizer.facts(), config)?;
            }
            first_use::refuse_inputs(&corpus, &known, &config.folder)?;
        }
        let known = lists.settings().and_then(Settings::part_bytes);
        let part_bytes = config.part_bytes.or(known).unwrap_or_else(|| corpus.usual_part_bytes());
        let mut settings = tools.settings(config, part_bytes);
        if let (Some(found), Some(store)) = (lists.settings(), store) {
            check_settings(found, &settings, store)?;
            // Equal settings can be stored differently by a version with fewer keys. Records are bound to the stored
            // ones.
            settings = found.clone();
        }
        let config = config.clone();
        let unfit = InvalidFiles::new();
        let seen = Fingerprints::default();
        let mut planned =
            Self { config, corpus, tools, settings, part_bytes, lists, damaged, next: None, unfit, fingerprints: seen };
        let ComparedCorpus { next, unfit, fingerprints: seen } = planned.comparison(store).compare()?;
        (planned.next, planned.unfit, planned.fingerprints) = (next, unfit, seen);
        if let (Some(store), Some(damaged)) = (store, &planned.damaged)
            && let Some(doubt) = list_proof::find_doubt(store, &planned.corpus, planned.next_list())?
        {
            return Err(damaged.refuse(store, &doubt));
        }
        Ok(planned)
    }

    fn next_list(&self) -> Option<&PartList> {
        self.next.as_ref().map(|(list, _)| list)
    }

    pub(super) fn comparison<'a>(&'a self, store: Option<&'a Store>) -> Comparison<'a> {
        Comparison {
            store,
            lists: &self.lists,
            corpus: &self.corpus,
            settings: &self.settings,
            part_bytes: self.part_bytes,
            seed: self.config.seed,
        }
    }

    /// Returns warnings for the user before the start: skipped files and the reasons, test texts that are too short.
    pub(super) fn warnings(&self) -> Vec<Warning> {
        const NAMED: usize = 5;
        let passed = self.corpus.skipped_files().description().map(|told| Warning {
            topic: "skipped_files".into(),
            message: told,
            hint: Some(self.corpus.skipped_files().hint().into()),
        });
        let unfit = (!self.unfit.is_empty()).then(|| {
            let named: Vec<String> =
                self.unfit.iter().take(NAMED).map(|(path, why)| format!("{path}: {why}")).collect();
            let dots = if self.unfit.len() > NAMED { "; …" } else { "" };
            let message =
                format!("{} files cannot be used and are skipped: {}{dots}", self.unfit.len(), named.join("; "));
            Warning { topic: "on_invalid_file".into(), message, hint: None }
        });
        let run_words = self.config.decontamination.as_ref().map_or(0, |config| config.run_words);
        let short = self.tools.test_sets.as_ref().and_then(|sets| sets.warning(run_words));
        passed.into_iter().chain(unfit).chain(short).collect()
    }

    /// Returns the lists and the new one.
    pub(super) fn coming(&self) -> VersionLists {
        self.next_list().map_or_else(|| self.lists.clone(), |list| self.lists.with(list.clone()))
    }

    /// Returns the numbers of the plan.
    pub(super) fn describe(&self) -> PreparePlan {
        let coming = self.coming();
        let workers = self.config.workers();
        let parts = coming.in_effect();
        let room = self.config.document_room();
        let max_document_bytes = self.config.max_document_bytes.map_or(room, |most| most.min(room));
        PreparePlan {
            files: self.corpus.files().len(),
            bytes: self.corpus.bytes(),
            parts: parts.len(),
            largest_part_bytes: parts.values().map(|(_, part)| part.bytes).max().unwrap_or(0),
            workers,
            max_document_bytes,
            text_bytes_max: self.config.max_memory_bytes,
            memory: PrepareMemory::new(&self.config, self.tools.tokenizer.facts().manifest.vocab_size),
            largest_compressed: self.corpus.largest_compressed().map(|file| (file.name.clone(), file.bytes)),
            duplicates: DuplicatesCost::new(&self.config, self.corpus.bytes()),
            test_runs: self.tools.test_sets.as_ref().map(|sets| sets.index.len() as u64),
            change: self.next.as_ref().map(|(_, change)| *change).filter(|change| change.dataset_version.0 > 0),
            tokenizer: self.tools.tokenizer.facts().manifest.clone(),
            tokenized_by: self.tools.tokenizer.implementation_name().to_owned(),
        }
    }
}

/// Returns the store of the configured folder, if it exists.
pub(super) fn existing(config: &PrepareConfig) -> Result<Option<Store>> {
    match remote_store::existing_path(&config.folder) {
        Ok(store) => Ok(Some(store)),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            let folder = config.folder.display();
            Err(Error::Config(format!("{folder}: this is a file, not a folder; name another `prepare.folder`")))
        }
        Err(error) => Err(error.into()),
    }
}

const HINT: &str = "name another `prepare.folder`";

/// Refuses a folder that was prepared with other settings.
pub(super) fn check_settings(found: &Settings, now: &Settings, store: &Store) -> Result<()> {
    let differences = found.differences(now);
    if differences.is_empty() {
        return Ok(());
    }
    let place = store.place("");
    let differences = differences.join("; ");
    Err(Error::Config(format!(
        "{place}: prepared differently: {differences}; set these keys of `[prepare]` as they were, or {HINT}"
    )))
}

/// Refuses a folder whose manifest and part lists do not match: another format version, which would be overwritten, or
/// dataset versions without a list. In the last case, part numbers would be reused and forgotten documents would return.
fn check_lists(store: &Store, listed: usize) -> Result<()> {
    let refused = |why: &str| Err(Error::Config(format!("{}: {why}; {HINT}", store.place(""))));
    let version = manifest::VERSION;
    match store.get_with_stat(manifest::NAME)?.map(|(bytes, _)| Manifest::from_json(&bytes)) {
        Some(Err(ManifestError::Version { found })) => {
            refused(&format!("prepared in format {found}, this program writes format {version}"))
        }
        Some(Ok(manifest)) if manifest.dataset_versions.len() > listed => Err(part_list::invalid(
            store,
            &part_list::file_name(listed),
            "it is missing, but the manifest has its dataset version",
        )),
        None if listed == 0 => first_use::refuse_parts(store),
        // A damaged manifest is restored from lists and records.
        _ => Ok(()),
    }
}

/// Word tables of a worker's tokenizer: 4.5 MB for WordPiece, 10 MB for byte pairs.
const WORDS_BYTES: u64 = 10 << 20;

/// Buffers of a worker for reading, hashing, counting and writing.
const BUFFERS_BYTES: u64 = 4 << 20;

/// Maximum memory, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PrepareMemory {
    /// Shares of `prepare.max_memory_bytes`.
    pub text: Shares,
    /// Additional memory of each worker: rows of two row groups, one of them while it is written, documents of the
    /// table, words, and the commits of a remote store. Holds for `zstd_level = 1`; level 22 takes 35 MB more.
    pub worker: u64,
}

impl PrepareMemory {
    /// Computes the memory of a preparation with a vocabulary of that size.
    pub(super) fn new(config: &PrepareConfig, vocab_size: u32) -> Self {
        let id_bytes = id_type(vocab_size).primitive_width().expect("a number") as u64;
        let group = ROWS_PER_GROUP as u64 * u64::from(config.packing.content(config.max_seq_len)) * id_bytes;
        // While rows are written, a page and its compressed bytes are in memory too, and a table twice.
        let is_remote = config.inputs.iter().any(|input| remote_store::is_url(input));
        let reader = if is_remote { READER_BYTES } else { 0 };
        let removed = if config.write_removed { removed_documents::WORKER_BYTES } else { 0 };
        let is_to_remote = config.folder.to_str().is_some_and(remote_store::is_url);
        let commits = if is_to_remote { commit_memory::worker_bytes(config) } else { 0 };
        let buffers = WORDS_BYTES + BUFFERS_BYTES + reader + removed + commits;
        let worker = 3 * group + 2 * document_table::GROUP_BYTES + buffers;
        Self { text: Shares::new(config.max_memory_bytes), worker }
    }
}

/// Bytes of text of a document in an estimate of their number.
const USUAL_DOCUMENT_BYTES: u64 = 2_000;

/// Estimated cost of comparing the documents of a corpus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DuplicatesCost {
    /// Estimated documents: 2,000 bytes on disk each.
    pub documents: u64,
    /// Memory of the comparison for that number of documents.
    pub fold: FoldMemory,
    /// Memory of each worker that computes signatures.
    pub worker_bytes: u64,
    /// Bytes of the signatures on disk.
    pub disk_bytes: u64,
}

impl DuplicatesCost {
    fn new(config: &PrepareConfig, corpus_bytes: u64) -> Option<Self> {
        let bands = config.duplicates.as_ref()?.near_options().map_or(0, |near| near.bands);
        let documents = corpus_bytes.div_ceil(USUAL_DOCUMENT_BYTES);
        Some(Self {
            documents,
            fold: FoldMemory::new(documents, sorted_bytes(config.max_memory_bytes), config.write_removed),
            worker_bytes: signatures::writer_bytes(bands),
            disk_bytes: documents * signatures::document_bytes(bands),
        })
    }
}

/// Result of a request to forget a document.
pub(super) enum ForgetPlan {
    /// An earlier list already omits it.
    Before(DatasetVersion),
    /// The new list that omits it.
    Now(Box<(PartList, DatasetChange)>),
}

/// Finds the parts that contain a document, and creates the list that remakes them without it. With `may_be_absent`, no
/// part needs to contain it: later parts omit it.
pub(super) fn plan_forget(planned: &Planned, store: &Store, id: &str, may_be_absent: bool) -> Result<ForgetPlan> {
    let digest = Document::digest(id);
    if let Some(&dataset_version) = planned.lists.forgotten(planned.lists.newest()).get(digest.as_str()) {
        return Ok(ForgetPlan::Before(dataset_version));
    }
    let refused = |why: String| Error::Config(format!("{}: {why}", store.place("")));
    if let Some((_, change)) = &planned.next {
        let what = if change.dataset_version.0 == 0 {
            "nothing is prepared".into()
        } else {
            format!("the corpus has changed ({change})")
        };
        return Err(refused(format!("{what}; run `cloze prepare`, then forget")));
    }
    let settings = planned.settings.digest();
    let verdicts = VerdictDigests::read(store, &planned.settings, &planned.lists)?;
    let mut holders = Vec::<&Part>::new();
    let mut documents = 0;
    let mut of_that_id = 0;
    for (dataset_version, part) in planned.lists.in_effect().into_values() {
        let omit = ForgottenDocuments::new(&planned.lists, dataset_version);
        let bound = |verdicts| PartBinding { settings: &settings, forgotten: omit.name(), verdicts, part };
        let found = verdicts.get(part.id).map(|verdicts| FoundPart::read(store, bound(verdicts))).transpose()?;
        let found = found.unwrap_or_default();
        if !found.is_whole() {
            return Err(refused(format!("part {} is not there; run `cloze prepare` to its end, then forget", part.id)));
        }
        documents += found.records.iter().map(|record| record.report.documents).sum::<u64>();
        let mut tables = found.records.iter().filter_map(|record| record.documents.as_ref());
        let here = tables.try_fold(0, |sum, table| Ok::<_, Error>(sum + document_table::count(store, table, id)?))?;
        of_that_id += here;
        if here > 0 {
            holders.push(part);
        }
    }
    if holders.is_empty() && !may_be_absent {
        let reason = removed_documents::find_reason(store, id)?;
        let reason = reason.unwrap_or_else(|| "`documents/` lists the existing ids (column `id`)".to_owned());
        return Err(refused(format!(
            "no document `{}`; {reason}; to omit the id from all later parts too, add `--absent`",
            id.escape_debug()
        )));
    }
    if of_that_id == documents {
        return Err(refused(
            "it has no other document, so its preparation would end without any; remove the whole folder to forget this \
             document (runs that read it cannot continue)"
                .into(),
        ));
    }
    Ok(ForgetPlan::Now(Box::new(planned.comparison(Some(store)).without(digest, &holders)?)))
}
