//! Starts of pre-tokens, by GPT-2's regular expression
//! `'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+`.
//!
//! # Idea
//! Every byte belongs to a pre-token, so their starts are sufficient. Each character has one of four classes
//! (`classes.rs`), written as two bits, and 64 bytes of text give two 64-bit masks of them (`Planes`). A pre-token
//! begins at a change of class, with four exceptions:
//! - A character that is not white space includes the space (U+0020) before it.
//! - The last white space character before another character begins a pre-token, alone if it is not U+0020: it is the
//!   remainder of `\s+(?!\S)`. At the end of the text there is no remainder.
//! - A contraction ends at its end, even before letters.
//! - An apostrophe begins a contraction only if it begins a pre-token: neither after another character of its class nor
//!   after the space that it includes. So a contraction may follow another.
//!
//! # Invariants
//! The expression never looks back: the text after a pre-token is split as if it began there. So a text is split in
//! windows of 2 kB, each beginning with a pre-token. The last pre-token of a window is found again by the next window,
//! which contains it whole. The expression does look ahead, so a window reads the text to its end, not to its own.
//!
//! # Budget
//! 0.5 ns per token, of 4.4 bytes: 3 ns per 64 bytes for the masks of them, 4 for the rules, 2 for the offsets.
#![expect(
    clippy::cast_possible_truncation,
    reason = "halves of masks of 128 bits, and places in a window of 2^11 bytes"
)]

use super::super::kernels::{Kernels, WINDOW};
use super::classes::{Class, Classes};

/// Blocks of 64 bytes of a window, and the next one, for look-ahead.
pub(in super::super) const BLOCKS: usize = WINDOW / 64 + 1;

/// Classes of the bytes of a window, one bit each, 64 to a block. After the end of the text all bits are zero.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in super::super) struct Planes {
    /// Both bits of a byte's class, if it is ASCII.
    low: [u64; BLOCKS],
    high: [u64; BLOCKS],
    /// Spaces (U+0020).
    spaces: [u64; BLOCKS],
    apostrophes: [u64; BLOCKS],
    /// Bytes that are not ASCII.
    wide: [u64; BLOCKS],
}

/// Classes of 64 bytes, one bit each.
#[derive(Clone, Copy, Debug, Default)]
pub(in super::super) struct Found {
    /// Bytes of the text. Others are zero.
    pub(in super::super) there: u64,
    pub(in super::super) wide: u64,
    pub(in super::super) letters: u64,
    pub(in super::super) digits: u64,
    /// U+0009 to U+000D, which are white space.
    pub(in super::super) controls: u64,
    pub(in super::super) spaces: u64,
    pub(in super::super) apostrophes: u64,
}

impl Planes {
    const NONE: Self =
        Self { low: [0; BLOCKS], high: [0; BLOCKS], spaces: [0; BLOCKS], apostrophes: [0; BLOCKS], wide: [0; BLOCKS] };

    /// Stores the classes of a block.
    #[inline]
    pub(in super::super) fn put(&mut self, block: usize, found: Found) {
        let neither = found.there & !(found.wide | found.controls | found.spaces);
        self.low[block] = neither & !found.digits;
        self.high[block] = neither & !found.letters;
        self.spaces[block] = found.spaces;
        self.apostrophes[block] = found.apostrophes;
        self.wide[block] = found.wide;
    }
}

/// Starts of pre-tokens, and the end of the last one; with room for a block of 64 more.
pub(in super::super) type Starts = [u16; WINDOW + 64];

/// Stretch of text with its pre-tokens.
#[derive(Debug)]
pub(super) struct Borders {
    classes: &'static Classes,
    planes: Planes,
    starts: Box<Starts>,
}

impl Default for Borders {
    fn default() -> Self {
        Self { classes: Classes::of_the_crate(), planes: Planes::NONE, starts: Box::new([0; WINDOW + 64]) }
    }
}

impl Borders {
    /// Finds the first pre-tokens of `text`. Returns their borders: one between every two, and the last one as the
    /// start of the next window. If there are fewer than two borders, the first pre-token is longer than a window.
    pub(super) fn split(&mut self, kernels: Kernels, text: &[u8]) -> &[u16] {
        let bytes = text.len().min(WINDOW);
        let blocks = bytes.div_ceil(64);
        // Clears the block after the window, which may contain data of another text.
        self.planes.put(blocks, Found::default());
        kernels.fill_planes(&text[..text.len().min(BLOCKS * 64)], &mut self.planes);
        let mut rules = Rules::default();
        let mut masks = [0; BLOCKS];
        let mut spilt = 0;
        let mut wide_starts = self.wide_characters(text, 0, &mut spilt);
        for (block, mask) in masks.iter_mut().enumerate().take(blocks) {
            let wide_starts_behind = self.wide_characters(text, block + 1, &mut spilt);
            *mask = rules.starts(&self.planes, block, text) | wide_starts;
            wide_starts = wide_starts_behind;
        }
        if !bytes.is_multiple_of(64) {
            masks[blocks - 1] &= (1 << (bytes % 64)) - 1;
        }
        let mut count = kernels.list_starts(&masks[..blocks], &mut self.starts);
        if bytes == text.len() {
            self.starts[count] = u16::try_from(bytes).expect("in a window");
            count += 1;
        }
        &self.starts[..count]
    }

    /// Sets the class bits of all bytes of the non-ASCII characters that begin in `block`; those of a character that
    /// reaches into the next block are `spilt`. Returns the positions that begin a pre-token because they are white
    /// space before another character.
    fn wide_characters(&mut self, text: &[u8], block: usize, spilt: &mut u32) -> u64 {
        let mut wide = self.planes.wide.get(block).map_or(0, |wide| wide >> *spilt << *spilt);
        *spilt = 0;
        let mut starts = 0;
        while wide != 0 {
            let at = wide.trailing_zeros();
            let begin = block * 64 + at as usize;
            let (class, length) = self.classes.first(&text[begin..]);
            let bits = ((1_u128 << length) - 1) << at;
            let add = |plane: &mut [u64; BLOCKS]| {
                plane[block] |= bits as u64;
                if let Some(next) = plane.get_mut(block + 1) {
                    *next |= (bits >> 64) as u64;
                }
            };
            if class as u8 & 1 != 0 {
                add(&mut self.planes.low);
            }
            if class as u8 & 2 != 0 {
                add(&mut self.planes.high);
            }
            let behind = &text[begin + length..];
            if class == Class::White && !behind.is_empty() && self.classes.first(behind).0 != Class::White {
                starts |= 1 << at;
            }
            wide &= !(bits as u64);
            *spilt = (at + length as u32).saturating_sub(64);
        }
        starts
    }
}

/// Rules of the module documentation, for 64 bytes at a time, with the state carried over from the previous block.
#[derive(Default)]
struct Rules {
    low: u64,
    high: u64,
    space: u64,
    /// Ends in this block of contractions that began in the previous one, and starts of their letters.
    ended: u64,
    inside: u64,
}

impl Rules {
    /// Returns the starts of pre-tokens in a block, except for non-ASCII white space before other characters.
    fn starts(&mut self, planes: &Planes, block: usize, text: &[u8]) -> u64 {
        let low = planes.low[block];
        let high = planes.high[block];
        let spaces = planes.spaces[block];
        let low_before = low << 1 | self.low;
        let high_before = high << 1 | self.high;
        let behind_space = spaces << 1 | self.space;
        let not_white = low | high;
        let not_white_next = not_white >> 1 | (planes.low[block + 1] | planes.high[block + 1]) << 63;
        let white = !(not_white | planes.wide[block]);
        let change = (low ^ low_before) | (high ^ high_before);
        let mut starts = change & !(behind_space & not_white) | white & not_white_next;
        starts = starts & !self.inside | self.ended;
        (self.low, self.high, self.space) = (low >> 63, high >> 63, spaces >> 63);
        (self.ended, self.inside) = (0, 0);
        let mut apostrophes = planes.apostrophes[block] & !(low_before & high_before) & !behind_space;
        if block == 0 {
            starts |= 1;
        }
        while apostrophes != 0 {
            let at = apostrophes.trailing_zeros();
            apostrophes &= apostrophes - 1;
            if let Some(length) = contraction(&text[block * 64 + at as usize..]) {
                let inside = 2_u128 << at;
                let ended = 1_u128 << (at + length);
                starts = starts & !(inside as u64) | ended as u64;
                (self.inside, self.ended) = (self.inside | (inside >> 64) as u64, self.ended | (ended >> 64) as u64);
            }
        }
        starts
    }
}

/// Returns the length of the contraction at the start of `text`, which begins with an apostrophe.
fn contraction(text: &[u8]) -> Option<u32> {
    match text {
        [_, b's' | b't' | b'm' | b'd', ..] => Some(2),
        [_, b'r' | b'v', b'e', ..] | [_, b'l', b'l', ..] => Some(3),
        _ => None,
    }
}

/// Returns the length of the first pre-token of `text`, character by character: for one that is longer than a window,
/// and as the reference of tests.
pub(crate) fn first_pre_token(classes: &Classes, text: &[u8]) -> usize {
    if let Some(length) = text.first().filter(|&&byte| byte == b'\'').and_then(|_| contraction(text)) {
        return length as usize;
    }
    let from = usize::from(text.first() == Some(&b' '));
    let (Some(_), class) = (text.get(from), text.get(from).map(|_| classes.first(&text[from..]).0)) else {
        return text.len();
    };
    match class {
        Some(class) if class != Class::White => from + run(classes, class, &text[from..]).0,
        _ => match run(classes, Class::White, text) {
            (length, last) if length < text.len() && last > 0 => last,
            (length, _) => length,
        },
    }
}

/// Returns the bytes of the leading characters of `class` in `text`, and the start of the last of them.
pub(super) fn run(classes: &Classes, class: Class, text: &[u8]) -> (usize, usize) {
    let mut at = 0;
    let mut last = 0;
    while at < text.len() {
        let (found, length) = classes.first(&text[at..]);
        if found != class {
            break;
        }
        (last, at) = (at, at + length);
    }
    (at, last)
}
