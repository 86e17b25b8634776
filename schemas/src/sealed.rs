//! JSON with a checksum, which detects every changed byte: the format of small files that must be read whole or
//! refused.
//!
//! ```json
//! { "format": "cloze manifest", "version": 2, "content": { … }, "checksum": "…" }
//! ```
//!
//! `checksum` is the BLAKE3 of `content` as it is written here. A reader accepts a file only if it equals, byte for
//! byte, the serialization of its content: then no byte was changed, added or lost. Another `version` is refused before
//! any other check.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Sealable type: plain data with string keys and finite numbers.
pub trait Sealed: Serialize + DeserializeOwned {
    /// Format name in the file.
    const FORMAT: &'static str;
    /// Written version, and the only one that is read.
    const VERSION: u32;
    /// True for files that people read: one value per line.
    const PRETTY: bool;

    /// Returns the bytes of the file.
    #[must_use]
    fn seal(&self) -> Vec<u8> {
        let envelope =
            Envelope { format: Self::FORMAT, version: Self::VERSION, content: self, checksum: checksum(self) };
        let mut bytes = render(&envelope, Self::PRETTY);
        bytes.push(b'\n');
        bytes
    }

    /// Parses the output of [`seal`](Self::seal), and no other text.
    ///
    /// # Errors
    /// [`SealError`]: another version, not such a file at all, or a changed byte.
    fn unseal(bytes: &[u8]) -> Result<Self, SealError> {
        let value: Value = serde_json::from_slice(bytes)?;
        let version = value.get("version").or_else(|| value.get("state")?.get("version")).and_then(Value::as_u64);
        if let Some(found) = version.filter(|&found| found != u64::from(Self::VERSION)) {
            return Err(SealError::Version { found, reads: Self::VERSION });
        }
        let found: UnsealedContent<Self> = serde_json::from_value(value)?;
        if found.format != Self::FORMAT {
            return Err(SealError::Format { found: found.format, expected: Self::FORMAT });
        }
        if found.content.seal() == bytes {
            Ok(found.content)
        } else if found.checksum == checksum(&found.content) {
            Err(SealError::Rewritten)
        } else {
            Err(SealError::Checksum)
        }
    }
}

/// Error of a refused sealed file.
#[derive(Debug, thiserror::Error)]
pub enum SealError {
    /// Not JSON, or JSON with other fields.
    #[error("not readable: {0}")]
    Syntax(#[from] serde_json::Error),
    /// File of another format.
    #[error("it is a `{found}`, not a `{expected}`")]
    Format {
        /// Format found.
        found: String,
        /// Expected format.
        expected: &'static str,
    },
    /// Written by another version.
    #[error("format version {found}, this program reads {reads}")]
    Version {
        /// Version found.
        found: u64,
        /// Version that is read.
        reads: u32,
    },
    /// A byte was changed.
    #[error("damaged: it does not match its own checksum")]
    Checksum,
    /// The content is as sealed, but its text was reformatted.
    #[error("reformatted: the content is unchanged, but the bytes differ; restore the original file")]
    Rewritten,
}

#[derive(Serialize)]
struct Envelope<'a, T> {
    format: &'a str,
    version: u32,
    content: &'a T,
    checksum: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct UnsealedContent<T> {
    format: String,
    #[serde(rename = "version")]
    _version: u32,
    content: T,
    checksum: String,
}

fn checksum(content: &impl Serialize) -> String {
    blake3::hash(&render(content, false)).to_hex().to_string()
}

fn render(value: &impl Serialize, pretty: bool) -> Vec<u8> {
    let bytes = if pretty { serde_json::to_vec_pretty(value) } else { serde_json::to_vec(value) };
    bytes.expect("plain data with string keys and finite numbers")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, PartialEq, Serialize, Deserialize)]
    #[serde(deny_unknown_fields)]
    struct Note {
        text: String,
        numbers: Vec<f64>,
    }

    impl Sealed for Note {
        const FORMAT: &'static str = "note";
        const VERSION: u32 = 3;
        const PRETTY: bool = true;
    }

    fn note() -> Note {
        Note { text: "a\n\"b\"".into(), numbers: vec![0.1, -3.0, 1e300] }
    }

    #[test]
    fn any_changed_byte_is_detected() {
        let bytes = note().seal();
        assert_eq!(Note::unseal(&bytes).expect("as written"), note());
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1;
            assert!(Note::unseal(&damaged).is_err(), "byte {index} of {}", bytes.len());
        }
        assert!(Note::unseal(&bytes[..bytes.len() - 1]).is_err(), "a cut tail");
        assert!(Note::unseal(&[&bytes[..], b"\n"].concat()).is_err(), "a longer tail");
    }

    #[test]
    fn other_versions_and_kinds_are_named() {
        let text = String::from_utf8(note().seal()).expect("JSON is UTF-8");
        let unseal = |text: &str| Note::unseal(text.as_bytes()).expect_err("another");
        assert!(matches!(
            unseal(&text.replacen("\"version\": 3", "\"version\": 9", 1)),
            SealError::Version { found: 9, reads: 3 }
        ));
        assert!(matches!(unseal("{\"state\": {\"version\": 1}}"), SealError::Version { found: 1, .. }));
        assert!(matches!(unseal(&text.replacen("\"note\"", "\"list\"", 1)), SealError::Format { .. }));
        assert!(matches!(unseal("[]"), SealError::Syntax(_)));
    }

    #[test]
    fn reformatted_file_is_refused_but_not_called_damaged() {
        let text = String::from_utf8(note().seal()).expect("JSON is UTF-8");
        for other in [text.replace('\n', "\r\n"), text.replace('\n', ""), text.replace("  ", "\t")] {
            assert!(matches!(Note::unseal(other.as_bytes()), Err(SealError::Rewritten)), "{other}");
            let changed = other.replacen("-3.0", "-4.0", 1);
            assert!(matches!(Note::unseal(changed.as_bytes()), Err(SealError::Checksum)), "{changed}");
        }
    }
}
