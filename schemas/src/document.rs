//! What a corpus is made of.

/// One document: the unit that is never joined with another without a separator.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Document {
    /// The corpus' own name for it, or the BLAKE3 of its text, as hexadecimal digits.
    pub id: String,
    /// UTF-8 text, already cleaned of byte-order marks and NULs.
    pub text: String,
}

impl Document {
    /// A document under its own name, or under that of its text: two of one text are then one.
    #[must_use]
    pub fn new(id: Option<String>, text: String) -> Self {
        Self { id: id.unwrap_or_else(|| Self::digest(&text)), text }
    }

    /// BLAKE3, as hexadecimal digits: what stands for an id where it must not be read.
    #[must_use]
    pub fn digest(id: &str) -> String {
        blake3::hash(id.as_bytes()).to_hex().to_string()
    }

    /// The 64-bit name that shards store: the first 8 bytes of the BLAKE3 of its id, little endian.
    #[must_use]
    pub fn hash(id: &str) -> u64 {
        let mut prefix = [0; 8];
        prefix.copy_from_slice(&blake3::hash(id.as_bytes()).as_bytes()[..8]);
        u64::from_le_bytes(prefix)
    }

    /// Whether the document of that 64-bit name goes to the validation split, if that is to get such a fraction: by its
    /// name alone, so that it does so in every corpus that has it.
    #[must_use]
    pub fn is_valid(hash: u64, fraction: f64) -> bool {
        (hash as f64) < fraction * 2_f64.powi(64)
    }
}
