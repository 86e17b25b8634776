//! Counting of the words of a corpus for tokenizer training: parts ↦ counts of raw words ↦ words.
//!
//! # Idea
//! Workers take parts on demand, as in a preparation. Each counts into its own tally. The tally is merged into the
//! common one when it reaches its share of memory, and at the end. Sums do not depend on the order of merges.
//!
//! # Invariants
//! - The result does not depend on the number of workers or on time. Sums are order-independent, and rejects are
//!   reported in the order of the parts. If parts cannot be read, the error is that of the first one: earlier parts are
//!   read to their ends, later ones are skipped.
//! - The common tally takes at most three eighths of `prepare.max_memory_bytes`, the tallies of all workers a quarter
//!   (the current text has a separate budget). The final words take at most as much as the common tally. Merging takes
//!   at most half, after the tally is freed. The size of the common tally depends only on the distinct words of the
//!   corpus, so the memory error does not depend on workers either. (If a corpus has too many words *and* an unreadable
//!   part, the choice between the two errors does.)

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use runtime::{CancelToken, Poll, PoolOptions, WorkPool};
use schemas::Document;
use telemetry::preparation::PrepareProgress;

use super::config::TokenizerConfig;
use super::split::Split;
use super::word_counts::WordCounts;
use crate::corpus::{BytesRead, Complaint, Corpus, DocumentPlace, Part};
use crate::prepare::{PrepareConfig, RejectStats};
use crate::tokenize::pool::Pool;
use crate::{Error, Result};

/// Maximum finished parts that wait for merging, per worker: they are small.
const DEPTH: usize = 4;

/// Bytes of text after which a worker checks the size of its tally.
const PIECE_BYTES: usize = 1 << 18;

/// Minimum memory for pairs: small corpora have more pairs than words.
const PAIRS_BYTES_LEAST: u64 = 4 << 20;

/// Maximum interval between progress reports.
const PULSE: Duration = Duration::from_millis(500);

/// Callback for progress of the counting.
pub type ProgressCallback<'a> = &'a mut dyn FnMut(&PrepareProgress);

/// Words of a corpus.
pub(super) struct CountedWords {
    pub(super) documents: u64,
    pub(super) words: WordCounts,
    pub(super) left_out: Vec<String>,
}

/// Counts each word in the sample of the training split of all corpora, after normalization.
pub(super) fn count_words(
    config: &TokenizerConfig,
    corpora: &[PrepareConfig],
    split: &Arc<dyn Split>,
    on_progress: ProgressCallback<'_>,
) -> Result<CountedWords> {
    let mut raw = WordCounts::default();
    let mut documents = 0;
    let mut left_out = Vec::new();
    for prepare in corpora {
        let corpus = Corpus::open(&prepare.corpus())?;
        let parts = corpus.parts()?;
        let work = Arc::new(CountJob::new(config, prepare, corpus, parts, Arc::clone(split), raw));
        let (found, dirt) = work.count(prepare.workers(), on_progress)?;
        let said = dirt.check_all(prepare.max_bad_lines)?;
        if found == 0 {
            return Err(nothing_to_learn_from(config, prepare));
        }
        documents += found;
        left_out.extend(work.corpus.skipped_files().description().into_iter().chain(said));
        raw = work.pour_all()?;
    }
    let mut words = WordCounts::default();
    for (text, count) in raw.iter() {
        split.words(text, &mut |word| words.add(word, count))?;
        Budget::new(config, &corpora[0]).allow(words.held())?;
    }
    if words.len() == 0 {
        let inputs = corpora.iter().flat_map(|prepare| prepare.inputs.clone()).collect::<Vec<_>>().join("`, `");
        return Err(Error::UnusableCorpus(format!(
            "`{inputs}`: no word to learn from in {documents} documents: nothing of their text is kept; check `prepare.inputs` \
             and `prepare.encoding`"
        )));
    }
    Ok(CountedWords { documents, words, left_out })
}

fn nothing_to_learn_from(config: &TokenizerConfig, prepare: &PrepareConfig) -> Error {
    let inputs = prepare.inputs.join("`, `");
    let sampled = config.sample < 1.0;
    let why = match (prepare.valid_fraction > 0.0, sampled) {
        (_, true) => {
            "it is empty, or no document of the training split is in the sample; raise `tokenizer.sample`, or \
                      check `prepare.inputs` and `prepare.format`"
        }
        (true, false) => {
            "it is empty, or all of it is in the validation split; lower `prepare.valid_fraction`, or check \
                          `prepare.inputs` and `prepare.format`"
        }
        (false, false) => "it is empty; check `prepare.inputs` and `prepare.format`",
    };
    Error::UnusableCorpus(format!("`{inputs}`: no document to learn from: {why}"))
}

/// State shared by all workers.
struct CountJob {
    corpus: Corpus,
    parts: Vec<Part>,
    split: Arc<dyn Split>,
    sample: f64,
    valid_fraction: f64,
    /// Tally of each worker that is not merged yet, with its size limit.
    tallies: Pool<WordCounts>,
    worker_bytes_max: u64,
    whole: Mutex<WordCounts>,
    budget: Budget,
    /// True if the common tally has no room for more.
    is_full: AtomicBool,
    /// First part that is known to fail; later parts are not needed.
    failed: AtomicU64,
    bytes_read: BytesRead,
    text_bytes: AtomicU64,
}

/// Result of a part.
enum Read {
    /// Number of documents counted, and the rejects.
    Whole(u64, RejectStats),
    Failed(Error),
    /// Not read, because the result is not needed any more.
    Left,
}

impl CountJob {
    /// Creates the counting of a corpus, which continues the tally `whole` of others.
    fn new(
        config: &TokenizerConfig,
        prepare: &PrepareConfig,
        corpus: Corpus,
        parts: Vec<Part>,
        split: Arc<dyn Split>,
        whole: WordCounts,
    ) -> Self {
        Self {
            corpus,
            parts,
            split,
            sample: config.sample,
            valid_fraction: prepare.valid_fraction,
            tallies: Pool::default(),
            worker_bytes_max: prepare.max_memory_bytes / 4 / prepare.workers() as u64,
            whole: Mutex::new(whole),
            budget: Budget::new(config, prepare),
            is_full: AtomicBool::new(false),
            failed: AtomicU64::new(u64::MAX),
            bytes_read: BytesRead::default(),
            text_bytes: AtomicU64::new(0),
        }
    }

    /// Counts all parts with `workers` workers. Returns the number of documents, and the rejects.
    fn count(self: &Arc<Self>, workers: usize, on_progress: ProgressCallback<'_>) -> Result<(u64, RejectStats)> {
        let began = Instant::now();
        let mut results = {
            let work = Arc::clone(self);
            let options = PoolOptions { name: "count", item: "part", workers, queue_depth: DEPTH * workers };
            WorkPool::new(self.parts.len() as u64, options, move |index, stop| {
                Ok::<_, Error>(Some((index, work.read(index, stop))))
            })
        };
        let mut found: Vec<Option<Read>> = self.parts.iter().map(|_| None).collect();
        let mut done = 0;
        loop {
            match results.next_timeout(PULSE)? {
                Poll::Item((index, read)) => {
                    found[place(index)] = Some(read);
                    done += 1;
                }
                Poll::Pending => {}
                Poll::End => break,
            }
            on_progress(&self.progress(done, began));
        }
        let mut documents = 0;
        let dirt = RejectStats::default();
        for read in found.into_iter().flatten() {
            match read {
                Read::Whole(more, of_part) => {
                    documents += more;
                    dirt.append(of_part);
                }
                Read::Failed(error) => return Err(error),
                // An earlier part or the memory limit caused the skip, and is reported instead.
                Read::Left => {}
            }
        }
        if self.is_full.load(Ordering::Relaxed) { Err(self.budget.refuse_words()) } else { Ok((documents, dirt)) }
    }

    fn read(&self, index: u64, stop: &CancelToken) -> Read {
        let read = self.tallies.with_item(WordCounts::default, |tally| self.part(index, tally, stop));
        read.unwrap_or_else(|error| {
            self.failed.fetch_min(index, Ordering::Relaxed);
            Read::Failed(error)
        })
    }

    /// Counts the raw words of a part.
    fn part(&self, index: u64, tally: &mut WordCounts, stop: &CancelToken) -> Result<Read> {
        let part = &self.parts[place(index)];
        let mut documents = 0;
        let dirt = RejectStats::default();
        let complaint = |of: &Complaint| (of.reason.to_string(), self.corpus.describe(part, *of));
        let mut found = self.corpus.documents(part, DocumentPlace::default(), &self.bytes_read.part())?;
        while let Some(next) = found.next() {
            if self.failed.load(Ordering::Relaxed) < index
                || self.is_full.load(Ordering::Relaxed)
                || stop.is_cancelled()
            {
                return Ok(Read::Left);
            }
            let next = next?;
            dirt.add(1, next.complaints.iter().map(complaint).collect());
            if let Some(document) = next.document.as_ref().filter(|document| self.contains(document)) {
                documents += 1;
                for piece in pieces(&document.text) {
                    self.split.count(piece, tally);
                    if tally.held() > self.worker_bytes_max {
                        self.pour(tally);
                    }
                }
                self.text_bytes.fetch_add(document.text.len() as u64, Ordering::Relaxed);
            }
            found.take_back(next);
        }
        Ok(Read::Whole(documents, dirt))
    }

    /// Returns true if a document belongs to the sample.
    fn contains(&self, document: &Document) -> bool {
        let id = &document.id;
        (self.valid_fraction <= 0.0 || !Document::is_valid(Document::hash(id), self.valid_fraction))
            && Document::is_sampled(id, self.sample)
    }

    /// Merges a worker's tally into the common tally, unless that is full.
    fn pour(&self, tally: &mut WordCounts) {
        // Frees its memory too: one document of new words would keep it allocated permanently.
        let counted = std::mem::take(tally);
        let mut whole = self.whole();
        if self.is_full.load(Ordering::Relaxed) {
            return;
        }
        whole.absorb(&counted);
        if self.budget.allow(whole.held()).is_err() {
            self.is_full.store(true, Ordering::Relaxed);
        }
    }

    /// Returns all counts.
    fn pour_all(&self) -> Result<WordCounts> {
        for mut tally in self.tallies.take_all() {
            self.pour(&mut tally);
            self.budget.allow(self.whole().held())?;
        }
        Ok(std::mem::take(&mut *self.whole()))
    }

    fn whole(&self) -> MutexGuard<'_, WordCounts> {
        self.whole.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn progress(&self, parts: u64, began: Instant) -> PrepareProgress {
        let bytes_total = self.parts.iter().map(|part| part.bytes).sum();
        let counts = PrepareProgress {
            bytes: self.bytes_read.get().min(bytes_total),
            bytes_total,
            parts,
            parts_total: self.parts.len() as u64,
            text_bytes: self.text_bytes.load(Ordering::Relaxed),
            ..PrepareProgress::default()
        };
        counts.with_elapsed(began.elapsed().as_secs_f64())
    }
}

/// Splits the text at line ends into pieces of [`PIECE_BYTES`], if it has lines.
fn pieces(text: &str) -> impl Iterator<Item = &str> {
    let mut rest = text;
    std::iter::from_fn(move || {
        let line = rest.as_bytes().get(PIECE_BYTES..).and_then(|behind| memchr::memchr(b'\n', behind));
        let (piece, tail) = rest.split_at(line.map_or(rest.len(), |line| PIECE_BYTES + line + 1));
        rest = tail;
        (!piece.is_empty()).then_some(piece)
    })
}

/// Memory budget for distinct words.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    max_memory_bytes: u64,
    sample: f64,
}

impl Budget {
    pub(super) fn new(config: &TokenizerConfig, prepare: &PrepareConfig) -> Self {
        Self { max_memory_bytes: prepare.max_memory_bytes, sample: config.sample }
    }

    /// Returns an error for pairs that take more than half of the memory and more than the minimum.
    pub(super) fn allow_pairs(&self, held: u64) -> Result<()> {
        if held <= (self.max_memory_bytes / 2).max(PAIRS_BYTES_LEAST) {
            return Ok(());
        }
        Err(self.too_small("the pairs of characters in the different words of this corpus take more than half of it"))
    }

    /// Returns an error for a tally that takes more than three eighths of the memory.
    fn allow(&self, held: u64) -> Result<()> {
        if held <= self.max_memory_bytes / 8 * 3 { Ok(()) } else { Err(self.refuse_words()) }
    }

    fn refuse_words(&self) -> Error {
        self.too_small("the different words of this corpus take more than three eighths of it")
    }

    fn too_small(&self, why: &str) -> Error {
        let Self { max_memory_bytes, sample } = self;
        Error::Config(format!(
            "`prepare.max_memory_bytes = {max_memory_bytes}`: {why}; learn from a share of the documents by `tokenizer.sample`, which is \
             {sample:?}, or raise `prepare.max_memory_bytes`"
        ))
    }
}

fn place(index: u64) -> usize {
    usize::try_from(index).expect("parts are in memory")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_cut_behind_lines_and_nowhere_else() {
        let line = "ein Wörterbuch, 中文\n";
        for lines in [0, 1, PIECE_BYTES / line.len(), PIECE_BYTES / line.len() + 1, 3 * PIECE_BYTES / line.len()] {
            let text = line.repeat(lines) + "the end";
            let found: Vec<&str> = pieces(&text).collect();
            assert_eq!(found.concat(), text);
            let (last, others) = found.split_last().expect("there is a text");
            let allowed = PIECE_BYTES + 1..=PIECE_BYTES + line.len();
            assert!(
                others.iter().all(|piece| piece.ends_with('\n') && allowed.contains(&piece.len())),
                "{lines} lines"
            );
            assert!(last.len() <= *allowed.end(), "{lines} lines");
        }
        assert_eq!(pieces("").count(), 0);
    }
}
