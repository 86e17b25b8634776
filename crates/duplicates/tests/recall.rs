//! Planted near duplicates are found as often as the theory of bands says, and unrelated documents are kept.

use std::collections::BTreeSet;
use std::convert::Infallible;

use duplicates::{BitSet, Columns, FoldPlan, NearOptions, Signer, fold};

/// Small deterministic generator (Steele et al. 2014, `SplitMix64`).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }
}

/// Words with the frequencies of a language: word `n` is about `1/n` as frequent as the first.
fn text(random: &mut Random, words: usize) -> Vec<String> {
    let word = |random: &mut Random| {
        let uniform = random.next() as f64 / u64::MAX as f64;
        format!("w{:.0}", 30_000_f64.powf(uniform))
    };
    (0..words).map(|_| word(random)).collect()
}

/// Replaces words with that probability by words that no other document has.
fn edited(random: &mut Random, words: &[String], rate: f64) -> Vec<String> {
    let edit = |word: &String| {
        let is_kept = random.next() as f64 / u64::MAX as f64 >= rate;
        if is_kept { word.clone() } else { format!("e{:x}", random.next()) }
    };
    words.iter().map(edit).collect()
}

fn similarity(a: &[String], b: &[String], shingle: usize) -> f64 {
    let [a, b] = [a, b].map(|words| words.windows(shingle).collect::<BTreeSet<_>>());
    a.intersection(&b).count() as f64 / a.union(&b).count() as f64
}

struct Corpus {
    exact: Vec<u128>,
    bands: Vec<Vec<u64>>,
}

impl Corpus {
    fn sign(texts: &[Vec<String>], options: NearOptions) -> Self {
        let mut signer = Signer::new(Some(options));
        let mut corpus = Self { exact: Vec::new(), bands: Vec::new() };
        for words in texts {
            let signature = signer.sign(&words.join(" "));
            corpus.exact.push(signature.exact);
            corpus.bands.push(signature.bands.to_vec());
        }
        corpus
    }
}

impl Columns for Corpus {
    type Error = Infallible;

    fn exact(&mut self, visit: &mut dyn FnMut(u32, u128)) -> Result<(), Infallible> {
        (0..).zip(&self.exact).for_each(|(document, hash)| visit(document, *hash));
        Ok(())
    }

    fn band(&mut self, band: usize, visit: &mut dyn FnMut(u32, u64)) -> Result<(), Infallible> {
        (0..).zip(&self.bands).for_each(|(document, bands)| visit(document, bands[band]));
        Ok(())
    }
}

/// Documents `2 n` and `2 n + 1` are an original and its edited copy.
fn check_recall(options: NearOptions, words: usize, rate: f64, seed: u64) {
    const PAIRS: u32 = 1500;
    let mut random = Random(seed);
    let mut texts = Vec::new();
    let mut expected = 0.0;
    let mut spread = 0.0;
    for _ in 0..PAIRS {
        let original = text(&mut random, words);
        let copy = edited(&mut random, &original, rate);
        let found = options.probability(similarity(&original, &copy, options.shingle_words));
        expected += found;
        spread += found * (1.0 - found);
        texts.extend([original, copy]);
    }
    let plan =
        FoldPlan { documents: 2 * PAIRS, settled: 0, bands: options.bands, max_bytes: 1 << 20, keeps_partners: false };
    let Ok(verdicts) = fold(&plan, &BitSet::default(), &mut Corpus::sign(&texts, options));
    let found = (0..PAIRS).filter(|pair| verdicts.near.contains(2 * pair + 1) || verdicts.exact.contains(2 * pair + 1));
    let found = found.count() as f64;
    let unrelated = (0..PAIRS).filter(|pair| verdicts.near.contains(2 * pair)).count();
    let allowed = 4.0 * spread.sqrt() + 1.0;
    let case =
        format!("{options:?}, {words} words, {rate} edited: {found} found, {expected:.1} ± {allowed:.1} expected");
    assert!((found - expected).abs() <= allowed, "{case}");
    assert_eq!(unrelated, 0, "an original equals no other document: {case}");
}

#[test]
fn planted_copies_are_found_as_often_as_the_curve_says() {
    let fine_web = NearOptions::default();
    for (rate, seed) in [(0.0, 1), (0.01, 2), (0.02, 3), (0.03, 4), (0.05, 5), (0.08, 6), (0.15, 7)] {
        check_recall(fine_web, 120, rate, seed);
    }
    let few = NearOptions { shingle_words: 3, bands: 6, rows: 4, seed: 9 };
    for (rate, seed) in [(0.05, 8), (0.1, 9), (0.2, 10)] {
        check_recall(few, 60, rate, seed);
    }
    let odd = NearOptions { shingle_words: 2, bands: 5, rows: 5, seed: 10 };
    check_recall(odd, 200, 0.06, 11);
}
