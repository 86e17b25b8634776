//! One block of Philox4x32-10.

pub(crate) const ROUNDS: usize = 10;
pub(crate) const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
/// Increment of the key per round.
pub(crate) const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Number of words per block.
pub(crate) const WORDS_PER_BLOCK: usize = 4;

/// Returns one block.
#[inline]
pub(crate) fn block(mut counter: [u32; WORDS_PER_BLOCK], [mut key0, mut key1]: [u32; 2]) -> [u32; WORDS_PER_BLOCK] {
    for _ in 0..ROUNDS {
        let (low0, high0) = halves(u64::from(MULTIPLIERS[0]) * u64::from(counter[0]));
        let (low1, high1) = halves(u64::from(MULTIPLIERS[1]) * u64::from(counter[2]));
        counter = [high1 ^ counter[1] ^ key0, low1, high0 ^ counter[3] ^ key1, low0];
        (key0, key1) = (key0.wrapping_add(WEYL[0]), key1.wrapping_add(WEYL[1]));
    }
    counter
}

/// Returns the low half and the high half of a product.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "taking the halves is what it is for")]
pub(crate) fn halves(product: u64) -> (u32, u32) {
    (product as u32, (product >> 32) as u32)
}
