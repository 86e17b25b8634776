//! SIMD kernels of the tokenizers: one of the two places with `unsafe` code in this crate.
//!
//! Each kernel has three versions: AVX-512 (with VBMI and VBMI2), AVX2, and portable. All give the same results.
//! [`Kernels::best`] selects the version at run time.
//!
//! # Why it is sound
//! - A [`Kernels`] of a level exists only if the processor reports all of its instructions.
//! - Loads and stores use references to arrays of their width. The one exception, the output of
//!   [`Kernels::append_known`], has its own proof there.

#![allow(unsafe_code, reason = "instructions of some processors; each block says why it may be there")]
#![allow(clippy::inline_always, reason = "what is not inlined has not the instructions of its surroundings")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
mod block;
mod byte_pairs;
mod portable;
mod spans;

pub(super) use self::spans::{Spans, WINDOW};
use super::cache_slot::{Key, ShortEntry};

/// Available instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kernels(Level);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Level {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    Portable,
}

impl Kernels {
    /// Returns all instruction sets of this processor, the best first.
    pub(super) fn available() -> Vec<Self> {
        let mut all = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let has_avx2 = is_x86_feature_detected!("avx2")
                && is_x86_feature_detected!("bmi1")
                && is_x86_feature_detected!("bmi2")
                && is_x86_feature_detected!("lzcnt")
                && is_x86_feature_detected!("popcnt");
            let has_avx512 = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vbmi2");
            if has_avx2 && has_avx512 {
                all.push(Self(Level::Avx512));
            }
            if has_avx2 {
                all.push(Self(Level::Avx2));
            }
        }
        all.push(Self(Level::Portable));
        all
    }

    /// Returns the best instruction set of this processor.
    pub(super) fn best() -> Self {
        Self::available()[0]
    }

    /// Returns the display name.
    pub(super) fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Level::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Level::Avx2 => "AVX2",
            Level::Portable => "portable instructions",
        }
    }

    /// Finds the chunks of a window of text between BERT's separators; `fold` converts its ASCII letters to lower case.
    pub(super) fn find_words(self, text: &[u8], fold: bool, spans: &mut Spans) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there.
            Level::Avx512 => unsafe { avx512::find_words(text, fold, spans) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there.
            Level::Avx2 => unsafe { avx2::find_words(text, fold, spans) },
            // SAFETY: the portable version needs no features.
            Level::Portable => unsafe { spans::find_words::<portable::Portable>(text, fold, spans) },
        }
    }

    /// Appends the ids of the first `keys`, up to one whose slot in `table` has another entry. Returns their number.
    #[inline]
    pub(super) fn append_known(
        self,
        table: &[ShortEntry],
        keys: &[Key],
        places: &[usize],
        ids: &mut Vec<u32>,
    ) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there; AVX2 is part of both.
            Level::Avx512 | Level::Avx2 => unsafe { avx2::append_known(table, keys, places, ids) },
            Level::Portable => portable::append_known(table, keys, places, ids),
        }
    }
}

/// Prefetches an entry of a table.
#[inline(always)]
pub(crate) fn fetch<T>(table: &[T], index: usize) {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        debug_assert!(index < table.len());
        // SAFETY: a prefetch reads nothing and cannot fault; `wrapping_add` allows any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(table.as_ptr().wrapping_add(index).cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (table, index);
}

#[cfg(test)]
mod tests;
