//! Hashes of words and of runs of words: the same on every platform.

/// Odd constants with half of their bits set.
const MULTIPLIERS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// Base of the polynomial over the words of a run.
const BASE: u64 = 0xA24B_AED4_963E_E407;

/// Hash of a word, one byte at a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct WordHash {
    hash: u64,
    /// Bytes that are not hashed yet, and the number of all bytes.
    waiting: u64,
    bytes: u32,
}

impl WordHash {
    pub(crate) fn new() -> Self {
        Self { hash: MULTIPLIERS[0], waiting: 0, bytes: 0 }
    }

    #[inline]
    pub(crate) fn push(&mut self, byte: u8) {
        self.waiting |= u64::from(byte) << (8 * (self.bytes % 8));
        self.bytes = self.bytes.wrapping_add(1);
        if self.bytes.is_multiple_of(8) {
            self.hash = fold_multiply(self.hash ^ self.waiting, MULTIPLIERS[1]);
            self.waiting = 0;
        }
    }

    #[inline]
    pub(crate) fn finish(self) -> u64 {
        let last = fold_multiply(self.hash ^ self.waiting, MULTIPLIERS[1]);
        mix(last ^ u64::from(self.bytes))
    }
}

/// Returns the 64-bit hash of a word.
pub(crate) fn hash_word(word: &[u8]) -> u64 {
    let mut hash = WordHash::new();
    for byte in word {
        hash.push(*byte);
    }
    hash.finish()
}

/// Mixes all bits of a hash into each of its bits.
pub(crate) fn mix(mut hash: u64) -> u64 {
    hash ^= hash >> 32;
    hash = hash.wrapping_mul(MULTIPLIERS[1]);
    hash ^= hash >> 29;
    hash = hash.wrapping_mul(MULTIPLIERS[0]);
    hash ^ (hash >> 32)
}

/// Halves of a 128-bit product, added without carry.
fn fold_multiply(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    #[expect(clippy::cast_possible_truncation, reason = "the two halves of the product")]
    let low = product as u64;
    let high = (product >> 64) as u64;
    low ^ high
}

/// Rolling hash of the last `words` words: a polynomial modulo 2^64, mixed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RollingHash {
    words: usize,
    /// Weight of the word that leaves.
    leaving: u64,
}

impl RollingHash {
    pub(crate) fn new(words: usize) -> Self {
        let leaving = (0..words).fold(1_u64, |power, _| power.wrapping_mul(BASE));
        Self { words, leaving }
    }

    /// Returns the hash of each run, in order. There are none if the text has fewer words.
    pub(crate) fn runs(self, hashes: &[u64]) -> impl Iterator<Item = u64> {
        let first = hashes.len().min(self.words.saturating_sub(1));
        let mut hash = hashes[..first].iter().fold(0_u64, |hash, word| hash.wrapping_mul(BASE).wrapping_add(*word));
        hashes[first..].iter().enumerate().map(move |(start, word)| {
            hash = hash.wrapping_mul(BASE).wrapping_add(*word);
            if let Some(left) = start.checked_sub(1) {
                hash = hash.wrapping_sub(hashes[left].wrapping_mul(self.leaving));
            }
            mix(hash)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_has_the_same_hash_wherever_it_is() {
        let rolling = RollingHash::new(3);
        let words: Vec<u64> = (0..9_u8).map(|word| hash_word(&[word % 4])).collect();
        let runs: Vec<u64> = rolling.runs(&words).collect();
        let alone = |start: usize| rolling.runs(&words[start..start + 3]).collect::<Vec<_>>();
        assert_eq!(runs.len(), 7);
        for (start, &run) in runs.iter().enumerate() {
            assert_eq!(alone(start), [run]);
        }
        assert!(runs[0] == runs[4] && runs[1] == runs[5] && runs[0] != runs[1]);
        assert_eq!(rolling.runs(&words[..2]).count(), 0);
        assert_eq!(RollingHash::new(1).runs(&words).count(), 9);
    }

    /// The stored signatures of a folder are compared with later ones, so the hashes never change.
    #[test]
    fn hashes_are_those_of_earlier_versions() {
        let known = [hash_word(b"the"), hash_word(b"encyclopaedia"), hash_word("中".as_bytes())];
        assert_eq!(known, [2_098_127_857_661_249_959, 13_520_963_972_063_715_552, 1_390_023_031_384_986_627]);
        assert_eq!(RollingHash::new(2).runs(&known).next(), Some(10_510_345_078_460_072_943));
    }
}
