//! Documents of a corpus, and the hashes of their ids.

/// One document: the unit that is never joined with another without a separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// Id from the corpus, or the BLAKE3 of the text in hexadecimal digits.
    pub id: String,
    /// UTF-8 text, already cleaned of byte-order marks and NULs.
    pub text: String,
}

impl Document {
    /// Returns the BLAKE3 in hexadecimal digits: the replacement of an id that must not be readable.
    #[must_use]
    pub fn digest(id: &str) -> String {
        let mut digest = String::with_capacity(64);
        Self::write_digest(id, &mut digest);
        digest
    }

    /// Appends the digest to a string with reserved capacity.
    pub fn write_digest(id: &str, digest: &mut String) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        // Called once per document: takes half the time of the crate's own formatting.
        let mut digits = [0; 64];
        for (pair, &byte) in digits.chunks_exact_mut(2).zip(blake3::hash(id.as_bytes()).as_bytes()) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        digest.push_str(str::from_utf8(&digits).expect("digits are ASCII"));
    }

    /// Returns the document hash that shards store: the first 8 bytes of the BLAKE3 of its id, little endian.
    #[must_use]
    pub fn hash(id: &str) -> u64 {
        word(id, 0)
    }

    /// Returns whether a document is in the validation split when that split has this fraction of all documents. The
    /// result depends on the document hash alone, so it is the same in every corpus.
    #[must_use]
    pub fn is_valid(hash: u64, fraction: f64) -> bool {
        is_among(hash, fraction)
    }

    /// Returns whether the document of that id is in a sample of this share, in (0, 1], of all documents: if the second 8
    /// bytes of the BLAKE3 of the id, little endian, are less than the share of 2^64. A smaller sample is a part of a
    /// larger one. The validation split uses the first 8 bytes, so the two are independent.
    #[must_use]
    pub fn is_sampled(id: &str, share: f64) -> bool {
        share >= 1.0 || is_among(word(id, 1), share)
    }
}

/// Returns the 64-bit word `number` of the BLAKE3 of an id, little endian.
fn word(id: &str, number: usize) -> u64 {
    let mut bytes = [0; 8];
    bytes.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[8 * number..8 * (number + 1)]);
    u64::from_le_bytes(bytes)
}

/// Returns true if a word is among the lowest `share` of all words.
fn is_among(word: u64, share: f64) -> bool {
    (word as f64) < share * 2_f64.powi(64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_a_share_and_independent_of_the_validation_split() {
        let ids: Vec<String> = (0..20_000).map(|number| format!("document {number}")).collect();
        let count = |is: &dyn Fn(&String) -> bool| ids.iter().filter(|id| is(id)).count() as f64 / ids.len() as f64;
        let is_valid = |id: &String| Document::is_valid(Document::hash(id), 0.5);
        for share in [0.01, 0.25, 0.5] {
            let found = count(&|id| Document::is_sampled(id, share));
            let both = count(&|id| Document::is_sampled(id, share) && is_valid(id));
            // Tolerance: five standard errors of a share of 20,000.
            assert!((found - share).abs() < 0.018 && (both - share / 2.0).abs() < 0.018, "{share}: {found}, {both}");
            let is_nested = |id: &String| !Document::is_sampled(id, share) || Document::is_sampled(id, share * 1.5);
            assert!(ids.iter().all(is_nested), "{share}");
        }
        assert!(ids.iter().all(|id| Document::is_sampled(id, 1.0) && !Document::is_sampled(id, 1e-30)));
    }

    #[test]
    fn a_digest_is_the_blake3_in_digits() {
        for text in ["", "a", "ß中"] {
            assert_eq!(Document::digest(text), blake3::hash(text.as_bytes()).to_hex().to_string());
            let mut digest = String::from("x");
            Document::write_digest(text, &mut digest);
            assert_eq!(digest[1..], Document::digest(text));
            let prefix: [u8; 8] = Document::hash(text).to_le_bytes();
            assert!(Document::digest(text).starts_with(&format!("{:02x}{:02x}", prefix[0], prefix[1])));
        }
    }
}
