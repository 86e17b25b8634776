//! `MinHash` with bands (Broder 1997; Leskovec, Rajaraman and Ullman, "Mining of Massive Datasets", chapter 3).
//!
//! A document is the set of its *shingles*, all runs of `shingle_words` words. A hash function has the same minimum over
//! two documents with a probability that equals their Jaccard similarity `s`. The functions are divided into `bands` of
//! `rows`. Two documents are candidates if all minima of any band are equal: with probability `1 - (1 - s^rows)^bands`.

use crate::permute::{Functions, LANES, lower};
use crate::word_hash::{RollingHash, mix};

/// Shingle hashes that are computed before their minima: they stay in the first cache.
const BLOCK: usize = 1024;

/// Parameters of near duplicates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NearOptions {
    /// Words of a shingle.
    pub shingle_words: usize,
    /// Bands: two documents with one equal band are candidates.
    pub bands: usize,
    /// Hash functions of a band.
    pub rows: usize,
    /// Seed of the hash functions.
    pub seed: u64,
}

impl Default for NearOptions {
    /// Five words, 14 bands of 8 rows, as `FineWeb`: half of the pairs with a similarity of 0.685 are found.
    fn default() -> Self {
        Self { shingle_words: 5, bands: 14, rows: 8, seed: 1 }
    }
}

impl NearOptions {
    /// Returns the probability that two documents of that Jaccard similarity share a band.
    pub fn probability(&self, similarity: f64) -> f64 {
        let power = |count: usize| i32::try_from(count).unwrap_or(i32::MAX);
        1.0 - (1.0 - similarity.powi(power(self.rows))).powi(power(self.bands))
    }

    /// Estimates the Jaccard similarity of two documents with that number of equal bands: `(equal / bands)^(1 / rows)`,
    /// the maximum-likelihood estimate. Rounded to three decimals, so that it is the same on every processor.
    pub fn similarity(&self, equal_bands: u32) -> f64 {
        let share = f64::from(equal_bands) / self.bands as f64;
        (share.powf(1.0 / self.rows as f64) * 1000.0).round() / 1000.0
    }

    /// Returns the similarity at which half of the pairs share a band.
    pub fn half_similarity(&self) -> f64 {
        (1.0 - 0.5_f64.powf(1.0 / self.bands as f64)).powf(1.0 / self.rows as f64)
    }
}

/// Hash functions of a configuration.
#[derive(Clone, Debug)]
pub(crate) struct MinHasher {
    options: NearOptions,
    rolling: RollingHash,
    functions: Vec<Functions>,
    shingles: Vec<u32>,
    minima: Vec<[u32; LANES]>,
}

impl MinHasher {
    pub(crate) fn new(options: NearOptions) -> Self {
        let groups = (options.bands * options.rows).div_ceil(LANES);
        let number = |group: usize, lane: usize, purpose: u64| {
            let index = 2 * (group * LANES + lane) as u64 + purpose;
            high(mix(mix(options.seed ^ 0x5851_F42D_4C95_7F2D).wrapping_add(index.wrapping_mul(0x9E37_79B9_7F4A_7C15))))
        };
        let functions = |group| Functions {
            masks: std::array::from_fn(|lane| number(group, lane, 0)),
            multipliers: std::array::from_fn(|lane| number(group, lane, 1) | 1),
        };
        Self {
            options,
            rolling: RollingHash::new(options.shingle_words),
            functions: (0..groups).map(functions).collect(),
            shingles: Vec::with_capacity(BLOCK),
            minima: vec![[u32::MAX; LANES]; groups],
        }
    }

    /// Writes the hash of each band. All are 0 if the document has no shingle; otherwise none is 0.
    pub(crate) fn sign(&mut self, words: &[u64], bands: &mut [u64]) {
        bands.fill(0);
        if words.len() < self.options.shingle_words {
            return;
        }
        self.minima.fill([u32::MAX; LANES]);
        let mut runs = self.rolling.runs(words).map(high);
        loop {
            self.shingles.clear();
            self.shingles.extend(runs.by_ref().take(BLOCK));
            if self.shingles.is_empty() {
                break;
            }
            for (functions, minima) in self.functions.iter().zip(&mut self.minima) {
                lower(functions, &self.shingles, minima);
            }
        }
        let minima = self.minima.as_flattened();
        for (hash, rows) in bands.iter_mut().zip(minima.chunks_exact(self.options.rows)) {
            let chained = rows.iter().fold(0, |hash, &row| mix(hash ^ u64::from(row)));
            *hash = chained.max(1);
        }
    }
}

/// Upper half of a hash.
fn high(hash: u64) -> u32 {
    (hash >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers of a document: `shared` of them are in every document.
    fn words(document: u64, shared: u64, own: u64) -> Vec<u64> {
        let own = (0..own).map(|index| mix((document + 1) << 32 | index));
        (0..shared).map(|index| mix(u64::MAX - index)).chain(own).collect()
    }

    /// With shingles of one word, two documents of `n` shared and `m` own words have the similarity `n / (n + 2 m)`.
    /// Equal minima are counted over all functions. Their mean and their variance over pairs are those of independent
    /// draws.
    #[test]
    fn equal_minima_are_independent_draws_with_the_similarity_as_probability() {
        let options = NearOptions { shingle_words: 1, bands: 112, rows: 1, seed: 3 };
        for (shared, own) in [(60, 10), (30, 30), (400, 60)] {
            let similarity = shared as f64 / (shared + 2 * own) as f64;
            let pairs = 600_u64;
            let mut hasher = MinHasher::new(options);
            let mut sign = |document: u64| {
                let mut bands = vec![0; options.bands];
                // Shared words differ from pair to pair.
                let words: Vec<u64> = words(document, shared, own);
                let pair = mix(document / 2);
                let words: Vec<u64> = words
                    .iter()
                    .enumerate()
                    .map(|(at, word)| if (at as u64) < shared { mix(word ^ pair) } else { *word })
                    .collect();
                hasher.sign(&words, &mut bands);
                bands
            };
            let equal = |pair| -> f64 {
                let one = sign(2 * pair);
                let other = sign(2 * pair + 1);
                one.iter().zip(&other).filter(|(a, b)| a == b).count() as f64
            };
            let counts: Vec<f64> = (0..pairs).map(equal).collect();
            let mean = counts.iter().sum::<f64>() / pairs as f64;
            let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / pairs as f64;
            let expected = 112.0 * similarity;
            let spread = expected * (1.0 - similarity);
            assert!((mean - expected).abs() < 5.0 * (spread / pairs as f64).sqrt(), "mean {mean} of {expected}");
            // The variance of a sample variance of 600 is 2/600 of its square: 5.8 %.
            assert!((variance / spread - 1.0).abs() < 0.3, "variance {variance} of {spread}");
        }
    }

    #[test]
    fn half_of_the_pairs_are_found_at_the_half_similarity() {
        let options = NearOptions::default();
        let half = options.half_similarity();
        assert!((options.probability(half) - 0.5).abs() < 1e-9);
        assert!((0.68..0.69).contains(&half), "{half}");
    }

    #[test]
    fn similarity_follows_from_the_equal_bands() {
        let options = NearOptions::default();
        let found = [0, 1, 7, 13, 14].map(|equal| format!("{}", options.similarity(equal)));
        assert_eq!(found, ["0", "0.719", "0.917", "0.991", "1"]);
    }

    #[test]
    fn a_document_without_a_shingle_has_no_band() {
        let mut hasher = MinHasher::new(NearOptions::default());
        let mut bands = [7; 14];
        hasher.sign(&words(0, 4, 0), &mut bands);
        assert_eq!(bands, [0; 14]);
        hasher.sign(&words(0, 5, 0), &mut bands);
        assert!(bands.iter().all(|&band| band != 0));
    }
}
