//! Philox4x32-10: a portable implementation, block by block, and a vectorized one with equal output.

#![allow(unsafe_code, reason = "vector instructions; each block states its safety condition")]

mod block;
#[cfg(target_arch = "x86_64")]
mod wide;

pub(crate) use self::block::{WORDS_PER_BLOCK, block, halves};

/// Fills words with Philox blocks from `first` on, with vector instructions. Returns the number of filled words, a
/// multiple of a block. Returns 0 if the processor has no suitable instructions.
#[inline]
pub(crate) fn fill(row: [u32; 3], first: u32, key: [u32; 2], words: &mut [u32]) -> usize {
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: the processor supports the target features of this function.
        return unsafe { wide::fill(row, first, key, words) };
    }
    let _ = (row, first, key, words);
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_side_by_side_are_those_drawn_one_by_one() {
        let row = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e];
        let key = [0xa409_3822, 0x299f_31d0];
        for first in [0, 1, 0x0370_7344, u32::MAX - 9] {
            for count in [0, 4, 31, 32, 33, 64, 95, 96, 128, 200] {
                let mut words = vec![7; count];
                let filled = fill(row, first, key, &mut words);
                #[cfg(target_arch = "x86_64")]
                assert_eq!(filled, if is_x86_feature_detected!("avx2") { count / 32 * 32 } else { 0 }, "of {count}");
                for (number, found) in (0..).zip(words[..filled].chunks(4)) {
                    let [a, b, c] = row;
                    let expected = block([a, b, c, first.wrapping_add(number)], key);
                    assert_eq!(found, expected, "block {number} from {first} on");
                }
                assert!(words[filled..].iter().all(|&word| word == 7), "what is not filled is left");
            }
        }
    }
}
