//! Set of document numbers, one bit each.

/// Set of numbers below a limit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BitSet(Vec<u64>);

impl BitSet {
    /// Creates an empty set of numbers below `limit`.
    pub fn new(limit: u32) -> Self {
        Self(vec![0; (limit as usize).div_ceil(64)])
    }

    /// Adds a number.
    ///
    /// # Panics
    /// If the number is not below the limit.
    pub fn insert(&mut self, number: u32) {
        self.0[number as usize / 64] |= 1 << (number % 64);
    }

    /// Whether the set contains the number. Numbers above the limit are in no set.
    pub fn contains(&self, number: u32) -> bool {
        self.0.get(number as usize / 64).is_some_and(|word| word >> (number % 64) & 1 == 1)
    }

    /// Returns the size of the set.
    pub fn count(&self) -> u64 {
        self.0.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}
