//! Random choices that depend on a seed and a purpose only.

/// Generator of random numbers: `SplitMix64` (Steele, Lea & Flood 2014).
#[derive(Clone, Debug)]
pub struct Dice(u64);

impl Dice {
    /// Creates a generator for one purpose. Generators of different purposes are independent.
    #[must_use]
    pub fn new(seed: u64, purpose: &str) -> Self {
        // FNV-1a.
        let hash = purpose
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
        let mut dice = Self(seed ^ hash);
        dice.0 = dice.number() ^ seed;
        dice
    }

    /// Returns 64 random bits.
    pub fn number(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        bits ^ (bits >> 31)
    }

    /// Returns a random index below `count`.
    ///
    /// # Panics
    /// If `count` is 0.
    pub fn below(&mut self, count: usize) -> usize {
        assert!(count > 0, "a choice needs an alternative");
        // The bias of the product is below 2^-32 for any list that fits into memory.
        let wide = u128::from(self.number()) * count as u128;
        usize::try_from(wide >> 64).expect("below count")
    }

    /// Returns `count` of `0..total`, ascending, each subset with the same probability; all of them if there are fewer.
    pub fn subset(&mut self, total: usize, count: usize) -> Vec<usize> {
        if count >= total {
            return (0..total).collect();
        }
        let mut chosen = self.shuffled(total, count);
        chosen.sort_unstable();
        chosen
    }

    /// Returns the first `count` of `0..total` in random order (Fisher-Yates).
    pub(crate) fn shuffled(&mut self, total: usize, count: usize) -> Vec<usize> {
        let mut all: Vec<usize> = (0..total).collect();
        for at in 0..count.min(total) {
            let other = at + self.below(total - at);
            all.swap(at, other);
        }
        all.truncate(count);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn choices_depend_on_seed_and_purpose() {
        let draw = |seed, purpose| Dice::new(seed, purpose).number();
        assert_eq!(draw(1, "a"), draw(1, "a"));
        assert!(draw(1, "a") != draw(2, "a") && draw(1, "a") != draw(1, "b"));
    }

    #[test]
    fn every_index_and_every_subset_is_equally_frequent() {
        let mut dice = Dice::new(3, "test");
        let mut indices = [0_i32; 5];
        let mut members = [0_i32; 6];
        for _ in 0..60_000 {
            indices[dice.below(5)] += 1;
            dice.subset(6, 2).into_iter().for_each(|member| members[member] += 1);
        }
        // Six standard deviations of a binomial count.
        assert!(indices.iter().all(|&count| (count - 12_000).abs() < 6 * 98), "{indices:?}");
        assert!(members.iter().all(|&count| (count - 20_000).abs() < 6 * 116), "{members:?}");
        assert_eq!(dice.subset(3, 7), [0, 1, 2]);
    }
}
