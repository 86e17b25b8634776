//! Hashes of words and of runs of words: the same on every platform.

/// Odd constants with half of their bits set.
const MULTIPLIERS: [u64; 2] = [0x9E37_79B9_7F4A_7C15, 0xD6E8_FEB8_6659_FD93];

/// Base of the polynomial over the words of a run.
const BASE: u64 = 0xA24B_AED4_963E_E407;

/// Returns the 64-bit hash of a word.
pub(crate) fn hash_word(word: &[u8]) -> u64 {
    let mut hash = MULTIPLIERS[0] ^ word.len() as u64;
    for chunk in word.chunks(8) {
        let mut bytes = [0; 8];
        bytes[..chunk.len()].copy_from_slice(chunk);
        hash = fold_multiply(hash ^ u64::from_le_bytes(bytes), MULTIPLIERS[1]);
    }
    mix(hash)
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
    let (low, high) = (product as u64, (product >> 64) as u64);
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
        assert_eq!(known, [16_718_952_677_508_769_651, 2_722_923_333_446_328_984, 8_522_088_588_906_834_296]);
        assert_eq!(RollingHash::new(2).runs(&known).next(), Some(1_822_387_518_105_621_950));
    }
}
