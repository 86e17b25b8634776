//! The kernels in what every processor has.

use super::super::entry::{Key, Short};
use super::{BLOCK, Block, Classes};

/// No instructions in particular.
pub(super) struct Portable;

/// A bit for each byte that something is true of.
#[inline(always)]
fn mask(block: &[u8; BLOCK], is: impl Fn(u8) -> bool) -> u64 {
    block.iter().rev().fold(0, |mask, &byte| mask << 1 | u64::from(is(byte)))
}

#[expect(unsafe_op_in_unsafe_fn, reason = "nothing here is unsafe")]
impl Block for Portable {
    #[inline(always)]
    unsafe fn classes(block: &[u8; BLOCK], fold: bool, folded: &mut [u8; BLOCK]) -> Classes {
        for (folded, byte) in folded.iter_mut().zip(block) {
            *folded = if fold { byte.to_ascii_lowercase() } else { *byte };
        }
        Classes {
            white: mask(block, |byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')),
            mark: mask(block, |byte| byte.is_ascii_punctuation()),
            high: mask(block, |byte| !byte.is_ascii()),
        }
    }

    #[inline(always)]
    unsafe fn within(block: &[u8; BLOCK], from: u8, count: u8) -> u64 {
        mask(block, |byte| byte.wrapping_sub(from) < count)
    }

    #[inline(always)]
    unsafe fn offsets(mask: u64, base: u16, target: &mut [u16; BLOCK]) {
        offsets(mask, base, target);
    }
}

/// Eight offsets at a time, of which the last few may be nobody's: a branch for each of them would be mispredicted.
#[inline(always)]
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

/// [`append_known`](super::Kernels::append_known).
pub(super) fn append_known(table: &[Short], keys: &[Key], places: &[u32], ids: &mut Vec<u32>) -> usize {
    for (known, (&key, &place)) in keys.iter().zip(places).enumerate() {
        let entry = &table[place as usize];
        if !entry.is(key) {
            return known;
        }
        ids.extend(entry.ids());
    }
    keys.len().min(places.len())
}
