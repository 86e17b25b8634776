//! Starts and ends of the chunks of a window: arithmetic on bit masks, 64 bytes at a time.
//!
//! A chunk is the text between BERT's *hard separators*: ASCII white space, ASCII punctuation, and U+2010 to U+2027
//! (the bytes E2 80 90 to E2 80 A7: dashes, quotes, dots). A punctuation mark is a separate chunk.

use super::block::{BLOCK, Block, Classes};

/// Bytes of a window: its offsets and its copy stay in the first-level cache.
pub(in super::super) const WINDOW: usize = 2048;

/// Length of the lists, with room for the surplus of the last store.
const ROOM: usize = WINDOW + BLOCK;

/// Chunks of a window.
#[derive(Debug)]
pub(in super::super) struct Spans {
    starts: [u16; ROOM],
    ends: [u16; ROOM],
    folded: [u8; ROOM],
    started: usize,
    ended: usize,
    /// True if the last byte belongs to a word, which may continue.
    is_open: bool,
}

impl Spans {
    pub(in super::super) fn new() -> Box<Self> {
        Box::new(Self { starts: [0; ROOM], ends: [0; ROOM], folded: [0; ROOM], started: 0, ended: 0, is_open: false })
    }

    /// Returns the starts and ends of the chunks. The last one may reach the end of the window and continue after it.
    pub(in super::super) fn all(&self) -> (&[u16], &[u16]) {
        debug_assert_eq!(self.started, self.ended);
        (&self.starts[..self.started], &self.ends[..self.ended])
    }

    /// Returns the start of the chunk that reaches the end of the window and may continue after it, if there is one.
    pub(in super::super) fn open(&self) -> Option<usize> {
        self.is_open.then(|| usize::from(self.starts[self.started - 1]))
    }

    /// Returns the window with its letters in lower case, followed by as many bytes as a key is long.
    pub(in super::super) fn folded(&self) -> &[u8; ROOM] {
        &self.folded
    }
}

/// Returns the starts of characters from U+2010 to U+2027; they may reach into the bytes that `follow`.
///
/// # Safety
/// The processor must have the instructions of `B`.
#[inline(always)]
unsafe fn dashes<B: Block>(block: &[u8; BLOCK], follow: &[u8]) -> u64 {
    // SAFETY: the caller guarantees the instructions of `B`.
    let (first, second, third) =
        unsafe { (B::in_range(block, 0xe2, 1), B::in_range(block, 0x80, 1), B::in_range(block, 0x90, 0x18)) };
    if first == 0 {
        return 0;
    }
    let is = |at: usize, from: u8, count: u8| follow.get(at).is_some_and(|byte| byte.wrapping_sub(from) < count);
    let second = second >> 1 | u64::from(is(0, 0x80, 1)) << 63;
    let third = third >> 2 | u64::from(is(0, 0x90, 0x18)) << 62 | u64::from(is(1, 0x90, 0x18)) << 63;
    first & second & third
}

/// Returns the room for the offsets of a block after the first `length` of a list.
#[inline(always)]
fn block_at(list: &mut [u16; ROOM], length: usize) -> &mut [u16; BLOCK] {
    (&mut list[length..length + BLOCK]).try_into().expect("a block")
}

/// Finds the chunks of `text`, which is at most a window.
///
/// # Safety
/// The processor must have the instructions of `B`.
#[inline(always)]
#[expect(clippy::cast_possible_truncation, reason = "offsets in a window, which has few bytes")]
pub(super) unsafe fn find_words<B: Block>(text: &[u8], fold: bool, spans: &mut Spans) {
    assert!(text.len() <= WINDOW, "a window at a time");
    let mut started = 0;
    let mut ended = 0;
    // State from the previous block: whether its last byte belongs to a word, and chunk ends in this block.
    let mut was_word = 0;
    let mut ends_here = 0;
    let mut dash_before = 0_u64;
    let mut last = [b' '; BLOCK];
    let blocks = text.len().div_ceil(BLOCK);
    for at in (0..blocks).map(|block| block * BLOCK) {
        let (block, follow) = if let Some(whole) = text[at..].split_first_chunk::<BLOCK>() {
            whole
        } else {
            // White space after the end terminates the last chunk.
            last[..text.len() - at].copy_from_slice(&text[at..]);
            (&last, &[][..])
        };
        let folded = (&mut spans.folded[at..at + BLOCK]).try_into().expect("a block");
        // SAFETY: the caller guarantees the instructions of `B`.
        let Classes { white, mark, high } = unsafe { B::classes(block, fold, folded) };
        // SAFETY: the caller guarantees the instructions of `B`.
        let dash = if high == 0 { 0 } else { unsafe { dashes::<B>(block, follow) } };
        let in_dash = dash | dash << 1 | dash << 2 | dash_before >> 63 | dash_before >> 62;
        let word = !(white | mark | in_dash);
        let behind_word = word << 1 | was_word;
        let starts = mark | dash | word & !behind_word;
        let ends = behind_word & !word | mark << 1 | dash << 3 | ends_here;
        (was_word, ends_here, dash_before) = (word >> 63, mark >> 63 | dash >> 61, dash);
        let base = at as u16;
        // Not in a closure: a closure lacks the target features, so that each intrinsic in it would be a call.
        let begin = block_at(&mut spans.starts, started);
        let end = block_at(&mut spans.ends, ended);
        // SAFETY: the caller guarantees the instructions of `B`.
        unsafe {
            B::offsets(starts, base, begin);
            B::offsets(ends, base, end);
        }
        started += starts.count_ones() as usize;
        ended += ends.count_ones() as usize;
    }
    let is_open = was_word == 1;
    if is_open || ends_here & 1 == 1 {
        spans.ends[ended] = text.len() as u16;
        ended += 1;
    }
    debug_assert_eq!(started, ended, "every chunk that begins also ends");
    (spans.started, spans.ended, spans.is_open) = (started, ended, is_open);
}
