//! Portable kernels.

use super::super::cache_slot::{Key, ShortEntry};
use super::block::{BLOCK, Block, Classes};

/// No special instructions.
pub(super) struct Portable;

/// Bits of a class.
const WHITE: u8 = 1;
const MARK: u8 = 2;
const HIGH: u8 = 4;

/// Class of each byte.
static CLASSES: [u8; 256] = {
    let mut classes = [0; 256];
    let mut byte = 0_usize;
    while byte < 256 {
        classes[byte] = match byte.to_le_bytes()[0] {
            b' ' | b'\t' | b'\n' | b'\r' => WHITE,
            code if code.is_ascii_punctuation() => MARK,
            code if !code.is_ascii() => HIGH,
            _ => 0,
        };
        byte += 1;
    }
    classes
};

/// Returns a bit for each byte with that class bit: eight at a time, collected by a multiplication.
#[inline(always)]
fn mask(classes: &[u8; BLOCK], class: u8) -> u64 {
    classes.chunks_exact(8).rev().fold(0, |mask, eight| {
        let eight = u64::from_le_bytes(eight.try_into().expect("eight of sixty-four"));
        let flags = eight >> class.trailing_zeros() & 0x0101_0101_0101_0101;
        mask << 8 | flags.wrapping_mul(0x0102_0408_1020_4080) >> 56
    })
}

impl Block for Portable {
    #[inline(always)]
    unsafe fn classes(block: &[u8; BLOCK], fold: bool, folded: &mut [u8; BLOCK]) -> Classes {
        for (folded, byte) in folded.iter_mut().zip(block) {
            *folded = if fold { byte.to_ascii_lowercase() } else { *byte };
        }
        let classes = block.map(|byte| CLASSES[usize::from(byte)]);
        Classes { white: mask(&classes, WHITE), mark: mask(&classes, MARK), high: mask(&classes, HIGH) }
    }

    #[inline(always)]
    unsafe fn in_range(block: &[u8; BLOCK], from: u8, count: u8) -> u64 {
        mask(&block.map(|byte| u8::from(byte.wrapping_sub(from) < count)), 1)
    }

    #[inline(always)]
    unsafe fn offsets(mask: u64, base: u16, target: &mut [u16; BLOCK]) {
        offsets(mask, base, target);
    }
}

/// Writes eight offsets at a time, the last few possibly invalid: a branch for each would be mispredicted.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "a place among 64")]
pub(super) fn offsets(mut mask: u64, base: u16, target: &mut [u16; BLOCK]) {
    for eight in target.chunks_exact_mut(8) {
        for offset in eight {
            *offset = base + mask.trailing_zeros() as u16;
            mask &= mask.wrapping_sub(1);
        }
        if mask == 0 {
            break;
        }
    }
}

/// Implements [`append_known`](super::Kernels::append_known).
pub(super) fn append_known(table: &[ShortEntry], keys: &[Key], places: &[usize], ids: &mut Vec<u32>) -> usize {
    for (known, (&key, &place)) in keys.iter().zip(places).enumerate() {
        let entry = &table[place];
        if !entry.is(key) {
            return known;
        }
        ids.extend(entry.ids());
    }
    keys.len().min(places.len())
}
