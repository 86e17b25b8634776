//! Chunks that were met before, with their ids.
//!
//! # Invariants
//! - Keys are whole chunks: what is found is what was learned, never something like it.
//! - A cache forgets: an entry has two places, and who comes takes one of them. That changes time, not ids.
//! - What is *pinned* (the vocabulary itself) gives way only where both places are pinned.
//!
//! # Budget
//! 2^17 short entries (4 MiB) and 2^13 long ones (512 KiB) for each thread. Of the words of English novels 97 in 100 are
//! found at their first place, 2 at their second, and what is asked for 128 chunks ahead costs 3 ns.

use super::cache_slot::{Key, Long, LongKey, Short, hash, long_hash, long_key};
use super::kernels::Kernels;

/// How many places the two tables have, as powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) short_log2: u32,
    pub(super) long_log2: u32,
}

impl Default for Places {
    fn default() -> Self {
        Self { short_log2: 17, long_log2: 13 }
    }
}

/// An entry that is found at its second place changes it for the first one now and then: the more frequent of two ends up
/// there.
const SWAP_EVERY: u32 = 16;

/// The ids of chunks.
#[derive(Debug)]
pub(super) struct Cache {
    short: Box<[Short]>,
    /// A bit for each short entry.
    pinned: Box<[u64]>,
    long: Box<[Long]>,
    seconds: u32,
}

impl Cache {
    pub(super) fn new(places: Places) -> Self {
        assert!(
            (1..32).contains(&places.short_log2) && places.long_log2 < 32,
            "tables that an index of 32 bits reaches"
        );
        Self {
            short: vec![Short::FREE; 1 << places.short_log2].into(),
            pinned: vec![0; (1_usize << places.short_log2).div_ceil(64)].into(),
            long: vec![Long::FREE; 1 << places.long_log2].into(),
            seconds: 0,
        }
    }

    /// Where a key is looked for first; its second place is the other one of the same line.
    #[inline]
    pub(super) fn place(&self, key: Key) -> usize {
        index(hash(key), self.short.len())
    }

    /// Brings a place near, for a look at it soon.
    #[inline]
    pub(super) fn fetch(&self, place: usize) {
        super::kernels::fetch(&self.short, place);
    }

    /// Appends the ids of the first keys, up to one that is not at its first place. Returns how many were.
    #[inline]
    pub(super) fn append_known(&self, kernels: Kernels, keys: &[Key], places: &[usize], ids: &mut Vec<u32>) -> usize {
        kernels.append_known(&self.short, keys, places, ids)
    }

    /// Appends the ids of a key that is at its second place, and says whether it is.
    pub(super) fn append_second(&mut self, key: Key, place: usize, ids: &mut Vec<u32>) -> bool {
        let (first, second) = (place, place ^ 1);
        if !self.short[second].is(key) {
            return false;
        }
        ids.extend(self.short[second].ids());
        self.seconds = self.seconds.wrapping_add(1);
        if self.seconds.is_multiple_of(SWAP_EVERY) {
            self.short.swap(first, second);
            let pins = [self.is_pinned(first), self.is_pinned(second)];
            self.pin(first, pins[1]);
            self.pin(second, pins[0]);
        }
        true
    }

    /// Keeps the ids of a key, if there are few enough, and says whether there are.
    pub(super) fn learn(&mut self, key: Key, ids: &[u32]) -> bool {
        self.keep(key, ids, false)
    }

    /// The same for good, or nearly so.
    pub(super) fn learn_for_good(&mut self, key: Key, ids: &[u32]) {
        self.keep(key, ids, true);
    }

    fn keep(&mut self, key: Key, ids: &[u32], for_good: bool) -> bool {
        let Some(entry) = Short::new(key, ids) else { return false };
        let first = self.place(key);
        let places = [first, first ^ 1];
        let mine = places.into_iter().find(|&place| self.short[place].is(key));
        let free = || places.into_iter().find(|&place| self.short[place].is_free());
        let loose = || places.into_iter().find(|&place| !self.is_pinned(place));
        match mine.or_else(free).or_else(loose) {
            // Whoever came for good before stays for good.
            None if for_good => {}
            found => {
                let place = found.unwrap_or(first ^ 1);
                self.short[place] = entry;
                self.pin(place, for_good);
            }
        }
        true
    }

    /// Appends the ids of a longer chunk, or of one of more ids, and says whether they are known.
    pub(super) fn append_long(&self, chunk: &[u8], ids: &mut Vec<u32>) -> bool {
        let Some(key) = long_key(chunk) else { return false };
        let entry = &self.long[self.long_place(key)];
        let is_known = entry.is(key);
        if is_known {
            ids.extend(entry.ids());
        }
        is_known
    }

    /// Keeps the ids of a longer chunk, if it is not too long.
    pub(super) fn learn_long(&mut self, chunk: &[u8], ids: &[u32]) {
        if let (Some(key), Some(entry)) = (long_key(chunk), Long::new(chunk, ids)) {
            let place = self.long_place(key);
            self.long[place] = entry;
        }
    }

    fn long_place(&self, key: LongKey) -> usize {
        index(long_hash(key), self.long.len())
    }

    fn is_pinned(&self, place: usize) -> bool {
        self.pinned[place / 64] >> (place % 64) & 1 == 1
    }

    fn pin(&mut self, place: usize, pinned: bool) {
        let bit = 1 << (place % 64);
        self.pinned[place / 64] = self.pinned[place / 64] & !bit | if pinned { bit } else { 0 };
    }
}

/// Where a key of that hash is looked for first in a table of that many places, a power of two.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the bits that are left are enough for any table")]
fn index(hash: u64, places: usize) -> usize {
    hash as usize & (places - 1)
}

#[cfg(test)]
mod tests {
    use super::super::cache_slot::key_of;
    use super::*;

    /// What is known of a word, by any place.
    fn known(cache: &mut Cache, word: &str, kernels: Kernels) -> Option<Vec<u32>> {
        let (key, mut ids) = (key_of(word.as_bytes()), Vec::new());
        let place = cache.place(key);
        let is_known = cache.append_known(kernels, &[key], &[place], &mut ids) == 1
            || cache.append_second(key, place, &mut ids)
            || cache.append_long(word.as_bytes(), &mut ids);
        is_known.then_some(ids)
    }

    #[test]
    fn what_is_known_is_right_however_few_places_there_are() {
        for kernels in Kernels::all_here() {
            let mut cache = Cache::new(Places { short_log2: 3, long_log2: 1 });
            let words: Vec<String> = (0..200).map(|number| format!("w{number}")).collect();
            let ids = |number: usize| {
                (0..=number % 12).map(|id| u32::try_from(id * 70_000).expect("small")).collect::<Vec<_>>()
            };
            for _ in 0..3 {
                for (number, word) in words.iter().enumerate() {
                    let found = known(&mut cache, word, kernels);
                    assert!(found.is_none_or(|found| found == ids(number)), "{word} by {}", kernels.name());
                    let _ = cache.learn(key_of(word.as_bytes()), &ids(number));
                    cache.learn_long(word.as_bytes(), &ids(number));
                    let room = number % 12 < 10;
                    assert_eq!(known(&mut cache, word, kernels), room.then(|| ids(number)), "{word}");
                }
            }
        }
    }

    #[test]
    fn what_is_kept_for_good_is_not_driven_out_by_others() {
        let mut cache = Cache::new(Places { short_log2: 6, long_log2: 1 });
        for number in 0..20 {
            cache.learn_for_good(key_of(format!("v{number}").as_bytes()), &[number]);
        }
        let kernels = Kernels::best();
        let before: Vec<bool> =
            (0..20).map(|number| known(&mut cache, &format!("v{number}"), kernels).is_some()).collect();
        assert!(before.iter().filter(|&&is_known| is_known).count() > 15, "{before:?}");
        for number in 0..1000 {
            assert!(cache.learn(key_of(format!("w{number}").as_bytes()), &[number]));
        }
        let kept = (0..20).filter(|number| known(&mut cache, &format!("v{number}"), kernels).is_some()).count();
        assert!(kept >= 12, "{kept} of 20");
    }
}
