//! Operations on 64 bytes that each instruction set implements.

/// Bytes processed at a time.
pub(super) const BLOCK: usize = 64;

/// Classes of a block of 64 bytes: a bit for each byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Classes {
    /// ASCII white space: space, tab, line feed, carriage return.
    pub(super) white: u64,
    /// ASCII punctuation.
    pub(super) mark: u64,
    /// Bytes of non-ASCII characters.
    pub(super) high: u64,
}

/// Operations on a block, in the instructions of one level.
pub(super) trait Block {
    /// Classifies the bytes of a block, and copies it, with ASCII letters in lower case if `fold`.
    ///
    /// # Safety
    /// The processor must have the instructions of the level.
    unsafe fn classes(block: &[u8; BLOCK], fold: bool, folded: &mut [u8; BLOCK]) -> Classes;

    /// Returns the positions of the bytes in `from..from + count`.
    ///
    /// # Safety
    /// The processor must have the instructions of the level.
    unsafe fn in_range(block: &[u8; BLOCK], from: u8, count: u8) -> u64;

    /// Writes `base` plus the position of each bit of `mask`, in ascending order. The rest of `target` is unspecified.
    ///
    /// # Safety
    /// The processor must have the instructions of the level.
    unsafe fn offsets(mask: u64, base: u16, target: &mut [u16; BLOCK]);
}
