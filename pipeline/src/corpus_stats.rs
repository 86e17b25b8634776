//! Statistics of a prepared folder, for reports.
//!
//! Documents, sources, the vocabulary and rejects are counted over the whole folder, from the tables and records in it.
//! Row fill and tokens per word are counted over row groups that are spread evenly over the training split: as many as
//! can be read in about a second.

mod lengths;

use std::collections::{BTreeMap, BTreeSet};

use schemas::manifest::{self, CorpusReport, Pack};
use schemas::{DatasetVersion, Manifest, PartId, Split, Vocab};
use store::Store;

pub use self::lengths::{Lengths, Octave};
use crate::corpus::Corpus;
use crate::prepare::{self, FilteredDocument, PrepareConfig, RejectsOfReason};
use crate::shard::reader::{ShardExpectation, ShardReader};
use crate::{Result, load};

/// Maximum number of row groups that are read: some 60 million tokens.
const GROUPS_READ: usize = 64;

/// Maximum number of long documents, unknown words and rejects in a report.
const LONGEST: usize = 10;
const NOTED: usize = 40;

/// Maximum bytes of a reject in a report.
const REJECT_BYTES: usize = 200;

/// Number of classes of tokens per word.
const PIECES: usize = 8;

/// Document with many tokens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LongDocument {
    /// Number of tokens.
    pub tokens: u64,
    /// Document id.
    pub id: String,
    /// Name of the file in the corpus.
    pub file: String,
}

/// Statistics of a prepared folder, in its newest dataset version.
#[derive(Clone, Debug)]
pub struct CorpusStats {
    /// Location of the folder.
    pub place: String,
    /// Newest dataset version.
    pub dataset_version: DatasetVersion,
    /// Tokenizer of the folder.
    pub tokenizer: manifest::TokenizerInfo,
    /// Packing of the documents.
    pub pack: Pack,
    /// Documents, words, tokens, what packing cut, and what was rejected by reason.
    pub corpus: CorpusReport,
    /// Training and validation split.
    pub splits: [SplitStats; 2],
    /// Distribution of documents by tokens.
    pub documents: Lengths,
    /// Longest documents, the longest first.
    pub longest: Vec<LongDocument>,
    /// Files of the corpus, by name.
    pub sources: Vec<SourceStats>,
    /// Most frequent words that became the unknown token, among those that were checked.
    pub unknown_words: Vec<(String, u64)>,
    /// Rejections and repairs.
    pub rejects: Vec<Reject>,
    /// Documents that filters removed.
    pub filtered: Vec<FilteredDocument>,
    /// Statistics of stored rows.
    pub rows: StoredRows,
    /// Ids with the number of their occurrences in training documents.
    pub vocab: Vocab,
}

/// Training or validation split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitStats {
    /// Documents.
    pub documents: u64,
    /// Stored samples.
    pub samples: u64,
    /// Content tokens.
    pub tokens: u64,
    /// Number of shards.
    pub shards: u64,
    /// Bytes of the shards.
    pub bytes: u64,
}

/// File of the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Name of the file.
    pub name: String,
    /// Distribution of its documents by tokens.
    pub documents: Lengths,
}

/// Position of a rejection or repair.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// Reason.
    pub reason: String,
    /// File and line.
    pub place: String,
    /// Beginning of the line; `None` if it is no longer readable, or is not text.
    pub text: Option<String>,
}

/// Statistics of the rows that were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRows {
    /// Number of row groups that were read, and total number.
    pub groups: (usize, usize),
    /// Distribution of rows by content tokens.
    pub lengths: Lengths,
    /// Distribution of rows by documents, or parts of them.
    pub documents: Lengths,
    /// Words by number of tokens: 1, 2, …; the last class includes longer ones.
    pub pieces: [u64; PIECES],
}

impl CorpusStats {
    /// Reads the statistics of a prepared folder.
    ///
    /// # Errors
    /// If the folder is not prepared, or a file in it cannot be read.
    pub fn open(config: &PrepareConfig) -> Result<Self> {
        let store = load::find(&config.folder)?;
        let manifest = load::open(&store)?;
        let dataset_version = manifest.newest();
        let now = manifest.now();
        let vocab = load::read_vocab(&store, &manifest, dataset_version)?;
        let mut stats = Self {
            place: store.place("").trim_end_matches('/').to_owned(),
            dataset_version,
            corpus: manifest.dataset_version(dataset_version).corpus.clone(),
            splits: [&now.train, &now.valid].map(split),
            documents: Lengths::default(),
            longest: Vec::new(),
            sources: Vec::new(),
            unknown_words: Vec::new(),
            rejects: Vec::new(),
            filtered: Vec::new(),
            rows: StoredRows::sample(&store, &manifest, &now.train, &vocab)?,
            vocab,
            tokenizer: manifest.tokenizer.clone(),
            pack: manifest.pack.clone(),
        };
        let parts = manifest.parts(dataset_version).map(|part| part.id).collect();
        stats.add_documents(&store, &parts)?;
        // A corpus that cannot be opened now gives no text of rejects.
        stats.add_noted(&store, &parts, Corpus::open(&config.corpus()).ok().as_ref())?;
        Ok(stats)
    }

    fn add_documents(&mut self, store: &Store, parts: &BTreeSet<PartId>) -> Result<()> {
        let mut sources: BTreeMap<String, Lengths> = BTreeMap::new();
        let lengths = &mut self.documents;
        let longest = &mut self.longest;
        let splits = &mut self.splits;
        prepare::each_length(store, parts, |document| {
            let tokens = u64::from(document.tokens);
            lengths.add(tokens);
            splits[usize::from(document.valid)].documents += 1;
            match sources.get_mut(document.source) {
                Some(of_source) => of_source.add(tokens),
                None => sources.entry(document.source.to_owned()).or_default().add(tokens),
            }
            if longest.len() < LONGEST || longest.last().is_some_and(|least| least.tokens < tokens) {
                let at = longest.partition_point(|other| other.tokens >= tokens);
                let id = document.id.to_owned();
                let file = document.source.to_owned();
                longest.insert(at, LongDocument { tokens, id, file });
                longest.truncate(LONGEST);
            }
        })?;
        self.sources = sources.into_iter().map(|(name, documents)| SourceStats { name, documents }).collect();
        Ok(())
    }

    fn add_noted(&mut self, store: &Store, parts: &BTreeSet<PartId>, corpus: Option<&Corpus>) -> Result<()> {
        let noted = prepare::noted(store, parts, NOTED)?;
        self.rejects = noted.complaints.into_iter().map(|complained| reject(complained, corpus)).collect();
        self.filtered = noted.filtered;
        self.unknown_words = noted.unknown_words;
        Ok(())
    }

    /// Returns the share of padding if all rows had full length.
    #[must_use]
    pub fn padding(&self) -> f64 {
        let samples = self.splits[0].samples;
        let tokens = self.splits[0].tokens;
        1.0 - tokens as f64 / (samples * u64::from(self.pack.content)).max(1) as f64
    }

    /// Returns the number of non-special ids that occur in training documents, and the number of non-special ids.
    #[must_use]
    pub fn ids_used(&self) -> (usize, usize) {
        let ordinary = self.vocab.ordinary();
        let used = ordinary.iter().filter(|&&id| self.vocab.counts()[id as usize] > 0).count();
        (used, ordinary.len())
    }

    /// Returns the most frequent ids with their occurrences, the most frequent first.
    #[must_use]
    pub fn frequent_ids(&self) -> Vec<(u32, u64)> {
        let ids = self.vocab.ordinary().iter().map(|&id| (id, self.vocab.counts()[id as usize]));
        let mut ids: Vec<_> = ids.filter(|(_, count)| *count > 0).collect();
        ids.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        ids
    }
}

impl StoredRows {
    fn sample(store: &Store, manifest: &Manifest, split: &Split, vocab: &Vocab) -> Result<Self> {
        let all: Vec<_> =
            split.shards.iter().flat_map(|shard| (0..shard.groups.len()).map(move |at| (shard, at))).collect();
        let count = all.len().min(GROUPS_READ);
        let mut rows = Self { groups: (count, all.len()), ..Self::default() };
        for number in 0..count {
            let (shard, group) = all[number * all.len() / count];
            let group = ShardReader::open(store, shard, ShardExpectation::from_manifest(manifest))
                .and_then(|reader| reader.read(group))?;
            for sample in (0..group.rows()).map(|row| group.sample(row)) {
                rows.lengths.add(sample.input_ids.len() as u64);
                rows.documents.add(sample.documents.len() as u64);
                rows.add_words(sample.input_ids.iter().filter(|&id| !vocab.is_special(id)), vocab);
            }
        }
        Ok(rows)
    }

    /// Counts the words of a row. Tokens before the first word start belong to a word of another row.
    fn add_words(&mut self, ids: impl Iterator<Item = u32>, vocab: &Vocab) {
        let mut pieces = 0;
        for id in ids {
            if vocab.is_word_start(id) {
                self.add_word(pieces);
                pieces = 1;
            } else if pieces > 0 {
                pieces += 1;
            }
        }
        self.add_word(pieces);
    }

    fn add_word(&mut self, pieces: usize) {
        if pieces > 0 {
            self.pieces[pieces.min(PIECES) - 1] += 1;
        }
    }
}

fn split(split: &Split) -> SplitStats {
    SplitStats {
        documents: 0,
        samples: split.rows(),
        tokens: split.tokens(),
        shards: split.shards.len() as u64,
        bytes: split.shards.iter().map(|shard| shard.bytes).sum(),
    }
}

fn reject(complained: RejectsOfReason, corpus: Option<&Corpus>) -> Reject {
    let RejectsOfReason { reason, piece, line } = complained;
    let text = corpus.and_then(|corpus| corpus.line(&piece, line, REJECT_BYTES).ok().flatten());
    let place = piece.describe(&piece.name, line);
    Reject { reason, place, text }
}
