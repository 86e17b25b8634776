//! Span masking: runs of whole words.
//!
//! A span has `l` words with probability `P(l) ∝ 0.8^(l − 1)`, `l` from 1 to 10: a truncated and renormalized geometric
//! distribution of mean 3.797 (Joshi et al., *SpanBERT*, TACL 2020, section 3.1).

use std::ops::Range;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::positions::shuffled;
use crate::rng::{Rng, RowAddress};

/// Sampling method of spans.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SpanSampler {
    /// The candidates are cut into consecutive spans. The spans are taken in random order, the last one in part; its
    /// rest is the first of the next copy's if copies are disjoint. The first span may begin before the row, so that
    /// borders are equally likely everywhere.
    #[default]
    Tiles,
    /// From a uniform candidate that is not yet selected, `l` words to the right from the start of its word, until
    /// there are enough tokens; the last span is cut. Spans may overlap. This is the method of SpanBERT's released
    /// code, except that `count` sets the number of tokens, which that code rounds up.
    Spanbert,
}

const WORDS_MAX: usize = 10;

/// Cumulative distribution of a span's words, in units of 2^-32, for each length but the last.
const LENGTHS: [u32; WORDS_MAX - 1] = ends(weights());

/// Cumulative distribution of a span's remaining words from a random word of it on: `P(r) ∝ Σ_{l ≥ r} P(l)`.
const RESTS: [u32; WORDS_MAX - 1] = ends(tails(weights()));

const fn weights() -> [f64; WORDS_MAX] {
    let mut weights = [1.0; WORDS_MAX];
    let mut at = 1;
    while at < WORDS_MAX {
        weights[at] = weights[at - 1] * 0.8;
        at += 1;
    }
    weights
}

const fn tails(mut weights: [f64; WORDS_MAX]) -> [f64; WORDS_MAX] {
    let mut at = WORDS_MAX - 1;
    while at > 0 {
        weights[at - 1] += weights[at];
        at -= 1;
    }
    weights
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a share of 2^32 below 1")]
const fn ends(weights: [f64; WORDS_MAX]) -> [u32; WORDS_MAX - 1] {
    let total = tails(weights)[0];
    let mut ends = [0; WORDS_MAX - 1];
    let mut sum = 0.0;
    let mut at = 0;
    while at < WORDS_MAX - 1 {
        sum += weights[at];
        ends[at] = (sum / total * 4_294_967_296.0) as u32;
        at += 1;
    }
    ends
}

fn draw(law: &[u32; WORDS_MAX - 1], rng: &mut Rng) -> usize {
    let word = rng.next_u32();
    1 + law.iter().filter(|&&end| end <= word).count()
}

/// Selects the tokens with the indices `part` among tiles in random order.
pub(super) fn take_tiles(part: Range<usize>, borders: &[u16], positions: &mut Vec<u16>, at: &RowAddress<'_>) -> usize {
    let mut rng = at.rng("positions");
    let mut chosen = Vec::with_capacity(part.len());
    let mut skipped = 0;
    for (begin, end) in shuffled(cut(borders, &mut at.rng("spans")), &mut rng) {
        if chosen.len() == part.len() {
            break;
        }
        let tile = &positions[usize::from(begin)..usize::from(end)];
        let tile = &tile[tile.len().min(part.start - skipped)..];
        skipped += usize::from(end - begin) - tile.len();
        chosen.extend_from_slice(&tile[..tile.len().min(part.len() - chosen.len())]);
    }
    *positions = chosen;
    positions.len()
}

/// Cuts the words into tiles: returns start and end of each among the candidates.
fn cut(borders: &[u16], rng: &mut Rng) -> Vec<(u16, u16)> {
    let words = borders.len() - 1;
    let mut tiles = Vec::with_capacity(words);
    let mut begin = 0;
    let mut law = &RESTS;
    while begin < words {
        let end = (begin + draw(law, rng)).min(words);
        tiles.push((borders[begin], borders[end]));
        (begin, law) = (end, &LENGTHS);
    }
    tiles
}

/// Draws spans until they cover `size` candidates.
pub(super) fn fill(size: usize, borders: &[u16], positions: &mut Vec<u16>, at: &RowAddress<'_>) -> usize {
    let mut rng = at.rng("spans");
    let len = u32::try_from(positions.len()).expect("a row has fewer than 65,536 tokens");
    let mut chosen = vec![false; positions.len()];
    let mut count = 0;
    while count < size {
        let words = draw(&LENGTHS, &mut rng);
        let anchor = rng.below(len) as usize;
        if chosen[anchor] {
            continue;
        }
        let first = borders.partition_point(|&border| usize::from(border) <= anchor) - 1;
        let last = (first + words).min(borders.len() - 1);
        for slot in &mut chosen[usize::from(borders[first])..usize::from(borders[last])] {
            let new = !*slot && count < size;
            *slot |= new;
            count += usize::from(new);
        }
    }
    let mut chosen = chosen.into_iter();
    positions.retain(|_| chosen.next().expect("one flag for each candidate"));
    count
}

#[cfg(test)]
mod tests {
    use schemas::{Epoch, SampleAddress};

    use super::*;
    use crate::rng::Key;
    use crate::views::contract::assert_uniform;

    /// Published distribution to ten digits.
    const LAW: [f64; WORDS_MAX] = [
        0.224_058_049_9,
        0.179_246_439_9,
        0.143_397_151_9,
        0.114_717_721_6,
        0.091_774_177_2,
        0.073_419_341_8,
        0.058_735_473_4,
        0.046_988_378_8,
        0.037_590_703_0,
        0.030_072_562_4,
    ];
    const MEAN: f64 = 3.797_097_504;

    fn rng(sample: u64) -> Rng {
        Key::new(5, Epoch(0), "spans", "test").row(SampleAddress::numbered(sample), 0)
    }

    #[test]
    fn lengths_follow_the_published_law() {
        let share = |word: u32| f64::from(word) / 4_294_967_296.0;
        let begins = std::iter::once(0).chain(LENGTHS);
        let ends = LENGTHS.iter().map(|&end| share(end)).chain([1.0]);
        for ((begin, end), expected) in begins.zip(ends).zip(LAW) {
            assert!((end - share(begin) - expected).abs() < 1e-9, "{begin}");
        }
        let mut rng = rng(0);
        let mut scaled = [0.0; WORDS_MAX];
        let mut total = 0;
        for _ in 0..100_000 {
            let length = draw(&LENGTHS, &mut rng);
            scaled[length - 1] += 1.0;
            total += length;
        }
        assert!((total as f64 / 100_000.0 - MEAN).abs() < 5.0 * (2.6 / 100_000_f64.sqrt()), "{total}");
        let pairs = scaled.iter().zip(LAW.map(|share| share * 100_000.0));
        let chi_square: f64 = pairs.map(|(count, expected)| (count - expected).powi(2) / expected).sum();
        assert!(chi_square < 9.0 + 5.0 * 18_f64.sqrt(), "{chi_square}: {scaled:?}");
    }

    #[test]
    fn tiles_cover_all_words_and_end_anywhere_equally_often() {
        // Words of two tokens.
        let borders: Vec<u16> = (0..=40).map(|word| 2 * word).collect();
        let mut ends = vec![0.0; 39];
        for row in 0..20_000 {
            let tiles = cut(&borders, &mut rng(row));
            assert_eq!((tiles[0].0, tiles[tiles.len() - 1].1), (0, 80));
            assert!(tiles.windows(2).all(|pair| pair[0].1 == pair[1].0));
            assert!(tiles.iter().all(|(begin, end)| (1..=10).contains(&((end - begin) / 2)) && begin % 2 == 0));
            tiles[1..].iter().for_each(|tile| ends[usize::from(tile.0) / 2 - 1] += 1.0);
        }
        assert_uniform(&ends, 20_000.0 / MEAN);
        assert!(cut(&[0], &mut rng(0)).is_empty(), "no words, no tiles");
    }
}
