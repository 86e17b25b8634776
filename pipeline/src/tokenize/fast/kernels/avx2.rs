//! Kernels in AVX2, BMI and POPCNT.

use std::arch::x86_64::{
    __m256i, _mm_loadu_si128, _mm256_and_si256, _mm256_broadcastsi128_si256, _mm256_cmpeq_epi8, _mm256_loadu_si256,
    _mm256_min_epu8, _mm256_movemask_epi8, _mm256_or_si256, _mm256_set1_epi8, _mm256_setr_epi8, _mm256_shuffle_epi8,
    _mm256_storeu_si256, _mm256_sub_epi8,
};

use super::super::cache_slot::{IDS_MAX, Key, ShortEntry};
use super::block::{BLOCK, Block, Classes};
use super::portable;
use super::spans::{Spans, find_words as find};

/// AVX2, BMI1, BMI2, LZCNT, POPCNT.
pub(super) struct Avx2;

/// Implements [`find_words`](super::Kernels::find_words).
///
/// # Safety
/// The processor must have the features that are enabled here.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) unsafe fn find_words(text: &[u8], fold: bool, spans: &mut Spans) {
    // SAFETY: the features of `Avx2` are those enabled here.
    unsafe { find::<Avx2>(text, fold, spans) };
}

/// Number of ids that each store writes.
const STORED: usize = 8;

/// Implements [`append_known`](super::Kernels::append_known): a store always writes eight ids, and the next store
/// begins after the valid ones.
///
/// # Safety
/// The processor must have the features that are enabled here.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
pub(super) unsafe fn append_known(table: &[ShortEntry], keys: &[Key], places: &[usize], ids: &mut Vec<u32>) -> usize {
    let count = keys.len().min(places.len());
    ids.reserve(count * IDS_MAX + STORED);
    let before = ids.len();
    let mut written = 0;
    let mut known = 0;
    let target = ids.spare_capacity_mut();
    // Three bytes each: four ids of the first half, the fifth one of the second half, and zeros.
    let spread = _mm256_setr_epi8(
        0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1, 12, 13, 14, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1,
        -1, -1,
    );
    while known < count {
        let entry = &table[places[known]];
        if !entry.is(keys[known]) {
            break;
        }
        debug_assert!(written + STORED <= target.len() && entry.count() <= IDS_MAX);
        // SAFETY: `packed` has the 16 bytes that are read. An entry has at most `IDS_MAX` ids, so `written` is at most
        // `(count - 1) * IDS_MAX`, and `target` has room for `STORED` more after that: it was reserved above.
        unsafe {
            let packed = _mm_loadu_si128(entry.packed().as_ptr().cast());
            let spread = _mm256_shuffle_epi8(_mm256_broadcastsi128_si256(packed), spread);
            _mm256_storeu_si256(target.as_mut_ptr().add(written).cast(), spread);
        }
        written += entry.count().min(IDS_MAX);
        known += 1;
    }
    // SAFETY: `written` ids follow the first `before`, one entry after another without a gap.
    unsafe { ids.set_len(before + written) };
    known
}

/// Loads the halves of a block.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn halves(block: &[u8; BLOCK]) -> [__m256i; 2] {
    let source: *const __m256i = block.as_ptr().cast();
    // SAFETY: a block has two halves of 32 bytes; the loads need no alignment.
    unsafe { [_mm256_loadu_si256(source), _mm256_loadu_si256(source.add(1))] }
}

/// Returns a bit for each byte of two halves that a comparison set. Not a closure: a closure lacks the target features,
/// so that each intrinsic in it would be a call.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn bits(low: __m256i, high: __m256i) -> u64 {
    // SAFETY: the caller guarantees AVX2.
    let (low, high) = unsafe { (_mm256_movemask_epi8(low), _mm256_movemask_epi8(high)) };
    u64::from(low.cast_unsigned()) | u64::from(high.cast_unsigned()) << 32
}

/// Sets the bytes of `half` that equal `byte`.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn equal(half: __m256i, byte: u8) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe { _mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte.cast_signed())) }
}

/// Sets the bytes of `half` that are in `from..from + count`.
///
/// # Safety
/// The processor must have AVX2.
#[inline(always)]
unsafe fn in_range(half: __m256i, from: u8, count: u8) -> __m256i {
    // SAFETY: the caller guarantees AVX2.
    unsafe {
        let above = _mm256_sub_epi8(half, _mm256_set1_epi8(from.cast_signed()));
        _mm256_cmpeq_epi8(_mm256_min_epu8(above, _mm256_set1_epi8((count - 1).cast_signed())), above)
    }
}

/// Returns masks of the white space and of the punctuation in `half`. Writes `half` with `shift` (0x20 or 0) added to
/// its upper-case letters.
///
/// # Safety
/// The processor must have AVX2, and `folded` must be valid for writes of 32 bytes.
#[inline(always)]
unsafe fn classes_of_half(half: __m256i, shift: __m256i, folded: *mut __m256i) -> (__m256i, __m256i) {
    // SAFETY: the caller guarantees AVX2 and `folded`; the store needs no alignment.
    unsafe {
        let shift = _mm256_and_si256(in_range(half, b'A', 26), shift);
        _mm256_storeu_si256(folded, _mm256_or_si256(half, shift));
        let blank = _mm256_or_si256(equal(half, b' '), equal(half, b'\t'));
        let white = _mm256_or_si256(blank, _mm256_or_si256(equal(half, b'\n'), equal(half, b'\r')));
        let outer = _mm256_or_si256(in_range(half, b'!', 15), in_range(half, b'{', 4));
        let inner = _mm256_or_si256(in_range(half, b':', 7), in_range(half, b'[', 6));
        (white, _mm256_or_si256(outer, inner))
    }
}

impl Block for Avx2 {
    #[inline(always)]
    unsafe fn classes(block: &[u8; BLOCK], fold: bool, folded: &mut [u8; BLOCK]) -> Classes {
        // SAFETY: the caller guarantees the features; `folded` has two halves of 32 bytes.
        unsafe {
            let [low, high] = halves(block);
            let shift = _mm256_set1_epi8(if fold { 0x20 } else { 0 });
            let target: *mut __m256i = folded.as_mut_ptr().cast();
            let (white_low, mark_low) = classes_of_half(low, shift, target);
            let (white_high, mark_high) = classes_of_half(high, shift, target.add(1));
            Classes { white: bits(white_low, white_high), mark: bits(mark_low, mark_high), high: bits(low, high) }
        }
    }

    #[inline(always)]
    unsafe fn in_range(block: &[u8; BLOCK], from: u8, count: u8) -> u64 {
        // SAFETY: the caller guarantees the features.
        unsafe {
            let [low, high] = halves(block);
            bits(in_range(low, from, count), in_range(high, from, count))
        }
    }

    #[inline(always)]
    unsafe fn offsets(mask: u64, base: u16, target: &mut [u16; BLOCK]) {
        portable::offsets(mask, base, target);
    }
}
