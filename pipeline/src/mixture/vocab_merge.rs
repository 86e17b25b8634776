//! Vocabulary of a mixture.

use std::sync::Arc;

use schemas::Vocab;

use super::PERIOD;

/// Merges the vocabularies of folders with one tokenizer. The count of each id is its count in rows that are mixed by
/// `shares` of a period.
///
/// # Panics
/// If there is no vocabulary, or they differ in size.
#[must_use]
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts; beyond 2^64 they saturate")]
pub fn merge_vocabs(vocabs: &[Arc<Vocab>], shares: &[u64]) -> Vocab {
    let first = vocabs.first().expect("a mixture has a source");
    let total = |vocab: &Vocab| vocab.counts().iter().map(|&count| u128::from(count)).sum::<u128>() as f64;
    let all: f64 = vocabs.iter().map(|vocab| total(vocab)).sum();
    let mut counts = vec![0_u64; first.counts().len()];
    for (vocab, &share) in vocabs.iter().zip(shares) {
        assert_eq!(vocab.size(), first.size(), "sources have one tokenizer");
        let weight = share as f64 / PERIOD as f64 * all / total(vocab).max(1.0);
        for (count, &of_source) in counts.iter_mut().zip(vocab.counts()) {
            // Rounded up: an id that occurs at all keeps a count above 0.
            *count = count.saturating_add((weight * of_source as f64).ceil() as u64);
        }
    }
    Vocab::clone(first).with_counts(counts)
}
