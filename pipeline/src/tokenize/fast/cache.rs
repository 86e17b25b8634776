//! Cache of chunks and their ids.
//!
//! # Invariants
//! - Keys are whole chunks, so that a look-up never returns the ids of another chunk.
//! - Entries are evicted: an entry has two slots, and a new one takes one of them. That changes time, not ids.
//! - *Pinned* entries (the vocabulary itself) are evicted only if both slots are pinned.
//!
//! # Budget
//! 2^17 short entries (4 MiB) and 2^13 long ones (512 KiB) for each thread. Of the words of English novels 97 in 100
//! are found in their first slot, 2 in their second. A look-up prefetched 128 chunks ahead costs 3 ns.

use super::cache_slot::{Key, LongEntry, LongKey, ShortEntry, hash, long_hash, long_key};
use super::kernels::Kernels;

/// Number of slots of the two tables, as powers of two.
#[derive(Clone, Copy, Debug)]
pub(super) struct CacheSlots {
    pub(super) short_log2: u32,
    pub(super) long_log2: u32,
}

impl Default for CacheSlots {
    fn default() -> Self {
        Self { short_log2: 17, long_log2: 13 }
    }
}

/// Interval of swaps: an entry found in its second slot is sometimes moved to the first one, so that the more frequent
/// of two ends up there.
const SWAP_EVERY: u32 = 16;

/// Ids of chunks.
#[derive(Debug)]
pub(super) struct Cache {
    short: Box<[ShortEntry]>,
    /// One pin bit for each short entry.
    pinned: Box<[u64]>,
    long: Box<[LongEntry]>,
    seconds: u32,
}

impl Cache {
    pub(super) fn new(places: CacheSlots) -> Self {
        assert!(
            (1..32).contains(&places.short_log2) && places.long_log2 < 32,
            "tables that an index of 32 bits reaches"
        );
        Self {
            short: vec![ShortEntry::FREE; 1 << places.short_log2].into(),
            pinned: vec![0; (1_usize << places.short_log2).div_ceil(64)].into(),
            long: vec![LongEntry::FREE; 1 << places.long_log2].into(),
            seconds: 0,
        }
    }

    /// Returns the first slot of a key; its second slot is the other one of the same line.
    #[inline]
    pub(super) fn place(&self, key: Key) -> usize {
        index(hash(key), self.short.len())
    }

    /// Prefetches a slot.
    #[inline]
    pub(super) fn fetch(&self, place: usize) {
        super::kernels::fetch(&self.short, place);
    }

    /// Appends the ids of the first keys, up to one that is not in its first slot. Returns their number.
    #[inline]
    pub(super) fn append_known(&self, kernels: Kernels, keys: &[Key], places: &[usize], ids: &mut Vec<u32>) -> usize {
        kernels.append_known(&self.short, keys, places, ids)
    }

    /// Appends the ids of a key in its second slot. Returns false if it is not there.
    pub(super) fn append_second(&mut self, key: Key, place: usize, ids: &mut Vec<u32>) -> bool {
        let first = place;
        let second = place ^ 1;
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

    /// Inserts the ids of a key, if there are few enough. Returns true if it did.
    pub(super) fn insert(&mut self, key: Key, ids: &[u32]) -> bool {
        self.store(key, ids, false)
    }

    /// Inserts and pins the ids of a key.
    pub(super) fn insert_pinned(&mut self, key: Key, ids: &[u32]) {
        self.store(key, ids, true);
    }

    fn store(&mut self, key: Key, ids: &[u32], for_good: bool) -> bool {
        let Some(entry) = ShortEntry::new(key, ids) else { return false };
        let first = self.place(key);
        let places = [first, first ^ 1];
        let mine = places.into_iter().find(|&place| self.short[place].is(key));
        let free = || places.into_iter().find(|&place| self.short[place].is_free());
        let loose = || places.into_iter().find(|&place| !self.is_pinned(place));
        match mine.or_else(free).or_else(loose) {
            // Earlier pinned entries stay pinned.
            None if for_good => {}
            found => {
                let place = found.unwrap_or(first ^ 1);
                self.short[place] = entry;
                self.pin(place, for_good);
            }
        }
        true
    }

    /// Appends the ids of a longer chunk, or of one of more ids. Returns false if it is not cached.
    pub(super) fn append_long(&self, chunk: &[u8], ids: &mut Vec<u32>) -> bool {
        let Some(key) = long_key(chunk) else { return false };
        let entry = &self.long[self.long_place(key)];
        let is_known = entry.is(key);
        if is_known {
            ids.extend(entry.ids());
        }
        is_known
    }

    /// Inserts the ids of a longer chunk, if it is not too long.
    pub(super) fn insert_long(&mut self, chunk: &[u8], ids: &[u32]) {
        if let (Some(key), Some(entry)) = (long_key(chunk), LongEntry::new(chunk, ids)) {
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

/// Returns the first slot of a key with that hash in a table of `places` slots, a power of two.
#[inline]
#[expect(clippy::cast_possible_truncation, reason = "the bits that are left are enough for any table")]
fn index(hash: u64, places: usize) -> usize {
    hash as usize & (places - 1)
}

#[cfg(test)]
mod tests {
    use super::super::cache_slot::key_of;
    use super::*;

    /// Returns the cached ids of a word, from either slot.
    fn known(cache: &mut Cache, word: &str, kernels: Kernels) -> Option<Vec<u32>> {
        let key = key_of(word.as_bytes());
        let mut ids = Vec::new();
        let place = cache.place(key);
        let is_known = cache.append_known(kernels, &[key], &[place], &mut ids) == 1
            || cache.append_second(key, place, &mut ids)
            || cache.append_long(word.as_bytes(), &mut ids);
        is_known.then_some(ids)
    }

    #[test]
    fn cached_ids_are_correct_for_any_capacity() {
        for kernels in Kernels::available() {
            let mut cache = Cache::new(CacheSlots { short_log2: 3, long_log2: 1 });
            let words: Vec<String> = (0..200).map(|number| format!("w{number}")).collect();
            let ids = |number: usize| {
                (0..=number % 12).map(|id| u32::try_from(id * 70_000).expect("small")).collect::<Vec<_>>()
            };
            for _ in 0..3 {
                for (number, word) in words.iter().enumerate() {
                    let found = known(&mut cache, word, kernels);
                    assert!(found.is_none_or(|found| found == ids(number)), "{word} by {}", kernels.name());
                    let _ = cache.insert(key_of(word.as_bytes()), &ids(number));
                    cache.insert_long(word.as_bytes(), &ids(number));
                    let room = number % 12 < 10;
                    assert_eq!(known(&mut cache, word, kernels), room.then(|| ids(number)), "{word}");
                }
            }
        }
    }

    #[test]
    fn pinned_entries_are_not_evicted() {
        let mut cache = Cache::new(CacheSlots { short_log2: 6, long_log2: 1 });
        for number in 0..20 {
            cache.insert_pinned(key_of(format!("v{number}").as_bytes()), &[number]);
        }
        let kernels = Kernels::best();
        let before: Vec<bool> =
            (0..20).map(|number| known(&mut cache, &format!("v{number}"), kernels).is_some()).collect();
        assert!(before.iter().filter(|&&is_known| is_known).count() > 15, "{before:?}");
        for number in 0..1000 {
            assert!(cache.insert(key_of(format!("w{number}").as_bytes()), &[number]));
        }
        let kept = (0..20).filter(|number| known(&mut cache, &format!("v{number}"), kernels).is_some()).count();
        assert!(kept >= 12, "{kept} of 20");
    }
}
