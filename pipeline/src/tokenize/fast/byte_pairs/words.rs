//! Pre-tokens to ids: looked up if they are known, else merged.
//!
//! # Idea
//! The table of known words is larger than the nearer caches, so a word is looked up in two steps, 128 words apart: its
//! key is made and the line that it would lie in is asked for; when its turn comes, the line is there. A step has one
//! branch: is this the word? Of the words of natural text, 99 in 100 are.
//!
//! Where no merge can cross a place of a long word, or of one that ends in a Chinese character, it is taken apart there
//! first: texts that are written without spaces are made of pieces that come again, not of words that do.
//!
//! # Budget
//! 3 to 4 ns per token.

use super::known::{KEY, Known, Packed, count, key, key_of};
use super::merges::{Merges, Room};
use super::starts::WINDOW;

/// Words that are looked up ahead.
const AHEAD: usize = 128;

/// Longer words are taken apart where they can be, and are not remembered whole.
const WIDE: usize = 2 * KEY;

/// Room for the ids of a window, of which there are no more than bytes, and for an entry that ends with them.
pub(in super::super) type Ids = [u32; WINDOW + 16];

/// What the words of a thread are looked up in.
#[derive(Debug)]
pub(in super::super) struct Words {
    known: Known,
    room: Room,
    /// The ids of a word that was merged.
    merged: Vec<u16>,
    keys: [u128; AHEAD],
    slots: [usize; AHEAD],
}

impl Words {
    pub(super) fn new(known: Known) -> Self {
        Self { known, room: Room::default(), merged: Vec::new(), keys: [0; AHEAD], slots: [0; AHEAD] }
    }

    /// What was learnt, for others to begin with.
    pub(super) fn into_known(self) -> Known {
        self.known
    }

    /// Puts down the ids of the words that `borders` lie between. Returns how many there are.
    #[inline(always)]
    pub(in super::super) fn look_up(&mut self, merges: &Merges, text: &[u8], borders: &[u16], ids: &mut Ids) -> usize {
        let mut at = 0;
        let mut borders = borders;
        while borders.len() > 1 {
            let batch = &borders[..borders.len().min(AHEAD + 1)];
            self.ask(text, batch);
            for (word, border) in batch.windows(2).enumerate() {
                let (key, slot) = (self.keys[word], self.slots[word]);
                if let Some(packed) = self.known.at(slot, key) {
                    at += put(packed, &mut ids[at..]);
                } else {
                    let word = &text[usize::from(border[0])..usize::from(border[1])];
                    at += self.look_further(merges, (slot, key), word, &mut ids[at..]);
                }
            }
            borders = &borders[batch.len() - 1..];
        }
        at
    }

    /// Makes the keys of some words, and asks for the places where they would lie.
    #[inline(always)]
    fn ask(&mut self, text: &[u8], borders: &[u16]) {
        for (word, border) in borders.windows(2).enumerate() {
            let (begin, end) = (usize::from(border[0]), usize::from(border[1]));
            let key = match text[begin..].first_chunk::<KEY>() {
                Some(&bytes) => key(bytes, end - begin),
                None => key_of(&text[begin..end]),
            };
            let slot = self.known.slot(key);
            self.known.fetch(slot);
            (self.keys[word], self.slots[word]) = (key, slot);
        }
    }

    /// Puts down the ids of a word that does not lie where it should. Returns how many there are.
    #[cold]
    #[inline(never)]
    fn look_further(&mut self, merges: &Merges, place: (usize, u128), word: &[u8], ids: &mut [u32]) -> usize {
        if word.len() <= KEY {
            if let Some(packed) = self.known.beside(place.0, place.1) {
                return put(&packed, ids);
            }
        }
        if word.len() > WIDE || ends_in_chinese(word) {
            if let Some(count) = self.in_pieces(merges, word, ids) {
                return count;
            }
        }
        self.whole(merges, place, word, ids)
    }

    /// As above, and the word is not taken apart.
    fn whole(&mut self, merges: &Merges, place: (usize, u128), word: &[u8], ids: &mut [u32]) -> usize {
        // Words of few bytes have many ids where they are not of Latin letters.
        let has_many = word.len() > KEY || word.len() > 7 && !word[word.len() - 1].is_ascii();
        let may_be_wide = has_many && word.len() <= WIDE;
        if may_be_wide && let Some(known) = self.known.wide(word) {
            return widen(known, ids);
        }
        self.merged.clear();
        merges.split(word, &mut self.room, &mut self.merged);
        if may_be_wide && (word.len() > KEY || self.merged.len() > 7) {
            self.known.enter_wide(word, &self.merged);
        } else if word.len() <= KEY {
            self.known.enter(place, &self.merged, false);
        }
        widen(&self.merged, ids)
    }

    /// Puts down the ids of a word piece by piece, if there is a place that no merge crosses.
    fn in_pieces(&mut self, merges: &Merges, word: &[u8], ids: &mut [u32]) -> Option<usize> {
        let (mut begin, mut at) = (0, 0);
        for end in 1..word.len() {
            if word[end] >= 0xC0 && !merges.joins(word[end - 1], word[end]) {
                at += self.piece(merges, &word[begin..end], &mut ids[at..]);
                begin = end;
            }
        }
        (begin > 0).then(|| at + self.piece(merges, &word[begin..], &mut ids[at..]))
    }

    fn piece(&mut self, merges: &Merges, piece: &[u8], ids: &mut [u32]) -> usize {
        let key = key_of(piece);
        let slot = self.known.slot(key);
        if piece.len() <= KEY {
            if let Some(packed) = self.known.at(slot, key) {
                return put(packed, ids);
            }
            if let Some(packed) = self.known.beside(slot, key) {
                return put(&packed, ids);
            }
        }
        self.whole(merges, (slot, key), piece, ids)
    }

    /// Appends the ids of a word of any length.
    pub(super) fn append(&mut self, merges: &Merges, word: &[u8], ids: &mut Vec<u32>) {
        self.merged.clear();
        merges.split(word, &mut self.room, &mut self.merged);
        ids.extend(self.merged.iter().map(|&id| u32::from(id)));
    }

    /// Remembers for good a word that is to be expected.
    pub(super) fn expect(&mut self, merges: &Merges, word: &[u8]) {
        let key = key_of(word);
        let slot = self.known.slot(key);
        if word.len() <= KEY && self.known.at(slot, key).is_none() && self.known.beside(slot, key).is_none() {
            self.merged.clear();
            merges.split(word, &mut self.room, &mut self.merged);
            self.known.enter((slot, key), &self.merged, true);
        }
    }
}

/// Does a word end in a character of U+4000 to U+9FFF?
fn ends_in_chinese(word: &[u8]) -> bool {
    word.len() >= 9 && (0xE4..=0xE9).contains(&word[word.len() - 3])
}

/// Puts down all ids that an entry has room for. Returns how many of them there are.
#[inline(always)]
fn put(packed: &Packed, ids: &mut [u32]) -> usize {
    let ids: &mut [u32; 8] = ids.first_chunk_mut().expect("an entry beyond the window");
    *ids = packed.map(u32::from);
    count(packed)
}

fn widen(merged: &[u16], ids: &mut [u32]) -> usize {
    for (id, &merged) in ids.iter_mut().zip(merged) {
        *id = merged.into();
    }
    merged.len()
}
