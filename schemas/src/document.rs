//! What a corpus is made of.

/// One document: the unit that is never joined with another without a separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The corpus' own name for it, or `file:line` where it has none; unique within a source.
    pub id: String,
    /// Index of its source (file of the corpus, in sorted order) for reports and provenance.
    pub source: u16,
    /// UTF-8 text, already cleaned of byte-order marks and NULs.
    pub text: String,
}

impl Document {
    /// The 64-bit name that shards store: the first 8 bytes of BLAKE3 over `source`, a NUL and `id`, little endian.
    #[must_use]
    pub fn hash(source: &str, id: &str) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(source.as_bytes()).update(&[0]).update(id.as_bytes());
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&hasher.finalize().as_bytes()[..8]);
        u64::from_le_bytes(prefix)
    }

    /// Whether the document of that 64-bit name goes to the validation split, if that is to get such a fraction: by its
    /// name alone, so that it does so in every corpus that has it.
    #[must_use]
    pub fn is_valid(hash: u64, fraction: f64) -> bool {
        (hash as f64) < fraction * 2_f64.powi(64)
    }
}
