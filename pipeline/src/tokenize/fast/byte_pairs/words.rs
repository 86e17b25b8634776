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
#![expect(clippy::inline_always, reason = "compiled again for the instructions of each kernel that calls it")]

use super::super::cache_slot::{KEY_BYTES, LONG_BYTES};
use super::super::kernels::WINDOW;
use super::merges::{MemoryBudget, Merges};
use super::word_cache::{AHEAD, Asked, Known, Place, put};

/// Room for the ids of a window, of which there are no more than bytes, and for an entry that ends with them.
pub(in super::super) type Ids = [u32; WINDOW + 16];

/// What the words of a thread are looked up in.
#[derive(Debug)]
pub(in super::super) struct Words {
    known: Known,
    room: MemoryBudget,
    /// The ids of a word that was merged.
    merged: Vec<u16>,
    asked: Asked,
}

impl Words {
    pub(super) fn new(known: Known) -> Self {
        Self { known, room: MemoryBudget::default(), merged: Vec::new(), asked: Asked::NONE }
    }

    /// What was learned, for others to begin with.
    pub(super) fn into_known(self) -> Known {
        self.known
    }

    /// Puts down the ids of the words that `borders` lie between. Returns how many there are.
    #[inline(always)]
    pub(in super::super) fn look_up(&mut self, merges: &Merges, text: &[u8], borders: &[u16], ids: &mut Ids) -> usize {
        let (mut at, mut borders) = (0, borders);
        while borders.len() > 1 {
            let batch = &borders[..borders.len().min(AHEAD + 1)];
            let words = batch.len() - 1;
            self.known.ask(text, batch, &mut self.asked);
            let mut word = 0;
            loop {
                let (unknown, count) = self.known.put(&self.asked, (word, words), &mut ids[at..]);
                at += count;
                if unknown == words {
                    break;
                }
                let [begin, end] = [batch[unknown], batch[unknown + 1]].map(usize::from);
                at += self.look_further(merges, self.asked.place(unknown), &text[begin..end], &mut ids[at..]);
                word = unknown + 1;
            }
            borders = &borders[words..];
        }
        at
    }

    /// Puts down the ids of a word that does not lie where it should. Returns how many there are.
    #[cold]
    #[inline(never)]
    fn look_further(&mut self, merges: &Merges, place: Place, word: &[u8], ids: &mut [u32]) -> usize {
        if word.len() <= KEY_BYTES
            && let Some(packed) = self.known.beside(place)
        {
            return put(&packed, ids);
        }
        // Longer words are taken apart where they can be, and are not remembered whole.
        if (word.len() > LONG_BYTES || ends_in_chinese(word))
            && let Some(count) = self.in_pieces(merges, word, ids)
        {
            return count;
        }
        self.whole(merges, place, word, ids)
    }

    /// As above, and the word is not taken apart.
    fn whole(&mut self, merges: &Merges, place: Place, word: &[u8], ids: &mut [u32]) -> usize {
        // Words of few bytes have many ids where they are not of Latin letters.
        let has_many = word.len() > KEY_BYTES || word.len() > 7 && !word[word.len() - 1].is_ascii();
        let may_be_wide = has_many && word.len() <= LONG_BYTES;
        if may_be_wide && let Some(known) = self.known.wide(word) {
            return widen(known, ids);
        }
        self.merged.clear();
        merges.split(word, &mut self.room, &mut self.merged);
        if may_be_wide && (word.len() > KEY_BYTES || self.merged.len() > 7) {
            self.known.enter_wide(word, &self.merged);
        } else if word.len() <= KEY_BYTES {
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
        let place = self.known.place(piece);
        if piece.len() <= KEY_BYTES {
            if let Some(packed) = self.known.at(place) {
                return put(packed, ids);
            }
            if let Some(packed) = self.known.beside(place) {
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

    /// Remembers for good a word that is to be expected.
    pub(super) fn expect(&mut self, merges: &Merges, word: &[u8]) {
        let place = self.known.place(word);
        if word.len() <= KEY_BYTES && self.known.at(place).is_none() && self.known.beside(place).is_none() {
            self.merged.clear();
            merges.split(word, &mut self.room, &mut self.merged);
            self.known.enter(place, &self.merged, true);
        }
    }
}

/// Does a word end in a character of U+4000 to U+9FFF?
fn ends_in_chinese(word: &[u8]) -> bool {
    word.len() >= 9 && (0xE4..=0xE9).contains(&word[word.len() - 3])
}

fn widen(merged: &[u16], ids: &mut [u32]) -> usize {
    for (id, &merged) in ids.iter_mut().zip(merged) {
        *id = merged.into();
    }
    merged.len()
}
