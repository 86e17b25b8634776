//! Ids of words that were merged before, found by the bytes of the words.
//!
//! # Idea
//! An entry is half a cache line: the 16 bytes of a word and up to seven ids, which are stored with one instruction,
//! however many they are. It lies in one of four slots beside each other, in the first of them as good as always. Words
//! of up to 32 bytes or 15 ids have a smaller table of their own, one slot for each.
//!
//! # Invariants
//! - A key is compared in full: a word padded with `0xFF`, which is no byte of UTF-8, so that no length is needed beside
//!   it. A longer word has the key `LONG`, and an empty slot the key `EMPTY`, which are no words.
//! - What is forgotten is merged again: it changes time, never ids. Words of the vocabulary, frequent ones by
//!   experience, are entered first and stay.

use super::super::kernels::fetch;

/// Bytes of a key.
pub(super) const KEY: usize = 16;

/// The ids of an entry, and in the last place how many there are, and whether it is to stay.
pub(super) type Packed = [u16; 8];

/// Ids of an entry, at most.
const IDS_MAX: usize = 7;
const STAYS: u16 = 1 << 8;

/// The key of words that are longer than a key, and of no word at all.
const LONG: u128 = u128::MAX;
const EMPTY: u128 = 0xFE;

/// Slots that a word may lie in.
const WAYS: usize = 4;

/// Words that are remembered, and long ones: enough for all of a vocabulary of 50,000 and four times as many others, and
/// some 9 MB. Half as many take a tenth longer on novels, a quarter of them twice as long.
pub(super) const SLOTS: (usize, usize) = (1 << 18, 1 << 13);

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Entry {
    key: u128,
    packed: Packed,
}

/// An entry of a longer word, or of more ids; the last of them is their number.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct WideEntry {
    key: [u128; 2],
    packed: [u16; 16],
}

/// What a thread remembers.
#[derive(Clone, Debug)]
pub(super) struct Known {
    entries: Box<[Entry]>,
    wide: Box<[WideEntry]>,
    /// Counts events of which every so manieth is acted on.
    turn: usize,
}

/// What a key is made of from the bytes behind a word's beginning: `0xFF` for those that are not the word's.
const PADDING: [u128; KEY + 2] = {
    let mut padding = [LONG; KEY + 2];
    let mut length = 0;
    while length <= KEY {
        padding[length] = if length < KEY { u128::MAX << (8 * length) } else { 0 };
        length += 1;
    }
    padding
};

/// The key of a word of `length` bytes, from these and those behind it.
#[inline]
pub(super) fn key(bytes: [u8; KEY], length: usize) -> u128 {
    u128::from_le_bytes(bytes) | PADDING[length.min(KEY + 1)]
}

/// The key of a word that stands alone.
#[inline]
pub(super) fn key_of(word: &[u8]) -> u128 {
    let mut bytes = [0; KEY];
    let length = word.len().min(KEY);
    bytes[..length].copy_from_slice(&word[..length]);
    key(bytes, word.len())
}

/// The halves of a word of at most 32 bytes.
fn wide_key(word: &[u8]) -> [u128; 2] {
    assert!(word.len() <= 2 * KEY, "a key of {} bytes", word.len());
    [key_of(&word[..word.len().min(KEY)]), key_of(&word[word.len().min(KEY)..])]
}

#[inline]
fn hash(key: u128) -> usize {
    let (low, high) = (key as u64, (key >> 64) as u64);
    let product = u128::from(low ^ 0x9E37_79B9_7F4A_7C15) * u128::from(high ^ 0xD1B5_4A32_D192_ED03);
    (product as u64 ^ (product >> 64) as u64) as usize
}

impl Known {
    /// Of these many words, a power of two, and of these many long ones.
    pub(super) fn new((slots, wide_slots): (usize, usize)) -> Self {
        assert!(slots.is_power_of_two() && slots >= WAYS && wide_slots.is_power_of_two(), "{slots}, {wide_slots}");
        let entry = Entry { key: EMPTY, packed: [0; 8] };
        let wide = WideEntry { key: [EMPTY; 2], packed: [0; 16] };
        Self { entries: vec![entry; slots].into(), wide: vec![wide; wide_slots].into(), turn: 0 }
    }

    /// The first slot of a word.
    #[inline]
    pub(super) fn slot(&self, key: u128) -> usize {
        hash(key) & (self.entries.len() - 1)
    }

    /// Asks for a slot, for a look at it soon.
    #[inline(always)]
    pub(super) fn fetch(&self, slot: usize) {
        fetch(&self.entries, slot);
    }

    /// The ids of a word that lies in its first slot.
    #[inline]
    pub(super) fn at(&self, slot: usize, key: u128) -> Option<&Packed> {
        let entry = &self.entries[slot];
        (entry.key == key).then_some(&entry.packed)
    }

    /// The ids of a word that lies in another of its slots. One of sixteen that are found so changes places with the word
    /// in the first slot: where both are frequent, they take turns.
    pub(super) fn beside(&mut self, slot: usize, key: u128) -> Option<Packed> {
        let other = (1..WAYS).map(|way| slot ^ way).find(|&other| self.entries[other].key == key)?;
        let packed = self.entries[other].packed;
        self.turn += 1;
        if self.turn % 16 == 0 {
            self.entries.swap(slot, other);
        }
        Some(packed)
    }

    /// Remembers a word of at most 16 bytes, if its ids fit: in a free slot, else instead of one that need not stay.
    pub(super) fn enter(&mut self, (slot, key): (usize, u128), ids: &[u16], stays: bool) {
        assert_ne!(key, LONG, "a word that is longer than its key");
        if ids.len() > IDS_MAX {
            return;
        }
        self.turn += 1;
        let ways = || (0..WAYS).map(|way| slot ^ way);
        let free = ways().find(|&slot| self.entries[slot].key == EMPTY);
        let turn = self.turn % WAYS;
        let replaceable = || ways().map(|slot| slot ^ turn).find(|&slot| self.entries[slot].packed[7] & STAYS == 0);
        let Some(chosen) = free.or_else(replaceable) else { return };
        let mut packed = [0; 8];
        packed[..ids.len()].copy_from_slice(ids);
        packed[7] = ids.len() as u16 | if stays { STAYS } else { 0 };
        self.entries[chosen] = Entry { key, packed };
    }

    /// The ids of a word of at most 32 bytes that is long or has many, if they are known.
    pub(super) fn wide(&self, word: &[u8]) -> Option<&[u16]> {
        let key = wide_key(word);
        let entry = &self.wide[self.wide_slot(key)];
        (entry.key == key).then(|| &entry.packed[..usize::from(entry.packed[15])])
    }

    /// Remembers a word of at most 32 bytes, if its ids fit.
    pub(super) fn enter_wide(&mut self, word: &[u8], ids: &[u16]) {
        if ids.len() < 16 {
            let key = wide_key(word);
            let mut packed = [0; 16];
            packed[..ids.len()].copy_from_slice(ids);
            packed[15] = ids.len() as u16;
            let slot = self.wide_slot(key);
            self.wide[slot] = WideEntry { key, packed };
        }
    }

    fn wide_slot(&self, [low, high]: [u128; 2]) -> usize {
        hash(low ^ high.rotate_left(32)) & (self.wide.len() - 1)
    }
}

/// How many ids an entry has.
#[inline]
pub(super) fn count(packed: &Packed) -> usize {
    usize::from(packed[7] as u8)
}
