//! Vectorized Philox blocks, in AVX2.
//!
//! A 64-bit lane is one block, and four vectors are the four words of four blocks. A word is the low half of its lane;
//! the high half that a product leaves is never used. Processing two sets of vectors at a time takes 0.7 ns per word.
//! One block after another takes 1.0 to 1.3, two blocks per vector (SSE2) 1.5, and four sets at a time 0.8.

use std::arch::x86_64::{
    __m256i, _mm256_and_si256, _mm256_mul_epu32, _mm256_or_si256, _mm256_permute2x128_si256, _mm256_set_epi64x,
    _mm256_set1_epi64x, _mm256_slli_epi64, _mm256_srli_epi64, _mm256_storeu_si256, _mm256_unpackhi_epi64,
    _mm256_unpacklo_epi64, _mm256_xor_si256,
};

use super::block::{MULTIPLIERS, ROUNDS, WEYL, WORDS_PER_BLOCK};

/// Number of blocks in a set of vectors.
const LANES: usize = 4;

/// Number of words in a set.
const WORDS: usize = LANES * WORDS_PER_BLOCK;

/// Number of sets that are computed at a time.
const SETS: usize = 2;

/// Fills words with whole sets of blocks, from `first` on. Returns the number of filled words. The rest is smaller than
/// one iteration.
#[target_feature(enable = "avx2")]
pub(super) fn fill(row: [u32; 3], mut first: u32, key: [u32; 2], words: &mut [u32]) -> usize {
    let mut filled = 0;
    while let Some(target) = words[filled..].first_chunk_mut() {
        sets(row, first, key, target);
        (filled, first) = (filled + SETS * WORDS, first.wrapping_add(8));
    }
    filled
}

#[target_feature(enable = "avx2")]
#[inline]
fn all(word: u32) -> __m256i {
    _mm256_set1_epi64x(i64::from(word))
}

/// Four consecutive words from `first` on.
#[target_feature(enable = "avx2")]
#[inline]
fn ascending(first: u32) -> __m256i {
    let [a, b, c, d] = [0, 1, 2, 3].map(|lane| i64::from(first.wrapping_add(lane)));
    _mm256_set_epi64x(d, c, b, a)
}

/// Computes the blocks of all sets.
#[target_feature(enable = "avx2")]
#[inline]
fn sets(row: [u32; 3], first: u32, key: [u32; 2], words: &mut [u32; SETS * WORDS]) {
    let mut counters = [[all(row[0]), all(row[1]), all(row[2]), all(first)]; SETS];
    for (set, [.., blocks]) in (0..).step_by(LANES).zip(&mut counters) {
        *blocks = ascending(first.wrapping_add(set));
    }
    let [multiplier0, multiplier1] = [all(MULTIPLIERS[0]), all(MULTIPLIERS[1])];
    let [mut key0, mut key1] = key;
    for _ in 0..ROUNDS {
        let keys0 = all(key0);
        let keys1 = all(key1);
        for [a, b, c, d] in &mut counters {
            let product0 = _mm256_mul_epu32(*a, multiplier0);
            let product1 = _mm256_mul_epu32(*c, multiplier1);
            *a = _mm256_xor_si256(_mm256_srli_epi64::<32>(product1), _mm256_xor_si256(*b, keys0));
            *c = _mm256_xor_si256(_mm256_srli_epi64::<32>(product0), _mm256_xor_si256(*d, keys1));
            (*b, *d) = (product1, product0);
        }
        (key0, key1) = (key0.wrapping_add(WEYL[0]), key1.wrapping_add(WEYL[1]));
    }
    let (places, _) = words.as_chunks_mut::<WORDS>();
    for (place, counters) in places.iter_mut().zip(counters) {
        store(counters, place);
    }
}

/// Stores the four words of each lane, lane by lane.
#[target_feature(enable = "avx2")]
#[inline]
fn store([a, b, c, d]: [__m256i; WORDS_PER_BLOCK], words: &mut [u32; WORDS]) {
    let low = all(u32::MAX);
    let front = _mm256_or_si256(_mm256_and_si256(a, low), _mm256_slli_epi64::<32>(b));
    let back = _mm256_or_si256(_mm256_and_si256(c, low), _mm256_slli_epi64::<32>(d));
    // Words of lanes 0 and 2, and of lanes 1 and 3.
    let even = _mm256_unpacklo_epi64(front, back);
    let odd = _mm256_unpackhi_epi64(front, back);
    let target: *mut __m256i = words.as_mut_ptr().cast();
    // SAFETY: `words` is as long as two 32-byte vectors; the stores need no alignment.
    unsafe {
        _mm256_storeu_si256(target, _mm256_permute2x128_si256::<0x20>(even, odd));
        _mm256_storeu_si256(target.add(1), _mm256_permute2x128_si256::<0x31>(even, odd));
    }
}
