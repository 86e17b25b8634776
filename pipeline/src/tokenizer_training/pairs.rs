//! Map from pairs of ids to values.

#![expect(clippy::disallowed_types, reason = "what is drained goes into a queue that has its own order")]

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// Two adjacent ids.
pub(super) type IdPair = (u32, u32);

/// Value for each pair that was accessed: initially the default.
#[derive(Debug)]
pub(super) struct Pairs<T>(HashMap<u64, T, BuildHasherDefault<PairHasher>>);

impl<T> Default for Pairs<T> {
    fn default() -> Self {
        Self(HashMap::default())
    }
}

impl<T: Default> Pairs<T> {
    /// Returns the value of a pair.
    pub(super) fn entry(&mut self, (left, right): IdPair) -> &mut T {
        self.0.entry(u64::from(left) << 32 | u64::from(right)).or_default()
    }

    /// Returns the number of pairs with a value.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Removes and returns all pairs with their values, in no order.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = (IdPair, T)> {
        let half = |key: u64| u32::try_from(key & 0xFFFF_FFFF).expect("32 bits");
        std::mem::take(&mut self.0).into_iter().map(move |(key, value)| ((half(key >> 32), half(key)), value))
    }
}

/// One multiplication: keys are two small numbers that an adversary cannot choose.
#[derive(Debug, Default)]
struct PairHasher(u64);

impl Hasher for PairHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_u64(u64::from(byte));
        }
    }

    fn write_u64(&mut self, key: u64) {
        const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
        let product = (self.0 ^ key).wrapping_mul(ODD);
        self.0 = product ^ product >> 32;
    }
}
