//! Conversion of pre-tokens to ids: by the cache, or by merging.
//!
//! # Idea
//! The table of known words is larger than the nearer caches, so a look-up has two steps, 128 words apart. The first
//! computes the key and prefetches the cache line; the second reads it. A look-up has one branch: is it this word? In
//! natural text, 99 of 100 words are.
//!
//! A long word, or one that ends in a Chinese character, is first split at positions that no merge can cross: in texts
//! without spaces such pieces recur, whole words do not.
//!
//! # Budget
//! 3 to 4 ns per token.
#![expect(clippy::inline_always, reason = "compiled again for the instructions of each kernel that calls it")]

use super::super::cache_slot::{KEY_BYTES, LONG_BYTES};
use super::super::kernels::WINDOW;
use super::merges::{MergeBuffers, Merges};
use super::word_cache::{AHEAD, Lookups, SlotKey, WordCache, put};

/// Buffer for the ids of a window, at most one per byte, and for an entry that ends with them.
pub(in super::super) type Ids = [u32; WINDOW + 16];

/// Word cache of a thread, with its buffers.
#[derive(Debug)]
pub(in super::super) struct WordEncoder {
    known: WordCache,
    room: MergeBuffers,
    /// Ids of a merged word.
    merged: Vec<u16>,
    lookups: Lookups,
}

impl WordEncoder {
    pub(super) fn new(known: WordCache) -> Self {
        Self { known, room: MergeBuffers::default(), merged: Vec::new(), lookups: Lookups::NONE }
    }

    /// Returns the cached words, as the initial cache of other workers.
    pub(super) fn into_known(self) -> WordCache {
        self.known
    }

    /// Writes the ids of the words between `borders`. Returns their number.
    #[inline(always)]
    pub(in super::super) fn look_up(&mut self, merges: &Merges, text: &[u8], borders: &[u16], ids: &mut Ids) -> usize {
        let mut at = 0;
        let mut borders = borders;
        while borders.len() > 1 {
            let batch = &borders[..borders.len().min(AHEAD + 1)];
            let words = batch.len() - 1;
            self.known.look_up(text, batch, &mut self.lookups);
            let mut word = 0;
            loop {
                let (unknown, count) = self.known.put(&self.lookups, word..words, &mut ids[at..]);
                at += count;
                if unknown == words {
                    break;
                }
                let [begin, end] = [batch[unknown], batch[unknown + 1]].map(usize::from);
                at += self.look_further(merges, self.lookups.place(unknown), &text[begin..end], &mut ids[at..]);
                word = unknown + 1;
            }
            borders = &borders[words..];
        }
        at
    }

    /// Writes the ids of a word that is not in its first slot. Returns their number.
    #[cold]
    #[inline(never)]
    fn look_further(&mut self, merges: &Merges, place: SlotKey, word: &[u8], ids: &mut [u32]) -> usize {
        if word.len() <= KEY_BYTES
            && let Some(packed) = self.known.other_slot(place)
        {
            return put(&packed, ids);
        }
        // Longer words are split if possible, and are not cached whole.
        if (word.len() > LONG_BYTES || ends_in_chinese(word))
            && let Some(count) = self.in_pieces(merges, word, ids)
        {
            return count;
        }
        self.whole(merges, place, word, ids)
    }

    /// Writes the ids of a word without splitting it. Returns their number.
    fn whole(&mut self, merges: &Merges, place: SlotKey, word: &[u8], ids: &mut [u32]) -> usize {
        // Short words have many ids if they are not of Latin letters.
        let has_many = word.len() > KEY_BYTES || word.len() > 7 && !word[word.len() - 1].is_ascii();
        let may_be_wide = has_many && word.len() <= LONG_BYTES;
        if may_be_wide && let Some(known) = self.known.wide(word) {
            return to_u32(known, ids);
        }
        self.merged.clear();
        merges.split(word, &mut self.room, &mut self.merged);
        if may_be_wide && (word.len() > KEY_BYTES || self.merged.len() > 7) {
            self.known.enter_wide(word, &self.merged);
        } else if word.len() <= KEY_BYTES {
            self.known.insert(place, &self.merged, false);
        }
        to_u32(&self.merged, ids)
    }

    /// Writes the ids of a word piece by piece, if there is a position that no merge crosses.
    fn in_pieces(&mut self, merges: &Merges, word: &[u8], ids: &mut [u32]) -> Option<usize> {
        let mut begin = 0;
        let mut at = 0;
        for end in 1..word.len() {
            if word[end] >= 0xC0 && !merges.joins(word[end - 1], word[end]) {
                at += self.piece(merges, &word[begin..end], &mut ids[at..]);
                begin = end;
            }
        }
        (begin > 0).then(|| at + self.piece(merges, &word[begin..], &mut ids[at..]))
    }

    fn piece(&mut self, merges: &Merges, piece: &[u8], ids: &mut [u32]) -> usize {
        let place = self.known.place(piece);
        if piece.len() <= KEY_BYTES {
            if let Some(packed) = self.known.at(place) {
                return put(packed, ids);
            }
            if let Some(packed) = self.known.other_slot(place) {
                return put(&packed, ids);
            }
        }
        self.whole(merges, place, piece, ids)
    }

    /// Appends the ids of a word of any length.
    pub(super) fn append(&mut self, merges: &Merges, word: &[u8], ids: &mut Vec<u32>) {
        self.merged.clear();
        merges.split(word, &mut self.room, &mut self.merged);
        ids.extend(self.merged.iter().map(|&id| u32::from(id)));
    }

    /// Inserts and pins an expected word.
    pub(super) fn expect(&mut self, merges: &Merges, word: &[u8]) {
        let place = self.known.place(word);
        if word.len() <= KEY_BYTES && self.known.at(place).is_none() && self.known.other_slot(place).is_none() {
            self.merged.clear();
            merges.split(word, &mut self.room, &mut self.merged);
            self.known.insert(place, &self.merged, true);
        }
    }
}

/// Returns true if a word ends in a character of U+4000 to U+9FFF.
fn ends_in_chinese(word: &[u8]) -> bool {
    word.len() >= 9 && (0xE4..=0xE9).contains(&word[word.len() - 3])
}

fn to_u32(merged: &[u16], ids: &mut [u32]) -> usize {
    for (id, &merged) in ids.iter_mut().zip(merged) {
        *id = merged.into();
    }
    merged.len()
}
