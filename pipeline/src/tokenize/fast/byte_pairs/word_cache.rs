//! Ids of words that were merged before, found by the bytes of the words.
//!
//! # Idea
//! An entry is half a cache line: the 16 bytes of a word and up to seven ids, which are stored with one instruction,
//! however many they are. It lies in one of four slots next to each other, in the first of them as good as always. Words
//! of up to 32 bytes or 15 ids have a smaller table of their own, one slot for each.
//!
//! # Invariants
//! - A key is compared in full: a word padded with `0xFF`, which is no byte of UTF-8, so that no length is needed next to
//!   it. A longer word has the key `LONG`, and an empty slot the key `EMPTY`, which are no words.
//! - What is forgotten is merged again: it changes time, never ids. Words of the vocabulary, frequent ones by
//!   experience, are entered first and stay, as good as always.
#![expect(clippy::cast_possible_truncation, reason = "counts of at most 15 ids and slots of a table of less than 2^32")]
#![expect(clippy::inline_always, reason = "compiled again for the instructions of each kernel that calls them")]

use super::super::cache_slot::{KEY_BYTES, Key, LongKey, hash, key, key_of, long_hash, long_key};
use super::super::kernels::fetch;

/// Words that are looked up ahead.
pub(super) const AHEAD: usize = 128;

/// The slot in which a word is looked for first, and its key.
pub(super) type Place = (u32, Key);

/// The ids of an entry, and in the last place how many there are, and whether it is to stay.
pub(super) type Packed = [u16; 8];

/// Ids of an entry, at most.
const IDS_MAX: usize = 7;
const STAYS: u16 = 1 << 8;

/// The keys of an empty slot and of words that are longer than a key.
const EMPTY: Key = [0xFE, 0];
const LONG: Key = [u64::MAX; 2];

/// Slots that a word may lie in.
const WAYS: usize = 4;

/// Words that are remembered, and long ones: enough for all of a vocabulary of 50,000 and four times as many others, and
/// some 10 MB. Half as many take a quarter longer on novels.
pub(super) const SLOTS: (usize, usize) = (1 << 18, 1 << 15);

#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
struct Entry {
    key: Key,
    packed: Packed,
}

/// An entry of a longer word, or of more ids; the last of them is their number.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
struct WideEntry {
    key: LongKey,
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

/// The key of a word of at most 32 bytes.
fn wide_key(word: &[u8]) -> LongKey {
    long_key(word).unwrap_or_else(|| panic!("a key of {} bytes", word.len()))
}

/// Words of a batch, looked up one after the other while they are known.
#[derive(Debug)]
pub(super) struct Asked {
    keys: [Key; AHEAD],
    slots: [u32; AHEAD],
}

impl Asked {
    pub(super) const NONE: Self = Self { keys: [LONG; AHEAD], slots: [0; AHEAD] };

    /// The first slot and the key of a word.
    pub(super) fn place(&self, word: usize) -> Place {
        (self.slots[word], self.keys[word])
    }
}

impl Known {
    /// Of these many words, a power of two, and of these many long ones.
    pub(super) fn new((slots, wide_slots): (usize, usize)) -> Self {
        assert!(slots.is_power_of_two() && slots >= WAYS && wide_slots.is_power_of_two(), "{slots}, {wide_slots}");
        let entry = Entry { key: EMPTY, packed: [0; 8] };
        let wide = WideEntry { key: [EMPTY; 2], packed: [0; 16] };
        Self { entries: vec![entry; slots].into(), wide: vec![wide; wide_slots].into(), turn: 0 }
    }

    /// The first slot of a word, and its key.
    #[inline]
    pub(super) fn place(&self, word: &[u8]) -> Place {
        let key = key_of(word);
        (hash(key) as u32 & self.mask(), key)
    }

    #[inline(always)]
    fn mask(&self) -> u32 {
        self.entries.len() as u32 - 1
    }

    /// Makes the keys of the words between `borders`, at most `AHEAD` of them, and asks for the places where they would
    /// lie.
    #[inline(always)]
    pub(super) fn ask(&self, text: &[u8], borders: &[u16], asked: &mut Asked) {
        let (entries, mask) = (&*self.entries, self.mask());
        let (mut begin, ends) = (usize::from(borders[0]), &borders[1..]);
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

    /// Puts down the ids of words from `word` to `words`, up to one that does not lie in its first slot. Returns which
    /// that is, and how many ids there are.
    #[inline(always)]
    pub(super) fn put(&self, asked: &Asked, (mut word, words): (usize, usize), ids: &mut [u32]) -> (usize, usize) {
        let entries = &*self.entries;
        let (keys, slots) = (&asked.keys[..words], &asked.slots[..words]);
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

    /// The ids of a word that lies in its first slot.
    #[inline]
    pub(super) fn at(&self, (slot, key): Place) -> Option<&Packed> {
        let entry = &self.entries[slot as usize];
        (entry.key == key).then_some(&entry.packed)
    }

    /// The ids of a word that lies in another of its slots. One of sixteen that are found so changes places with the word
    /// in the first slot: where both are frequent, they take turns.
    pub(super) fn beside(&mut self, (slot, key): Place) -> Option<Packed> {
        let slot = slot as usize;
        let other = (1..WAYS).map(|way| slot ^ way).find(|&other| self.entries[other].key == key)?;
        let packed = self.entries[other].packed;
        self.turn += 1;
        if self.turn.is_multiple_of(16) {
            self.entries.swap(slot, other);
        }
        Some(packed)
    }

    /// Remembers a word of at most 16 bytes, if its ids fit: in a free slot, else instead of
    /// one that need not stay, else of any.
    pub(super) fn enter(&mut self, (slot, key): Place, ids: &[u16], stays: bool) {
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
        // Where all are to stay, one has to go: a frequent word would else be merged forever.
        let chosen = free.or_else(replaceable).unwrap_or(slot ^ turn);
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

    fn wide_slot(&self, key: LongKey) -> usize {
        long_hash(key) as usize & (self.wide.len() - 1)
    }
}

/// Puts down all ids that an entry has room for. Returns how many of them there are.
#[inline(always)]
pub(super) fn put(packed: &Packed, ids: &mut [u32]) -> usize {
    let ids: &mut [u32; 8] = ids.first_chunk_mut().expect("an entry beyond the window");
    *ids = packed.map(u32::from);
    usize::from(packed[7] as u8)
}
