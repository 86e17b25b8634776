//! Kernels for byte pairs.

use super::super::byte_pairs::merges::Merges;
use super::super::byte_pairs::starts::{BLOCKS, Found, Planes, Starts};
use super::super::byte_pairs::words::{Ids, WordEncoder};
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx512::Avx512;
use super::block::{BLOCK, Block};
use super::portable::Portable;
use super::{Kernels, Level};

impl Kernels {
    /// Fills `planes` with the classes of the first bytes of `text`.
    pub(in super::super) fn fill_planes(self, text: &[u8], planes: &mut Planes) {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there.
            Level::Avx512 => unsafe { fill_planes_avx512(text, planes) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there.
            Level::Avx2 => unsafe { fill_planes_avx2(text, planes) },
            // SAFETY: the portable version needs no features.
            Level::Portable => unsafe { fill_planes::<Portable>(text, planes) },
        }
    }

    /// Lists the bits of masks, of 64 bytes each. Returns their number.
    pub(in super::super) fn list_starts(self, masks: &[u64], starts: &mut Starts) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there.
            Level::Avx512 => unsafe { list_starts_avx512(masks, starts) },
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there.
            Level::Avx2 => unsafe { list_starts_avx2(masks, starts) },
            // SAFETY: the portable version needs no features.
            Level::Portable => unsafe { list_starts::<Portable>(masks, starts) },
        }
    }

    /// Writes the ids of the words of a window. Returns their number.
    pub(in super::super) fn look_up(
        self,
        words: &mut WordEncoder,
        merges: &Merges,
        text: &[u8],
        borders: &[u16],
        ids: &mut Ids,
    ) -> usize {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            // SAFETY: the level guarantees that the processor has all features enabled there; AVX2 is part of both.
            Level::Avx512 | Level::Avx2 => unsafe { look_up_avx2(words, merges, text, borders, ids) },
            Level::Portable => words.look_up(merges, text, borders, ids),
        }
    }
}

/// # Safety
/// The processor must have the instructions of `B`.
#[inline(always)]
unsafe fn fill_planes<B: Block>(text: &[u8], planes: &mut Planes) {
    // Bytes after the end of a text have no class.
    let mut last = [0; BLOCK];
    for (block, bytes) in text.chunks(BLOCK).take(BLOCKS).enumerate() {
        let whole = if let Ok(whole) = bytes.try_into() {
            whole
        } else {
            last[..bytes.len()].copy_from_slice(bytes);
            &last
        };
        // SAFETY: the caller guarantees the instructions of `B`.
        let found = unsafe {
            Found {
                there: u64::MAX >> (BLOCK - bytes.len()),
                wide: B::in_range(whole, 0x80, 0x80),
                letters: B::in_range(whole, b'A', 26) | B::in_range(whole, b'a', 26),
                digits: B::in_range(whole, b'0', 10),
                controls: B::in_range(whole, 9, 5),
                spaces: B::in_range(whole, b' ', 1),
                apostrophes: B::in_range(whole, b'\'', 1),
            }
        };
        planes.put(block, found);
    }
}

/// # Safety
/// The processor must have the instructions of `B`.
#[inline(always)]
unsafe fn list_starts<B: Block>(masks: &[u64], starts: &mut Starts) -> usize {
    let mut base = 0;
    let mut count = 0;
    for &mask in masks {
        let room = starts[count..].first_chunk_mut().expect("masks of a window");
        // SAFETY: the caller guarantees the instructions of `B`.
        unsafe { B::offsets(mask, base, room) };
        base += 64;
        count += mask.count_ones() as usize;
    }
    count
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
fn fill_planes_avx512(text: &[u8], planes: &mut Planes) {
    // SAFETY: the features of `Avx512` are those enabled here.
    unsafe { fill_planes::<Avx512>(text, planes) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn fill_planes_avx2(text: &[u8], planes: &mut Planes) {
    // SAFETY: the features of `Avx2` are those enabled here.
    unsafe { fill_planes::<Avx2>(text, planes) };
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt,avx512f,avx512bw,avx512vl,avx512vbmi,avx512vbmi2")]
fn list_starts_avx512(masks: &[u64], starts: &mut Starts) -> usize {
    // SAFETY: the features of `Avx512` are those enabled here.
    unsafe { list_starts::<Avx512>(masks, starts) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn list_starts_avx2(masks: &[u64], starts: &mut Starts) -> usize {
    // SAFETY: the features of `Avx2` are those enabled here.
    unsafe { list_starts::<Avx2>(masks, starts) }
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
fn look_up_avx2(words: &mut WordEncoder, merges: &Merges, text: &[u8], borders: &[u16], ids: &mut Ids) -> usize {
    words.look_up(merges, text, borders, ids)
}
