//! Index of the runs of words of test sets, to find them in documents.
//!
//! A run is `run_words` consecutive words of one text of a test set, as [`Normalized`] defines words. Texts with fewer
//! words have none. A document is looked up in one pass with a rolling hash. A hash that is found is confirmed by the
//! 128-bit hash of the run's words.

use crate::bit_set::BitSet;
use crate::normalize::Normalized;
use crate::signature::hash_128;
use crate::word_hash::RollingHash;

/// Bits of the filter per run: 3 % of the hashes of other runs pass it.
const FILTER_BITS: usize = 32;

/// Run that a document shares with test sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedRun<'a> {
    /// First word within the document.
    pub first: usize,
    /// Words of the run.
    pub text: &'a str,
    /// Test sets that have the run: bit `n` is set `n`.
    pub sets: u64,
}

/// Run with its test sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Run {
    hash: u64,
    exact: u128,
    sets: u64,
}

/// Index under construction.
#[derive(Debug)]
pub struct RunIndexBuilder {
    run_words: usize,
    rolling: RollingHash,
    /// Runs in order of arrival, with repetitions.
    runs: Vec<Run>,
}

/// Index of runs.
#[derive(Debug)]
pub struct RunIndex {
    run_words: usize,
    rolling: RollingHash,
    /// Distinct runs, sorted.
    runs: Vec<Run>,
    filter: BitSet,
    filter_mask: u64,
}

impl RunIndexBuilder {
    /// Maximum number of test sets.
    pub const MAX_SETS: usize = 64;

    /// Creates an empty index of runs of that many words.
    ///
    /// # Panics
    /// If `run_words` is 0.
    pub fn new(run_words: usize) -> Self {
        assert!(run_words > 0, "a run has a word");
        Self { run_words, rolling: RollingHash::new(run_words), runs: Vec::new() }
    }

    /// Adds the runs of a text of a test set. Returns their number, repeated ones included.
    ///
    /// # Panics
    /// If `set` is not below [`MAX_SETS`](Self::MAX_SETS).
    pub fn add(&mut self, set: usize, text: Normalized<'_>) -> usize {
        assert!(set < Self::MAX_SETS, "test sets are counted before");
        let before = self.runs.len();
        let hashes = self.rolling.runs(text.words);
        let run = |(hash, words): (u64, &str)| Run { hash, exact: hash_128(words.as_bytes()), sets: 1 << set };
        self.runs.extend(hashes.zip(windows(text.text, self.run_words)).map(run));
        self.runs.len() - before
    }

    /// Completes the index.
    pub fn build(self) -> RunIndex {
        let Self { run_words, rolling, mut runs } = self;
        runs.sort_unstable();
        runs.dedup_by(|next, run| {
            let is_same = (next.hash, next.exact) == (run.hash, run.exact);
            if is_same {
                run.sets |= next.sets;
            }
            is_same
        });
        let bits = (runs.len() * FILTER_BITS).next_power_of_two().clamp(64, 1 << 31);
        let filter_mask = bits as u64 - 1;
        let mut filter = BitSet::new(u32::try_from(bits).expect("at most 2^31"));
        for run in &runs {
            filter.insert(slot(run.hash, filter_mask));
        }
        RunIndex { run_words, rolling, runs, filter, filter_mask }
    }
}

impl RunIndex {
    /// Returns the number of distinct runs of a test set.
    pub fn runs(&self, set: usize) -> u64 {
        self.runs.iter().filter(|run| run.sets >> set & 1 == 1).count() as u64
    }

    /// Returns the number of distinct runs of all test sets.
    pub fn len(&self) -> usize {
        self.runs.len()
    }

    /// Whether there is no run.
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the BLAKE3 of all runs with their test sets. It does not depend on the order in which they were added.
    pub fn digest(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&(self.run_words as u64).to_le_bytes());
        for run in &self.runs {
            hasher.update(&run.exact.to_le_bytes());
            hasher.update(&run.sets.to_le_bytes());
        }
        hasher.finalize().to_hex().to_string()
    }

    /// Returns the runs that a document shares with test sets, in order.
    pub fn find<'a>(&'a self, text: Normalized<'a>) -> impl Iterator<Item = SharedRun<'a>> {
        let hashes = self.rolling.runs(text.words).enumerate();
        let passing = hashes.filter(|(_, hash)| self.filter.contains(slot(*hash, self.filter_mask)));
        // Place of the last run that was looked up: its first word and byte. Runs come in order, so the text is passed once.
        let mut word = 0;
        let mut byte = 0;
        passing.filter_map(move |(first, hash)| {
            let from = self.runs.partition_point(|run| run.hash < hash);
            self.runs.get(from).filter(|run| run.hash == hash)?;
            let range = text.run_in(byte, first - word, self.run_words);
            (word, byte) = (first, range.start);
            let words = &text.text[range];
            let exact = hash_128(words.as_bytes());
            let run = self.runs[from..].iter().take_while(|run| run.hash == hash).find(|run| run.exact == exact)?;
            Some(SharedRun { first, text: words, sets: run.sets })
        })
    }
}

/// Position of a hash in the filter.
fn slot(hash: u64, mask: u64) -> u32 {
    u32::try_from(hash & mask).expect("a mask of at most 31 bits")
}

/// Returns each run of words of a normalized text.
fn windows(text: &str, words: usize) -> impl Iterator<Item = &str> {
    let starts = || std::iter::once(0).chain(text.match_indices(' ').map(|(at, _)| at + 1));
    let ends = text.match_indices(' ').map(|(at, _)| at).chain([text.len()]);
    starts().zip(ends.skip(words - 1)).map(|(start, end)| &text[start..end])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::normalize::Normalizer;

    fn index(texts: &[(usize, &str)]) -> RunIndex {
        let mut builder = RunIndexBuilder::new(3);
        let mut normalizer = Normalizer::default();
        for (set, text) in texts {
            builder.add(*set, normalizer.normalize(text));
        }
        builder.build()
    }

    fn found(index: &RunIndex, text: &str) -> Vec<(usize, String, u64)> {
        let mut normalizer = Normalizer::default();
        let text = normalizer.normalize(text);
        index.find(text).map(|run| (run.first, run.text.to_owned(), run.sets)).collect()
    }

    #[test]
    fn every_shared_run_is_found_with_its_test_sets() {
        let index = index(&[(0, "The cat sat, on the mat."), (1, "on the MAT he slept"), (1, "too short")]);
        assert_eq!((index.len(), index.runs(0), index.runs(1)), (6, 4, 3));
        let run = |first, text: &str, sets| (first, text.to_owned(), sets);
        assert_eq!(
            found(&index, "A dog and the — cat Sat; on the mat"),
            [run(3, "the cat sat", 1), run(4, "cat sat on", 1), run(5, "sat on the", 1), run(6, "on the mat", 3)]
        );
        assert_eq!(found(&index, "the mat he slept"), [run(0, "the mat he", 2), run(1, "mat he slept", 2)]);
        assert_eq!(found(&index, "too short"), []);
        assert_eq!(found(&index, "sat cat the on"), [], "order matters");
    }

    #[test]
    fn the_digest_is_that_of_the_set_of_runs() {
        let one = index(&[(0, "a b c d"), (1, "b c d")]);
        assert_eq!(one.digest(), index(&[(1, "b c d"), (0, "b c d"), (0, "a b c")]).digest());
        assert_ne!(one.digest(), index(&[(0, "a b c d"), (0, "b c d")]).digest());
    }
}
