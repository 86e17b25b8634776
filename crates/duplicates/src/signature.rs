//! Signature of a document.

use crate::minhash::{MinHasher, NearOptions};
use crate::normalize::{Normalized, Normalizer};

/// Signature of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature<'a> {
    /// First 128 bits of the BLAKE3 of the normalized text. 0: the text has no word, and is a duplicate of nothing.
    pub exact: u128,
    /// Hash of each band. All 0: the text is shorter than a shingle, and has no near duplicates.
    pub bands: &'a [u64],
}

/// Computes signatures, and reuses its memory.
#[derive(Debug)]
pub struct Signer {
    normalizer: Normalizer,
    near: Option<MinHasher>,
    bands: Vec<u64>,
}

impl Signer {
    /// Creates a signer; without near duplicates, signatures have no bands.
    pub fn new(near: Option<NearOptions>) -> Self {
        Self {
            normalizer: Normalizer::default(),
            near: near.map(MinHasher::new),
            bands: vec![0; near.map_or(0, |near| near.bands)],
        }
    }

    /// Computes the signature of a text.
    pub fn sign(&mut self, text: &str) -> Signature<'_> {
        self.sign_unless(text, |_| false).expect("nothing is excluded")
    }

    /// Computes the signature of a text, unless its normalized form is excluded.
    pub fn sign_unless(
        &mut self,
        text: &str,
        is_excluded: impl FnOnce(Normalized<'_>) -> bool,
    ) -> Option<Signature<'_>> {
        let normalized = self.normalizer.normalize(text);
        if is_excluded(normalized) {
            return None;
        }
        let exact = if normalized.words.is_empty() { 0 } else { hash_128(normalized.text.as_bytes()).max(1) };
        if let Some(near) = &mut self.near {
            near.sign(normalized.words, &mut self.bands);
        }
        Some(Signature { exact, bands: &self.bands })
    }
}

/// First 128 bits of the BLAKE3.
pub(crate) fn hash_128(bytes: &[u8]) -> u128 {
    let hash = blake3::hash(bytes);
    u128::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
}
