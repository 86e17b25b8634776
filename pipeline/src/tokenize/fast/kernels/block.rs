//! What a level of instructions does with 64 bytes.

/// Bytes that are looked at at a time.
pub(super) const BLOCK: usize = 64;

/// What a block of 64 bytes is made of: a bit for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classes {
    /// ASCII white space: space, tab, line feed, carriage return.
    pub(super) white: u64,
    /// ASCII punctuation.
    pub(super) mark: u64,
    /// Bytes of characters beyond ASCII.
    pub(super) high: u64,
}

/// What is done with a block, in the instructions of one level.
pub(super) trait Block {
    /// Tells the bytes of a block apart, and copies it with ASCII letters made small if `fold` says so.
    ///
    /// # Safety
    /// The processor has the instructions of the level.
    unsafe fn classes(block: &[u8; BLOCK], fold: bool, folded: &mut [u8; BLOCK]) -> Classes;

    /// Where the bytes `from..from + count` are.
    ///
    /// # Safety
    /// The processor has the instructions of the level.
    unsafe fn within(block: &[u8; BLOCK], from: u8, count: u8) -> u64;

    /// Writes `base` plus the place of each bit of `mask`, in ascending order; what is behind them in `target` is
    /// anything.
    ///
    /// # Safety
    /// The processor has the instructions of the level.
    unsafe fn offsets(mask: u64, base: u16, target: &mut [u16; BLOCK]);
}
