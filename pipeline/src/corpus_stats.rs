//! What a prepared folder holds, counted for people to look at.
//!
//! Documents, sources, the vocabulary and what was rejected are counted over all of it, from the tables and records that
//! lie next to the shards. How rows are filled and into how many tokens words fall is counted over row groups that are
//! spread evenly over the training split, as many as are read in a moment.

mod lengths;

use std::collections::{BTreeMap, BTreeSet};

use schemas::manifest::{self, CorpusReport, Pack};
use schemas::{DatasetVersion, Manifest, PartId, Split, Vocab};
use store::Store;

pub use self::lengths::Lengths;
use crate::corpus::Corpus;
use crate::prepare::{self, Complained, PrepareConfig};
use crate::shard::reader::{Promise, ShardReader};
use crate::{Result, load};

/// Row groups that are read: some 60 million tokens.
const GROUPS_READ: usize = 64;

/// Long documents, and unknown words and rejects, that are told of.
const LONGEST: usize = 10;
const NOTED: usize = 40;

/// Bytes that are shown of a reject.
const REJECT_BYTES: usize = 200;

/// Tokens of a word that are told apart.
const PIECES: usize = 8;

/// What a prepared folder holds, in its newest dataset version.
#[derive(Clone, Debug)]
pub struct CorpusStats {
    /// The folder.
    pub place: String,
    /// Its newest dataset version.
    pub dataset_version: DatasetVersion,
    /// What it was tokenized by.
    pub tokenizer: manifest::TokenizerInfo,
    /// How documents became rows.
    pub pack: Pack,
    /// Documents, words, tokens, what packing cut, and what was rejected by reason.
    pub corpus: CorpusReport,
    /// The training and the validation split.
    pub splits: [SplitStats; 2],
    /// Documents by their tokens.
    pub documents: Lengths,
    /// The longest documents, the longest first: tokens, id, file.
    pub longest: Vec<(u64, String, String)>,
    /// Files of the corpus, by name.
    pub sources: Vec<SourceStats>,
    /// What became the unknown token most often, as far as that was looked at.
    pub unknown_words: Vec<(String, u64)>,
    /// Places where something was rejected or repaired.
    pub rejects: Vec<Reject>,
    /// How rows are filled.
    pub rows: StoredRows,
    /// Ids with the number of their occurrences in training documents.
    pub vocab: Vocab,
}

/// One side of the split.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SplitStats {
    /// Documents.
    pub documents: u64,
    /// Stored samples.
    pub samples: u64,
    /// Content tokens.
    pub tokens: u64,
    /// Shards, and their bytes.
    pub shards: u64,
    /// Bytes of them.
    pub bytes: u64,
}

/// One file of the corpus.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceStats {
    /// Its name.
    pub name: String,
    /// Its documents by their tokens.
    pub documents: Lengths,
}

/// A place where something was rejected or repaired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reject {
    /// What is wrong there.
    pub reason: String,
    /// File and line.
    pub place: String,
    /// How the line begins; none where it cannot be looked at any more, or is no text.
    pub text: Option<String>,
}

/// Rows that were looked at.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StoredRows {
    /// Row groups that were read, and how many there are.
    pub groups: (usize, usize),
    /// Rows by their content tokens.
    pub lengths: Lengths,
    /// Documents, or parts of them, in a row.
    pub documents: Lengths,
    /// Words by their tokens: of one, of two, …; the last of so many or more.
    pub pieces: [u64; PIECES],
}

impl CorpusStats {
    /// Looks at a folder that is prepared.
    ///
    /// # Errors
    /// If it is not, or something in it cannot be read.
    pub fn of(config: &PrepareConfig) -> Result<Self> {
        let store = load::find(&config.folder)?;
        let manifest = load::open(&store)?;
        let dataset_version = manifest.newest();
        let now = manifest.now();
        let vocab = load::read_vocab(&store, &manifest, dataset_version)?;
        let mut portrait = Self {
            place: store.place("").trim_end_matches('/').to_owned(),
            dataset_version,
            corpus: manifest.dataset_version(dataset_version).corpus.clone(),
            splits: [&now.train, &now.valid].map(split),
            documents: Lengths::default(),
            longest: Vec::new(),
            sources: Vec::new(),
            unknown_words: Vec::new(),
            rejects: Vec::new(),
            rows: StoredRows::of(&store, &manifest, &now.train, &vocab)?,
            vocab,
            tokenizer: manifest.tokenizer.clone(),
            pack: manifest.pack.clone(),
        };
        let parts = manifest.parts(dataset_version).map(|part| part.id).collect();
        portrait.add_documents(&store, &parts)?;
        // A corpus that is passed now says nothing of its lines.
        portrait.add_noted(&store, &parts, Corpus::open(&config.corpus()).ok().as_ref())?;
        Ok(portrait)
    }

    fn add_documents(&mut self, store: &Store, parts: &BTreeSet<PartId>) -> Result<()> {
        let mut sources: BTreeMap<String, Lengths> = BTreeMap::new();
        let (lengths, longest, splits) = (&mut self.documents, &mut self.longest, &mut self.splits);
        prepare::each_length(store, parts, |document| {
            let tokens = u64::from(document.tokens);
            lengths.add(tokens);
            splits[usize::from(document.valid)].documents += 1;
            match sources.get_mut(document.source) {
                Some(of_source) => of_source.add(tokens),
                None => sources.entry(document.source.to_owned()).or_default().add(tokens),
            }
            if longest.len() < LONGEST || longest.last().is_some_and(|least| least.0 < tokens) {
                let at = longest.partition_point(|other| other.0 >= tokens);
                longest.insert(at, (tokens, document.id.to_owned(), document.source.to_owned()));
                longest.truncate(LONGEST);
            }
        })?;
        self.sources = sources.into_iter().map(|(name, documents)| SourceStats { name, documents }).collect();
        Ok(())
    }

    fn add_noted(&mut self, store: &Store, parts: &BTreeSet<PartId>, corpus: Option<&Corpus>) -> Result<()> {
        let noted = prepare::noted(store, parts, NOTED)?;
        self.rejects = noted.complaints.into_iter().map(|complained| reject(complained, corpus)).collect();
        self.unknown_words = noted.unknown_words;
        Ok(())
    }

    /// The share of all tokens that rows of full length could hold and that is padding.
    #[must_use]
    pub fn padding(&self) -> f64 {
        let (samples, tokens) = (self.splits[0].samples, self.splits[0].tokens);
        1.0 - tokens as f64 / (samples * u64::from(self.pack.content)).max(1) as f64
    }

    /// Ids that occur in training documents, of those that are no special ones, and how many those are.
    #[must_use]
    pub fn ids_used(&self) -> (usize, usize) {
        let ordinary = self.vocab.ordinary();
        let used = ordinary.iter().filter(|&&id| self.vocab.counts()[id as usize] > 0).count();
        (used, ordinary.len())
    }

    /// The most frequent ids with their occurrences, the most frequent first.
    #[must_use]
    pub fn frequent_ids(&self) -> Vec<(u32, u64)> {
        let ids = self.vocab.ordinary().iter().map(|&id| (id, self.vocab.counts()[id as usize]));
        let mut ids: Vec<_> = ids.filter(|(_, count)| *count > 0).collect();
        ids.sort_by_key(|&(id, count)| (std::cmp::Reverse(count), id));
        ids
    }
}

impl StoredRows {
    fn of(store: &Store, manifest: &Manifest, split: &Split, vocab: &Vocab) -> Result<Self> {
        let all: Vec<_> =
            split.shards.iter().flat_map(|shard| (0..shard.groups.len()).map(move |at| (shard, at))).collect();
        let count = all.len().min(GROUPS_READ);
        let mut rows = Self { groups: (count, all.len()), ..Self::default() };
        for number in 0..count {
            let (shard, group) = all[number * all.len() / count];
            let group = ShardReader::open(store, shard, Promise::of(manifest)).and_then(|reader| reader.read(group))?;
            for sample in (0..group.rows()).map(|row| group.sample(row)) {
                rows.lengths.add(sample.input_ids.len() as u64);
                rows.documents.add(sample.documents.len() as u64);
                rows.add_words(sample.input_ids.iter().filter(|&id| !vocab.is_special(id)), vocab);
            }
        }
        Ok(rows)
    }

    /// Counts the words of a row. What stands before the first is the end of one that began in another row.
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

fn reject(complained: Complained, corpus: Option<&Corpus>) -> Reject {
    let Complained { reason, piece, line } = complained;
    let text = corpus.and_then(|corpus| corpus.line(&piece, line, REJECT_BYTES).ok().flatten());
    let place = piece.words(&piece.name, line);
    Reject { reason, place, text }
}
