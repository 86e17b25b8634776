//! Random numbers by address: no generator is shared.
//!
//! # The format, version 1
//!
//! Philox4x32-10 (Salmon et al., *Parallel Random Numbers: As Easy as 1, 2, 3*, SC 2011). The key is the first 64 bits,
//! little endian, of BLAKE3 over `DOMAIN`, seed, epoch, the length of the view's name (three little-endian `u64`), the
//! name and the purpose. The counter is (row, part, copy, block). The words of block 0, 1, … follow one another. A
//! number below `n` is `(word · n) >> 32`, and small numbers are drawn several to a word ([`SmallUniforms`]). The key
//! contains the view's *name*, so adding a view does not change the draws of other views.

use std::cell::RefCell;

use schemas::{Epoch, SampleAddress};

use crate::philox::{self, WORDS_PER_BLOCK, block, halves};

/// Domain separation of these keys from any other use of BLAKE3. The digit is the format version.
pub(crate) const DOMAIN: &[u8] = b"cloze rng 1";

/// Complete input of a random draw.
#[derive(Clone, Copy, Debug)]
pub struct Address<'a> {
    /// The run's seed.
    pub seed: u64,
    /// Pass over the data.
    pub epoch: Epoch,
    /// Stored sample, or another numbered item.
    pub sample: SampleAddress,
    /// The copy (and piece) of the sample.
    pub copy: u32,
    /// Name of the view, empty outside of views.
    pub view: &'a str,
    /// Purpose of the draw.
    pub purpose: &'a str,
}

/// Philox key: the part of an address that rows share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key([u32; 2]);

impl Key {
    /// Derives the key from everything but the row.
    #[must_use]
    pub fn new(seed: u64, epoch: Epoch, view: &str, purpose: &str) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(DOMAIN).update(&seed.to_le_bytes()).update(&epoch.0.to_le_bytes());
        hasher.update(&(view.len() as u64).to_le_bytes()).update(view.as_bytes()).update(purpose.as_bytes());
        let mut words = [0; 2];
        for (word, bytes) in words.iter_mut().zip(hasher.finalize().as_bytes().chunks_exact(4)) {
            *word = u32::from_le_bytes([bytes[0], bytes[1], bytes[2], bytes[3]]);
        }
        Self(words)
    }

    /// Returns the generator of one row.
    #[must_use]
    pub fn row(self, sample: SampleAddress, copy: u32) -> Rng {
        let row = [sample.row, sample.part.0, copy];
        Rng { key: self.0, row, block: 0, words: [0; BUFFERED], used: 0, filled: 0 }
    }
}

/// Keys of one view in one epoch. Each is derived at its first use, so rows do not pay for BLAKE3.
#[derive(Debug)]
pub struct Keys {
    seed: u64,
    epoch: Epoch,
    view: String,
    known: RefCell<Vec<(&'static str, Key)>>,
}

impl Keys {
    /// Creates an empty key cache.
    #[must_use]
    pub fn new(seed: u64, epoch: Epoch, view: &str) -> Self {
        Self { seed, epoch, view: view.to_owned(), known: RefCell::default() }
    }

    fn get(&self, purpose: &'static str) -> Key {
        let mut known = self.known.borrow_mut();
        if let Some(&(_, key)) = known.iter().find(|(name, _)| *name == purpose) {
            return key;
        }
        let key = Key::new(self.seed, self.epoch, &self.view, purpose);
        known.push((purpose, key));
        key
    }
}

/// Address of a view's draws for one row: an [`Address`] without its purpose.
#[derive(Clone, Copy, Debug)]
pub struct RowAddress<'a> {
    /// Seed, epoch and view.
    pub keys: &'a Keys,
    /// The stored sample.
    pub sample: SampleAddress,
    /// The copy and piece, as one number: `copy · pieces + piece`.
    pub copy: u32,
    /// Number of copies of the row.
    pub copies: u32,
    /// Number of pieces of the sample.
    pub pieces: u32,
}

impl RowAddress<'_> {
    /// Returns the address that all copies of the row share: that of the first. Each copy can use its part of these
    /// draws.
    #[must_use]
    pub fn shared(&self) -> Self {
        Self { copy: self.copy % self.pieces, ..*self }
    }

    /// Number of this copy among the [`copies`](Self::copies).
    #[must_use]
    pub fn copy_number(&self) -> u32 {
        self.copy / self.pieces
    }

    /// Returns the generator for one purpose: [`Rng::at`] the full address.
    #[must_use]
    pub fn rng(&self, purpose: &'static str) -> Rng {
        self.keys.get(purpose).row(self.sample, self.copy)
    }
}

/// Number of random words, as a float. A rate is compared with words in units of 2⁻³². A rate of 1 accepts all of them.
const WORDS: f64 = 4_294_967_296.0;

/// Maximum number of buffered words: eight blocks, which are computed together.
const BUFFERED: usize = 32;

/// Number of words that mean that an event of probability `rate` occurs: those below this number.
#[inline]
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^32; less than 0 is none")]
pub(crate) fn words_of(rate: f64) -> u64 {
    (rate * WORDS).ceil() as u64
}

/// Counter-based generator: its words depend on its address only.
///
/// The first block is computed alone, because most rows need few words. Then eight are computed at a time, if the
/// processor supports it.
#[derive(Clone, Debug)]
pub struct Rng {
    key: [u32; 2],
    row: [u32; 3],
    /// First block that is not computed yet.
    block: u32,
    words: [u32; BUFFERED],
    used: usize,
    filled: usize,
}

impl Rng {
    /// Creates the generator at an address.
    #[must_use]
    pub fn at(address: &Address<'_>) -> Self {
        Key::new(address.seed, address.epoch, address.view, address.purpose).row(address.sample, address.copy)
    }

    /// Returns the next word.
    #[inline]
    pub fn next_u32(&mut self) -> u32 {
        if self.used == self.filled {
            self.refill();
        }
        self.used += 1;
        self.words[(self.used - 1) % BUFFERED]
    }

    #[inline(never)]
    fn refill(&mut self) {
        self.used = 0;
        self.filled = if self.block == 0 { 0 } else { philox::fill(self.row, self.block, self.key, &mut self.words) };
        if self.filled == 0 {
            let drawn = self.draw(self.block);
            self.words[..WORDS_PER_BLOCK].copy_from_slice(&drawn);
            self.filled = WORDS_PER_BLOCK;
        }
        self.block = self.block.wrapping_add(blocks(self.filled));
    }

    /// Returns a number below `n`, uniform up to `n / 2^32`.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        digit(self.next_u32(), n).0
    }

    /// Returns whether an event of probability `rate` occurs.
    #[inline]
    pub fn chance(&mut self, rate: f64) -> bool {
        u64::from(self.next_u32()) < words_of(rate)
    }

    /// Returns a number in `[0, 1)` in steps of 2⁻³².
    pub fn fraction(&mut self) -> f64 {
        f64::from(self.next_u32()) / WORDS
    }

    /// Returns the word with that number, counted from the address, whatever was drawn before.
    #[must_use]
    pub fn word(&self, number: u32) -> u32 {
        self.draw(number / 4)[number as usize % 4]
    }

    /// Returns the words of the block with that number.
    #[inline]
    fn draw(&self, number: u32) -> [u32; WORDS_PER_BLOCK] {
        let [a, b, c] = self.row;
        block([a, b, c, number], self.key)
    }

    /// Fills `words` with whole blocks, for `words.len()` numbers at once. The result equals that of
    /// [`next_u32`](Self::next_u32) at the start of a block; the rest of a begun block is skipped.
    pub fn fill(&mut self, words: &mut [u32]) {
        // Buffered blocks that are not begun are computed again.
        self.block = self.block.wrapping_sub(blocks((self.filled - self.used) / WORDS_PER_BLOCK * WORDS_PER_BLOCK));
        (self.used, self.filled) = (0, 0);
        let wide = philox::fill(self.row, self.block, self.key, words);
        self.block = self.block.wrapping_add(blocks(wide));
        // The remainder below eight blocks, or everything without vector instructions.
        for chunk in words[wide..].chunks_mut(WORDS_PER_BLOCK) {
            chunk.copy_from_slice(&self.draw(self.block)[..chunk.len()]);
            self.block = self.block.wrapping_add(1);
        }
    }

    /// Fills numbers below `n`, several from each word. The result equals that of as many draws of
    /// [`split`](Self::split) at the start of a block.
    pub fn fill_below(&mut self, n: u32, numbers: &mut [u32]) {
        let per_word = draws_per_word(n) as usize;
        let mut words = [0; BUFFERED];
        for chunk in numbers.chunks_mut(per_word * BUFFERED) {
            let drawn = chunk.len().div_ceil(per_word);
            self.fill(&mut words[..drawn]);
            for (numbers, &word) in chunk.chunks_mut(per_word).zip(&words) {
                let mut rest = word;
                for number in numbers {
                    (*number, rest) = digit(rest, n);
                }
            }
        }
    }

    /// Returns a generator of many numbers below `n` or less, several from each word.
    pub fn split(&mut self, n: u32) -> SmallUniforms<'_> {
        SmallUniforms { rng: self, word: 0, left: 0, per_word: draws_per_word(n) }
    }
}

/// Number of blocks that contain this many words.
fn blocks(words: usize) -> u32 {
    u32::try_from(words / WORDS_PER_BLOCK).expect("a row draws far fewer words")
}

/// Generator of small numbers, several from a word: the integer part of `word · n / 2^32` is one, and the fraction is
/// the word for the next. The probabilities of two numbers differ by at most 2^-14 of their value.
#[derive(Debug)]
pub struct SmallUniforms<'a> {
    rng: &'a mut Rng,
    word: u32,
    left: u32,
    per_word: u32,
}

impl SmallUniforms<'_> {
    /// Returns a number below `n`, which is at most the `n` that the generator was created for.
    #[inline]
    pub fn below(&mut self, n: u32) -> u32 {
        if self.left == 0 {
            self.word = self.rng.next_u32();
            self.left = self.per_word;
        }
        self.left -= 1;
        let (number, rest) = digit(self.word, n);
        self.word = rest;
        number
    }
}

/// Number of draws below `n` per word. If more than one, they use at most 18 of its bits together.
#[must_use]
pub(crate) fn draws_per_word(n: u32) -> u32 {
    let bits = u32::BITS - n.saturating_sub(1).leading_zeros();
    (18 / bits.max(1)).max(1)
}

/// Returns the integer part and the fraction of `word · n / 2^32`.
#[inline]
#[must_use]
pub(crate) fn digit(word: u32, n: u32) -> (u32, u32) {
    let (low, high) = halves(u64::from(word) * u64::from(n));
    (high, low)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_known_answers_of_random123() {
        let check = |counter, key, expected| assert_eq!(block(counter, key), expected);
        check([0; 4], [0; 2], [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]);
        check([u32::MAX; 4], [u32::MAX; 2], [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]);
        check(
            [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344],
            [0xa409_3822, 0x299f_31d0],
            [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1],
        );
    }

    fn address(purpose: &str) -> Address<'_> {
        Address {
            seed: 7,
            epoch: Epoch(3),
            sample: SampleAddress::numbered(1 << 33 | 5),
            copy: 2,
            view: "masked",
            purpose,
        }
    }

    #[test]
    fn many_at_once_are_the_same_as_one_by_one() {
        for count in [0, 1, 3, 4, 5, 31, 32, 33, 500] {
            let mut words = vec![0; count];
            let mut bulk = Rng::at(&address("x"));
            bulk.fill(&mut words);
            let mut single = Rng::at(&address("x"));
            assert_eq!(words, (0..count).map(|_| single.next_u32()).collect::<Vec<_>>(), "{count} words");
            let mut again = [0; 4];
            bulk.fill(&mut again);
            assert_ne!(again.as_slice(), &words[..count.min(4)], "the next fill continues");
        }
    }

    #[test]
    fn generator_yields_its_words_in_order_for_any_calls() {
        let single = Rng::at(&address("x"));
        let expected: Vec<u32> = (0..300).map(|number| single.word(number)).collect();
        let mut rng = single.clone();
        assert_eq!((0..300).map(|_| rng.next_u32()).collect::<Vec<_>>(), expected);
        // A fill begins at the next block, whatever is buffered.
        for used in 0..90_usize {
            let mut rng = single.clone();
            (0..used).for_each(|_| _ = rng.next_u32());
            let mut words = [0; 70];
            let next = used.next_multiple_of(4);
            rng.fill(&mut words);
            assert_eq!(words, expected[next..next + 70], "{used} words before");
            assert_eq!(rng.next_u32(), expected[next + 72], "{used} words before");
        }
    }

    #[test]
    fn batched_numbers_equal_single_draws() {
        for (n, count) in
            [(1, 40), (4, 700), (100, 0), (100, 1), (100, 63), (100, 64), (100, 65), (510, 200), (30_000, 99)]
        {
            let mut rng = Rng::at(&address("x"));
            let mut single = Rng::at(&address("x"));
            let mut numbers = vec![0; count];
            rng.fill_below(n, &mut numbers);
            let mut split = single.split(n);
            assert_eq!(numbers, (0..count).map(|_| split.below(n)).collect::<Vec<_>>(), "{count} below {n}");
        }
    }

    #[test]
    fn the_last_blocks_of_a_row_are_followed_by_the_first() {
        let single = Rng { block: u32::MAX - 3, ..Rng::at(&address("x")) };
        let mut rng = single.clone();
        let mut words = [0; 32];
        rng.fill(&mut words);
        let first: Vec<u32> = (0..16).map(|number| single.word(number)).collect();
        assert_eq!(words[16..], first);
    }

    #[test]
    fn chances_are_those_of_words_as_fractions() {
        for rate in [0.0, 1e-12, 0.15, 1.0 / 3.0, 0.5, 0.999_999_999_9, 1.0] {
            for word in [0, 1, 644_245_093, 644_245_094, 644_245_095, 1 << 31, u32::MAX - 1, u32::MAX] {
                assert_eq!(u64::from(word) < words_of(rate), f64::from(word) < rate * WORDS, "{word} at {rate}");
            }
        }
    }

    #[test]
    fn several_draws_of_a_word_are_uniform_and_independent() {
        assert_eq!([1, 2, 4, 5, 100, 512, 513, 1 << 14, 1 << 20].map(draws_per_word), [18, 18, 9, 6, 2, 2, 1, 1, 1]);
        for n in [3_u32, 7, 100, 300] {
            let mut rng = Rng::at(&address("split"));
            let mut split = rng.split(n);
            let mut counts = vec![0.0_f64; (n * n) as usize];
            for _ in 0..20 * n * n {
                let first = split.below(n);
                let second = split.below(n);
                counts[(first * n + second) as usize] += 1.0;
            }
            let chi_square: f64 = counts.iter().map(|count| (count - 20.0).powi(2) / 20.0).sum();
            let freedom = f64::from(n * n - 1);
            assert!((chi_square - freedom).abs() < 5.0 * (2.0 * freedom).sqrt(), "{chi_square} for {freedom}");
        }
    }

    #[test]
    fn every_part_of_an_address_counts() {
        let first = |address: Address<'_>| Rng::at(&address).next_u32();
        let base = address("x");
        let mut seen = std::collections::BTreeSet::from([first(base)]);
        for other in [
            Address { seed: 8, ..base },
            Address { epoch: Epoch(4), ..base },
            Address { sample: SampleAddress::numbered(5), ..base },
            Address { copy: 3, ..base },
            Address { view: "maske", purpose: "dx", ..base },
            Address { purpose: "y", ..base },
        ] {
            assert!(seen.insert(first(other)), "{other:?}");
        }
        // Golden values of the format; these words must never change.
        let mut rng = Rng::at(&base);
        assert_eq!(
            [(); 5].map(|()| rng.next_u32()),
            [1_747_907_254, 1_124_916_698, 2_149_427_025, 3_354_841_265, 123_147_528,]
        );
    }

    #[test]
    fn cached_keys_are_the_addresses_keys() {
        let keys = Keys::new(7, Epoch(3), "masked");
        let row =
            RowAddress { keys: &keys, sample: SampleAddress::numbered(1 << 33 | 5), copy: 2, copies: 3, pieces: 1 };
        for purpose in ["x", "y", "x"] {
            let expected = Rng::at(&Address { purpose, ..address("") }).next_u32();
            assert_eq!(row.rng(purpose).next_u32(), expected);
        }
    }
}
