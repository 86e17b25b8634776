//! Hash table of text counts, with all texts in one string.
//!
//! # Why not a map of strings
//! 1 GB of text needs some 200 million look-ups, of which 0.01 % to a few percent find a new word. A look-up takes some
//! 40 ns here and allocates nothing. The memory has a bound that depends on the texts alone. The order of the texts is
//! that of their arrival, so it is random if several workers count: readers of a tally must not depend on it.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// Maximum bytes of overhead per text, and number of copies of its bytes. Valid also while the table grows, with old
/// and new table in memory.
const ENTRY_BYTES: u64 = 72;
const COPIES: u64 = 3;

/// Maximum number of texts of one tally: a slot of the table has 32 bits for the number of one.
const TEXTS_MAX: usize = u32::MAX as usize - 1;

/// Counts of texts.
#[derive(Clone, Debug, Default)]
pub(super) struct WordCounts {
    /// Slots, a power of two, of which at most three in four are used: the upper half of the hash, and the number of
    /// the entry plus one; 0 for an empty slot.
    places: Vec<u64>,
    entries: Vec<Entry>,
    /// Concatenated texts.
    text: String,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    count: u64,
    /// End of the entry in `text`.
    end: usize,
}

impl WordCounts {
    /// Returns the number of distinct texts.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns the maximum bytes of memory, which depend on the texts alone, not on their order.
    pub(super) fn held(&self) -> u64 {
        self.entries.len() as u64 * ENTRY_BYTES + self.text.len() as u64 * COPIES
    }

    /// Returns every text with its count, in arbitrary order.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        (0..self.entries.len()).map(|number| (self.text(number), self.entries[number].count))
    }

    /// Adds `count` to the count of a text.
    ///
    /// # Panics
    /// If there are 2^32 distinct texts.
    #[inline]
    pub(super) fn add(&mut self, text: &str, count: u64) {
        if self.entries.len() * 4 >= self.places.len() * 3 {
            self.grow();
        }
        let hash = hash(text.as_bytes());
        let mask = self.places.len() - 1;
        let mut place = low(hash) & mask;
        let tag = hash >> 32;
        loop {
            let found = self.places[place];
            if found == 0 {
                return self.insert(place, tag, text, count);
            }
            let number = low(found & 0xFFFF_FFFF) - 1;
            if found >> 32 == tag && self.text(number) == text {
                self.entries[number].count += count;
                return;
            }
            place = (place + 1) & mask;
        }
    }

    /// Adds the counts of another tally.
    pub(super) fn absorb(&mut self, other: &Self) {
        other.iter().for_each(|(text, count)| self.add(text, count));
    }

    fn text(&self, number: usize) -> &str {
        let begin = number.checked_sub(1).map_or(0, |before| self.entries[before].end);
        &self.text[begin..self.entries[number].end]
    }

    #[cold]
    fn insert(&mut self, place: usize, tag: u64, text: &str, count: u64) {
        assert!(self.entries.len() < TEXTS_MAX, "a bound on memory comes before 2^32 texts");
        self.text.push_str(text);
        self.entries.push(Entry { count, end: self.text.len() });
        self.places[place] = tag << 32 | self.entries.len() as u64;
    }

    #[cold]
    fn grow(&mut self) {
        let places = (self.places.len() * 2).max(1024);
        self.places = Vec::new();
        self.places.resize(places, 0);
        for number in 0..self.entries.len() {
            let hash = hash(self.text(number).as_bytes());
            let mut place = low(hash) & (places - 1);
            while self.places[place] != 0 {
                place = (place + 1) & (places - 1);
            }
            self.places[place] = hash >> 32 << 32 | (number as u64 + 1);
        }
    }
}

/// Truncates a number to an index: a hash is masked anyway, and numbers of entries are small.
#[expect(clippy::cast_possible_truncation, reason = "said above")]
fn low(number: u64) -> usize {
    number as usize
}

/// Two odd numbers chosen at program start, so that no corpus can be constructed whose words all collide.
static SECRET: LazyLock<[u64; 2]> = LazyLock::new(|| {
    // Each `RandomState` has its own key, drawn from the operating system's randomness.
    [(); 2].map(|()| RandomState::new().build_hasher().finish() | 1)
});

/// Returns a hash of a text, by products of its words of 8 bytes.
#[inline]
fn hash(bytes: &[u8]) -> u64 {
    let [first, second] = *SECRET;
    let mix = |state: u64, word: u64| {
        let product = u128::from(state ^ word) * u128::from(second);
        (product >> 64) as u64 ^ low_half(product)
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let mut state = words.iter().fold(first ^ bytes.len() as u64, |state, word| mix(state, u64::from_le_bytes(*word)));
    let mut last = 0;
    for &byte in rest {
        last = last << 8 | u64::from(byte);
    }
    state = mix(state, last);
    mix(state, first)
}

#[expect(clippy::cast_possible_truncation, reason = "the lower half is what is wanted")]
fn low_half(product: u128) -> u64 {
    product as u64
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;

    fn counts(tally: &WordCounts) -> BTreeMap<String, u64> {
        let counts: BTreeMap<String, u64> = tally.iter().map(|(text, count)| (text.to_owned(), count)).collect();
        assert_eq!(counts.len(), tally.len(), "no text twice");
        counts
    }

    proptest! {
        #[test]
        fn word_counts_equal_those_of_a_map(texts in prop::collection::vec(("[a-c]{0,3}|.{0,20}", 1_u64..5), 0..200), cut in 0_usize..200) {
            let mut first = WordCounts::default();
            let mut second = WordCounts::default();
            let mut expected = BTreeMap::new();
            for (at, (text, count)) in texts.iter().enumerate() {
                if at < cut { first.add(text, *count) } else { second.add(text, *count) }
                *expected.entry(text.clone()).or_insert(0) += count;
            }
            first.absorb(&second);
            prop_assert_eq!(counts(&first), expected);
        }
    }

    #[test]
    fn many_texts_are_found_again_and_what_is_held_is_bounded() {
        let mut tally = WordCounts::default();
        for _ in 0..2 {
            (0..100_000).for_each(|number| tally.add(&format!("w{number}"), 1));
        }
        assert!(tally.iter().all(|(_, count)| count == 2) && tally.len() == 100_000);
        let taken = tally.places.capacity() * 8 + tally.entries.capacity() * 16 + tally.text.capacity();
        assert!(taken as u64 <= tally.held(), "{taken} of {}", tally.held());
    }
}
