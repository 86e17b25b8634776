//! Compressions of files: extensions, first bytes, and the message if the two disagree.

use std::path::Path;

/// Compression of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Compression {
    Plain,
    Gzip,
    Zstd,
    Bzip2,
    Xz,
    Lz4,
}

/// Every compression.
const COMPRESSIONS: [Compression; 5] =
    [Compression::Gzip, Compression::Zstd, Compression::Bzip2, Compression::Xz, Compression::Lz4];

/// Returns a file name without the extension of its compression, in any case of letters.
#[must_use]
pub fn without_compression(name: &str) -> &str {
    let stem = name.rsplit_once('.').filter(|(_, extension)| Compression::from_extension(extension).is_some());
    stem.map_or(name, |(stem, _)| stem)
}

/// Whether a stream of zstd or LZ4 begins with a frame to be skipped, of any of the 16 kinds (RFC 8878, section 3.1.2).
pub(super) fn is_skippable(head: &[u8]) -> bool {
    head.len() >= 4 && head[0] & 0xf0 == 0x50 && head[1..4] == [0x2a, 0x4d, 0x18]
}

impl Compression {
    pub(super) fn from_path(path: &Path) -> Self {
        let extension = path.extension().map(|extension| extension.to_string_lossy());
        extension.and_then(|extension| Self::from_extension(&extension)).unwrap_or(Self::Plain)
    }

    fn from_extension(extension: &str) -> Option<Self> {
        COMPRESSIONS.into_iter().find(|compression| extension.eq_ignore_ascii_case(compression.program()[1]))
    }

    /// Detects the compression from the first bytes of a file.
    pub(super) fn of_head(head: &[u8]) -> Self {
        // The level, then the first block or the end of an empty stream. A text may begin with the first three letters.
        let is_bzip2 = head.starts_with(b"BZh")
            && head.get(4..10).is_some_and(|block| matches!(block, b"1AY&SY" | b"\x17\x72\x45\x38\x50\x90"));
        if head.starts_with(&[0x1f, 0x8b]) {
            Self::Gzip
        } else if is_skippable(head) || head.starts_with(&[0x28, 0xb5, 0x2f, 0xfd]) {
            Self::Zstd
        } else if is_bzip2 {
            Self::Bzip2
        } else if head.starts_with(b"\xfd7zXZ\0") {
            Self::Xz
        } else if head.starts_with(&[0x04, 0x22, 0x4d, 0x18]) || head.starts_with(&[0x02, 0x21, 0x4c, 0x18]) {
            Self::Lz4
        } else {
            Self::Plain
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "none",
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
            Self::Bzip2 => "bzip2",
            Self::Xz => "xz",
            Self::Lz4 => "LZ4",
        }
    }

    /// Program that compresses, and the extension of its files.
    pub(super) fn program(self) -> [&'static str; 2] {
        match self {
            Self::Plain => ["cat", ""],
            Self::Gzip => ["gzip", "gz"],
            Self::Zstd => ["zstd", "zst"],
            Self::Bzip2 => ["bzip2", "bz2"],
            Self::Xz => ["xz", "xz"],
            Self::Lz4 => ["lz4", "lz4"],
        }
    }

    /// Returns the message for a file with the name of this compression, and with the first bytes of `found`.
    pub(super) fn mismatch(self, found: Self, head: &[u8]) -> String {
        if self == Self::Plain {
            let [_, extension] = found.program();
            let name = found.name();
            return format!(
                "compressed with {name} although its name does not say so; add `.{extension}` to its name, or \
                 decompress it"
            );
        }
        let text = String::from_utf8_lossy(head);
        let start = text.lines().next().unwrap_or_default();
        let shown = if head.contains(&0) || start.contains('\u{fffd}') {
            String::new()
        } else {
            let start: String = start.chars().take(40).collect();
            format!("; it begins with {}", schemas::printable(&format!("`{start}`")))
        };
        let fix = if found == Self::Plain {
            "rename it if it is plain text, or download it again".to_owned()
        } else {
            format!("it is compressed with {}: rename it to `.{}`", found.name(), found.program()[1])
        };
        format!("not a {} file although its name says so{shown}; {fix}", self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::compressed;

    #[test]
    fn compressions_are_known_by_name_and_by_first_bytes() {
        for compression in COMPRESSIONS {
            let [_, extension] = compression.program();
            let name = format!("a.jsonl.{}", extension.to_uppercase());
            assert_eq!(Compression::from_path(Path::new(&name)), compression);
            assert_eq!(without_compression(&name), "a.jsonl");
            for text in ["", "some words"] {
                let head = compressed(&format!("a.{extension}"), text.as_bytes());
                assert_eq!(Compression::of_head(&head), compression, "{extension}");
            }
        }
        assert_eq!(without_compression("a.gz.txt"), "a.gz.txt");
        for text in ["BZh is a magic number", "BZh9", "", "\u{4}"] {
            assert_eq!(Compression::of_head(text.as_bytes()), Compression::Plain, "{text}");
        }
    }
}
