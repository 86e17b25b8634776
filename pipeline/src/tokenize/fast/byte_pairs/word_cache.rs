//! Cache of ids of merged words, with the bytes of the words as keys.
//!
//! # Idea
//! An entry is half a cache line: the 16 bytes of a word and up to seven ids, which are stored with one instruction for
//! any number. It is in one of four adjacent slots, nearly always in the first. Words of up to 32 bytes or 15 ids have
//! a separate smaller table, with one slot for each.
//!
//! # Invariants
//! - A key is compared in full. It is a word padded with `0xFF`, which never occurs in UTF-8, so that no length is
//!   stored. A longer word has the key `LONG`, and an empty slot the key `EMPTY`, which are no words.
//! - An evicted word is merged again: it changes time, never ids. Words of the vocabulary, frequent ones first, are
//!   inserted at the start and are evicted only in rare cases.
#![expect(clippy::cast_possible_truncation, reason = "counts of at most 15 ids and slots of a table of less than 2^32")]
#![expect(clippy::inline_always, reason = "compiled again for the instructions of each kernel that calls them")]

use std::ops::Range;

use super::super::cache_slot::{KEY_BYTES, Key, LongKey, hash, key, key_of, long_hash, long_key};
use super::super::kernels::fetch;

/// Number of words that are prefetched.
pub(super) const AHEAD: usize = 128;

/// First slot of a word, and its key.
pub(super) type SlotKey = (u32, Key);

/// Ids of an entry. The last element contains their number and the pin flag.
pub(super) type Packed = [u16; 8];

/// Maximum ids of an entry.
const IDS_MAX: usize = 7;
const STAYS: u16 = 1 << 8;

/// Keys of an empty slot and of words that are longer than a key.
const EMPTY: Key = [0xFE, 0];
const LONG: Key = [u64::MAX; 2];

/// Number of slots that a word may be in.
const WAYS: usize = 4;

/// Slots for words and for long words: enough for a vocabulary of 50,000 and four times as many others, in some 10 MB.
/// Half as many take 25 % longer on novels.
pub(super) const SLOTS: (usize, usize) = (1 << 18, 1 << 15);

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Entry {
    key: Key,
    packed: Packed,
}

/// Entry of a longer word, or of more ids; the last element is their number.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct WideEntry {
    key: LongKey,
    packed: [u16; 16],
}

/// Cache of a thread.
#[derive(Clone, Debug)]
pub(super) struct WordCache {
    entries: Box<[Entry]>,
    wide: Box<[WideEntry]>,
    /// Event counter for actions on every n-th event.
    turn: usize,
}

/// Returns the key of a word of at most 32 bytes.
fn wide_key(word: &[u8]) -> LongKey {
    long_key(word).unwrap_or_else(|| panic!("a key of {} bytes", word.len()))
}

/// Batch of words that are looked up in order while they are known.
#[derive(Debug)]
pub(super) struct Lookups {
    keys: [Key; AHEAD],
    slots: [u32; AHEAD],
}

impl Lookups {
    pub(super) const NONE: Self = Self { keys: [LONG; AHEAD], slots: [0; AHEAD] };

    /// Returns the first slot and the key of a word.
    pub(super) fn place(&self, word: usize) -> SlotKey {
        (self.slots[word], self.keys[word])
    }
}

impl WordCache {
    /// Creates a cache for these numbers of words and of long words, powers of two.
    pub(super) fn new(slots: usize, wide_slots: usize) -> Self {
        assert!(slots.is_power_of_two() && slots >= WAYS && wide_slots.is_power_of_two(), "{slots}, {wide_slots}");
        let entry = Entry { key: EMPTY, packed: [0; 8] };
        let wide = WideEntry { key: [EMPTY; 2], packed: [0; 16] };
        Self { entries: vec![entry; slots].into(), wide: vec![wide; wide_slots].into(), turn: 0 }
    }

    /// Returns the first slot of a word, and its key.
    #[inline]
    pub(super) fn place(&self, word: &[u8]) -> SlotKey {
        let key = key_of(word);
        (hash(key) as u32 & self.mask(), key)
    }

    #[inline(always)]
    fn mask(&self) -> u32 {
        self.entries.len() as u32 - 1
    }

    /// Computes the keys of the words between `borders`, at most `AHEAD` of them, and prefetches their slots.
    #[inline(always)]
    pub(super) fn look_up(&self, text: &[u8], borders: &[u16], asked: &mut Lookups) {
        let entries = &*self.entries;
        let mask = self.mask();
        let mut begin = usize::from(borders[0]);
        let ends = &borders[1..];
        for ((&end, asked_key), asked_slot) in ends.iter().zip(&mut asked.keys).zip(&mut asked.slots) {
            let end = usize::from(end);
            let key = match (text[begin..].first_chunk(), text.last_chunk()) {
                (Some(bytes), _) => key(bytes, end - begin),
                (None, Some(last)) => {
                    let behind = u128::from_le_bytes(*last) >> (8 * (begin + KEY_BYTES - text.len()));
                    key(&behind.to_le_bytes(), end - begin)
                }
                (None, None) => key_of(&text[begin..end]),
            };
            let slot = hash(key) as u32 & mask;
            fetch(entries, slot as usize);
            (*asked_key, *asked_slot, begin) = (key, slot, end);
        }
    }

    /// Writes the ids of the words in `range`, up to one that is not in its first slot. Returns the index of
    /// that word, and the number of ids.
    #[inline(always)]
    pub(super) fn put(&self, asked: &Lookups, range: Range<usize>, ids: &mut [u32]) -> (usize, usize) {
        let entries = &*self.entries;
        let Range { start: mut word, end: words } = range;
        let keys = &asked.keys[..words];
        let slots = &asked.slots[..words];
        let mut at = 0;
        while word < words {
            let entry = &entries[slots[word] as usize];
            if entry.key != keys[word] {
                break;
            }
            at += put(&entry.packed, &mut ids[at..]);
            word += 1;
        }
        (word, at)
    }

    /// Returns the ids of a word in its first slot.
    #[inline]
    pub(super) fn at(&self, (slot, key): SlotKey) -> Option<&Packed> {
        let entry = &self.entries[slot as usize];
        (entry.key == key).then_some(&entry.packed)
    }

    /// Returns the ids of a word in another of its slots. Every sixteenth such word is swapped with the word in the
    /// first slot: if both are frequent, they alternate.
    pub(super) fn other_slot(&mut self, (slot, key): SlotKey) -> Option<Packed> {
        let slot = slot as usize;
        let other = (1..WAYS).map(|way| slot ^ way).find(|&other| self.entries[other].key == key)?;
        let packed = self.entries[other].packed;
        self.turn += 1;
        if self.turn.is_multiple_of(16) {
            self.entries.swap(slot, other);
        }
        Some(packed)
    }

    /// Inserts a word of at most 16 bytes, if its ids fit: in a free slot, else in place of an unpinned word, else of
    /// any.
    pub(super) fn insert(&mut self, (slot, key): SlotKey, ids: &[u16], stays: bool) {
        let slot = slot as usize;
        assert_ne!(key, LONG, "a word that is longer than its key");
        if ids.len() > IDS_MAX {
            return;
        }
        self.turn += 1;
        let ways = || (0..WAYS).map(|way| slot ^ way);
        let free = ways().find(|&slot| self.entries[slot].key == EMPTY);
        let turn = self.turn % WAYS;
        let replaceable = || ways().map(|slot| slot ^ turn).find(|&slot| self.entries[slot].packed[7] & STAYS == 0);
        // If all slots are pinned, one is evicted: otherwise a frequent word would be merged at every occurrence.
        let chosen = free.or_else(replaceable).unwrap_or(slot ^ turn);
        let mut packed = [0; 8];
        packed[..ids.len()].copy_from_slice(ids);
        packed[7] = ids.len() as u16 | if stays { STAYS } else { 0 };
        self.entries[chosen] = Entry { key, packed };
    }

    /// Returns the ids of a word of at most 32 bytes that is long or has many ids, if it is cached.
    pub(super) fn wide(&self, word: &[u8]) -> Option<&[u16]> {
        let key = wide_key(word);
        let entry = &self.wide[self.wide_slot(key)];
        (entry.key == key).then(|| &entry.packed[..usize::from(entry.packed[15])])
    }

    /// Inserts a word of at most 32 bytes, if its ids fit.
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

    fn wide_slot(&self, key: LongKey) -> usize {
        long_hash(key) as usize & (self.wide.len() - 1)
    }
}

/// Writes all id fields of an entry. Returns the number of valid ids.
#[inline(always)]
pub(super) fn put(packed: &Packed, ids: &mut [u32]) -> usize {
    let ids: &mut [u32; 8] = ids.first_chunk_mut().expect("an entry beyond the window");
    *ids = packed.map(u32::from);
    usize::from(packed[7] as u8)
}
