//! Kernels in AVX-512 with BW, VL, VBMI and VBMI2.

use std::arch::x86_64::{
    __m512i, _mm512_add_epi16, _mm512_and_si512, _mm512_castsi512_si256, _mm512_cmplt_epu8_mask, _mm512_cvtepu8_epi16,
    _mm512_extracti64x4_epi64, _mm512_loadu_si512, _mm512_maskz_compress_epi8, _mm512_maskz_permutex2var_epi8,
    _mm512_movepi8_mask, _mm512_or_si512, _mm512_set1_epi8, _mm512_set1_epi16, _mm512_storeu_si512, _mm512_sub_epi8,
    _mm512_test_epi8_mask,
};

use super::block::{BLOCK, Block, Classes};
use super::spans::{Spans, find_words as find};

/// AVX-512 F, BW, VL, VBMI, VBMI2, and the features of AVX2.
pub(super) struct Avx512;

/// Implements [`find_words`](super::Kernels::find_words).
///
/// # Safety
/// The processor must have the features that are enabled here.
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
pub(super) unsafe fn find_words(text: &[u8], fold: bool, spans: &mut Spans) {
    // SAFETY: the features of `Avx512` are those enabled here.
    unsafe { find::<Avx512>(text, fold, spans) };
}

/// Bits of a class: the sign of a byte, a bit to test, and the offset to lower case of an ASCII letter.
const WHITE: u8 = 0x80;
const MARK: u8 = 0x40;
const UPPER: u8 = 0x20;

/// Class of each ASCII byte.
static ASCII: [[u8; BLOCK]; 2] = {
    let mut classes = [[0; BLOCK]; 2];
    let mut byte = 0_u8;
    while byte.is_ascii() {
        classes[byte as usize / BLOCK][byte as usize % BLOCK] = match byte {
            b' ' | b'\t' | b'\n' | b'\r' => WHITE,
            _ if byte.is_ascii_punctuation() => MARK,
            _ if byte.is_ascii_uppercase() => UPPER,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// 0, 1, 2, …
static PLACES: [u8; BLOCK] = {
    let mut places = [0; BLOCK];
    let mut place = 0_usize;
    while place < BLOCK {
        places[place] = place.to_le_bytes()[0];
        place += 1;
    }
    places
};

/// # Safety
/// The processor must have AVX-512.
#[inline(always)]
unsafe fn load(block: &[u8; BLOCK]) -> __m512i {
    // SAFETY: a block has the 64 bytes that are read; the load needs no alignment.
    unsafe { _mm512_loadu_si512(block.as_ptr().cast()) }
}

impl Block for Avx512 {
    #[inline(always)]
    unsafe fn classes(block: &[u8; BLOCK], fold: bool, folded: &mut [u8; BLOCK]) -> Classes {
        // SAFETY: the caller guarantees the features; `folded` has the 64 bytes that are written, of any alignment.
        unsafe {
            let text = load(block);
            let high = _mm512_movepi8_mask(text);
            let class = _mm512_maskz_permutex2var_epi8(!high, load(&ASCII[0]), text, load(&ASCII[1]));
            let shift = _mm512_set1_epi8(if fold { UPPER.cast_signed() } else { 0 });
            let small = _mm512_or_si512(text, _mm512_and_si512(class, shift));
            _mm512_storeu_si512(folded.as_mut_ptr().cast(), small);
            let mark = _mm512_test_epi8_mask(class, _mm512_set1_epi8(MARK.cast_signed()));
            Classes { white: _mm512_movepi8_mask(class), mark, high }
        }
    }

    #[inline(always)]
    unsafe fn in_range(block: &[u8; BLOCK], from: u8, count: u8) -> u64 {
        // SAFETY: the caller guarantees the features.
        unsafe {
            let above = _mm512_sub_epi8(load(block), _mm512_set1_epi8(from.cast_signed()));
            _mm512_cmplt_epu8_mask(above, _mm512_set1_epi8(count.cast_signed()))
        }
    }

    #[inline(always)]
    unsafe fn offsets(mask: u64, base: u16, target: &mut [u16; BLOCK]) {
        // SAFETY: the caller guarantees the features; `target` has two vectors of 32 16-bit numbers, of any alignment.
        unsafe {
            let places = _mm512_maskz_compress_epi8(mask, load(&PLACES));
            let base = _mm512_set1_epi16(base.cast_signed());
            let target: *mut __m512i = target.as_mut_ptr().cast();
            let low = _mm512_cvtepu8_epi16(_mm512_castsi512_si256(places));
            _mm512_storeu_si512(target.cast(), _mm512_add_epi16(base, low));
            if mask.count_ones() > 32 {
                let high = _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(places));
                _mm512_storeu_si512(target.add(1).cast(), _mm512_add_epi16(base, high));
            }
        }
    }
}
