//! Byte pairs by the instructions that the processor has.

use super::super::byte_pairs::merges::Merges;
use super::super::byte_pairs::starts::{BLOCKS, Found, Planes, Splitting, Starts};
use super::super::byte_pairs::words::{Ids, Words};
use super::{Kernels, Level};

/// What is done by the instructions of one level.
#[derive(Clone, Copy, Debug)]
pub(in super::super) struct BytePairKernels {
    pub(in super::super) splitting: Splitting,
    /// Puts down the ids of the words of a window.
    pub(in super::super) look_up: fn(&mut Words, &Merges, text: &[u8], borders: &[u16], ids: &mut Ids) -> usize,
}

const PORTABLE: BytePairKernels = BytePairKernels { splitting: Splitting::PORTABLE, look_up: Words::look_up };

impl Kernels {
    /// The kernels of this level.
    pub(in super::super) fn of_byte_pairs(self) -> BytePairKernels {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => x86_64::AVX512,
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => x86_64::AVX2,
            Level::Portable => PORTABLE,
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86_64 {
    use std::arch::x86_64::{
        __m256i, __m512i, _mm256_cmpeq_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_movemask_epi8,
        _mm256_or_si256, _mm256_set1_epi8, _mm256_sub_epi8, _mm512_add_epi16, _mm512_castsi512_si256,
        _mm512_cmpeq_epi8_mask, _mm512_cmplt_epu8_mask, _mm512_cvtepu8_epi16, _mm512_extracti64x4_epi64,
        _mm512_loadu_si512, _mm512_maskz_compress_epi8, _mm512_maskz_loadu_epi8, _mm512_movepi8_mask, _mm512_or_si512,
        _mm512_set1_epi8, _mm512_set1_epi16, _mm512_storeu_si512, _mm512_sub_epi8,
    };

    use super::{BLOCKS, BytePairKernels, Found, Ids, Merges, Planes, Splitting, Starts, Words};

    // Only `Kernels::of_byte_pairs` hands these out.
    pub(super) const AVX512: BytePairKernels = BytePairKernels {
        splitting: Splitting {
            // SAFETY: a `Kernels` of this level is there only where the processor has AVX-512 with VBMI2, and BMI2.
            fill_planes: |text, planes| unsafe { fill_planes_avx512(text, planes) },
            // SAFETY: the same.
            list_starts: |masks, starts| unsafe { list_starts_avx512(masks, starts) },
        },
        look_up: AVX2.look_up,
    };

    pub(super) const AVX2: BytePairKernels = BytePairKernels {
        splitting: Splitting {
            // SAFETY: a `Kernels` of this level is there only where the processor has AVX2 and BMI2.
            fill_planes: |text, planes| unsafe { fill_planes_avx2(text, planes) },
            ..Splitting::PORTABLE
        },
        // SAFETY: the same.
        look_up: |words, merges, text, borders, ids| unsafe { look_up_avx2(words, merges, text, borders, ids) },
    };

    #[target_feature(enable = "avx2,bmi2")]
    fn look_up_avx2(words: &mut Words, merges: &Merges, text: &[u8], borders: &[u16], ids: &mut Ids) -> usize {
        words.look_up(merges, text, borders, ids)
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2")]
    fn fill_planes_avx512(text: &[u8], planes: &mut Planes) {
        for (block, bytes) in text.chunks(64).take(BLOCKS).enumerate() {
            let there = u64::MAX >> (64 - bytes.len());
            // SAFETY: `bytes` has as many bytes as `there` has bits from the lowest on; others are not read.
            let x = unsafe { _mm512_maskz_loadu_epi8(there, bytes.as_ptr().cast()) };
            let is = |byte: u8| _mm512_cmpeq_epi8_mask(x, _mm512_set1_epi8(byte.cast_signed()));
            let within = |x: __m512i, first: u8, count: u8| {
                let above = _mm512_sub_epi8(x, _mm512_set1_epi8(first.cast_signed()));
                _mm512_cmplt_epu8_mask(above, _mm512_set1_epi8(count.cast_signed()))
            };
            let lower = _mm512_or_si512(x, _mm512_set1_epi8(0x20));
            planes.put(
                block,
                Found {
                    there,
                    wide: _mm512_movepi8_mask(x),
                    letters: within(lower, b'a', 26),
                    digits: within(x, b'0', 10),
                    controls: within(x, 9, 5),
                    spaces: is(b' '),
                    apostrophes: is(b'\''),
                },
            );
        }
    }

    #[target_feature(enable = "avx2,bmi2")]
    fn fill_planes_avx2(text: &[u8], planes: &mut Planes) {
        for (block, bytes) in text.chunks(64).take(BLOCKS).enumerate() {
            let mut copy = [0; 64];
            let bytes = bytes.try_into().unwrap_or_else(|_| {
                copy[..bytes.len()].copy_from_slice(bytes);
                &copy
            });
            planes.put(block, found_avx2(bytes, u64::MAX >> (64 - text[block * 64..].len().min(64))));
        }
    }

    #[target_feature(enable = "avx2,bmi2")]
    fn found_avx2(bytes: &[u8; 64], there: u64) -> Found {
        // SAFETY: both halves of the 64 bytes are there.
        let x: [__m256i; 2] =
            unsafe { [_mm256_loadu_si256(bytes.as_ptr().cast()), _mm256_loadu_si256(bytes[32..].as_ptr().cast())] };
        let bits = |x: [__m256i; 2]| {
            let [low, high] = x.map(|half| u64::from(_mm256_movemask_epi8(half).cast_unsigned()));
            low | high << 32
        };
        let is = |byte: u8| bits(x.map(|half| _mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte.cast_signed()))));
        let within = |x: [__m256i; 2], first: u8, count: u8| {
            bits(x.map(|half| {
                let above = _mm256_sub_epi8(half, _mm256_set1_epi8(first.cast_signed()));
                _mm256_cmpeq_epi8(above, _mm256_min_epu8(above, _mm256_set1_epi8((count - 1).cast_signed())))
            }))
        };
        Found {
            there,
            wide: bits(x),
            letters: within(x.map(|half| _mm256_or_si256(half, _mm256_set1_epi8(0x20))), b'a', 26),
            digits: within(x, b'0', 10),
            controls: within(x, 9, 5),
            spaces: is(b' '),
            apostrophes: is(b'\''),
        }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512vbmi2,bmi2")]
    fn list_starts_avx512(masks: &[u64], starts: &mut Starts) -> usize {
        const NUMBERS: [u8; 64] = {
            let (mut numbers, mut at) = ([0; 64], 0_u8);
            while at < 64 {
                numbers[at as usize] = at;
                at += 1;
            }
            numbers
        };
        // SAFETY: 64 bytes are read of 64.
        let numbers = unsafe { _mm512_loadu_si512(NUMBERS.as_ptr().cast()) };
        let mut count = 0;
        for (block, &mask) in (0_i16..).zip(masks) {
            let places = _mm512_maskz_compress_epi8(mask, numbers);
            let base = _mm512_set1_epi16(block * 64);
            let low = _mm512_add_epi16(base, _mm512_cvtepu8_epi16(_mm512_castsi512_si256(places)));
            let high = _mm512_add_epi16(base, _mm512_cvtepu8_epi16(_mm512_extracti64x4_epi64::<1>(places)));
            let room: &mut [u16; 64] = starts[count..].first_chunk_mut().expect("masks of a window");
            // SAFETY: 64 numbers of two bytes each are written where there is room for 64.
            unsafe {
                _mm512_storeu_si512(room.as_mut_ptr().cast(), low);
                _mm512_storeu_si512(room[32..].as_mut_ptr().cast(), high);
            }
            count += mask.count_ones() as usize;
        }
        count
    }
}
