//! Memory that the decoder of a compressed file needs, from the first bytes of the file.
//!
//! - zstd: the window of the first frame ([`window`](super::window)).
//! - xz: the dictionary of the first block. Block header (The .xz File Format, section 3.1): size, flags, two optional
//!   sizes, then the filters; the last is LZMA2 with one byte for the dictionary (section 5.3.1).
//! - LZ4: two blocks of the size in the frame descriptor (LZ4 Frame Format 1.6.2, "BD byte"), with the one to decode.
//! - bzip2: 900 kB blocks, each byte with a 32-bit index.

use super::compression::Compression;
use super::window::window_bytes;

/// Dictionary of `xz -6`, the default. Lower limit for any first block, since later ones may need more than it does.
const XZ_DICTIONARY_BYTES: u64 = 8 << 20;

/// Memory of the xz decoder in addition to its dictionary.
pub(super) const XZ_EXTRA_BYTES: u64 = 1 << 20;

const BZIP2_BYTES: u64 = 4 << 20;

/// Largest block of LZ4.
const LZ4_BLOCK_BYTES: u64 = 4 << 20;

/// Block of the old format of LZ4.
const LZ4_LEGACY_BLOCK_BYTES: u64 = 8 << 20;

/// Returns the memory for a file with these first bytes; a usual need if they are unreadable.
pub(super) fn decoder_bytes(compression: Compression, head: &[u8]) -> u64 {
    match compression {
        Compression::Plain | Compression::Gzip => 0,
        Compression::Bzip2 => BZIP2_BYTES,
        Compression::Zstd => window_bytes(head),
        Compression::Xz => xz_dictionary(head).unwrap_or(0).max(XZ_DICTIONARY_BYTES),
        Compression::Lz4 if head.starts_with(&[0x02, 0x21]) => 3 * LZ4_LEGACY_BLOCK_BYTES,
        // Later frames may have larger blocks than the first one.
        Compression::Lz4 => 3 * LZ4_BLOCK_BYTES,
    }
}

/// Returns the dictionary bytes of the first block.
fn xz_dictionary(head: &[u8]) -> Option<u64> {
    const LZMA2: u64 = 0x21;
    let (&flags, mut rest) = head.get(13..)?.split_first()?;
    for size in [0x40, 0x80] {
        if flags & size != 0 {
            number(&mut rest)?;
        }
    }
    for _ in 0..=flags & 3 {
        let id = number(&mut rest)?;
        let length = usize::try_from(number(&mut rest)?).ok()?;
        let properties = rest.get(..length)?;
        rest = &rest[length..];
        if id == LZMA2 {
            return match *properties.first()? {
                40 => Some(u64::from(u32::MAX)),
                bits @ 0..40 => Some((2 | u64::from(bits & 1)) << (bits / 2 + 11)),
                _ => None,
            };
        }
    }
    None
}

/// Reads a number of groups of seven bits, the lowest first.
fn number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0;
    for shift in (0..63).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Some(number);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use liblzma::stream::{Check, Filters, LzmaOptions, Stream};

    use super::*;

    #[test]
    fn the_dictionary_is_the_one_of_the_encoder() {
        use std::io::Write as _;
        for bytes in [4096, 1 << 20, 3 << 19, 64 << 20] {
            let mut options = LzmaOptions::new_preset(0).expect("a preset");
            options.dict_size(bytes);
            let mut filters = Filters::new();
            filters.x86().lzma2(&options);
            let stream = Stream::new_stream_encoder(&filters, Check::Crc64).expect("an encoder");
            let mut encoder = liblzma::write::XzEncoder::new_stream(Vec::new(), stream);
            encoder.write_all(b"some words").expect("in memory");
            let file = encoder.finish().expect("in memory");
            assert_eq!(xz_dictionary(&file), Some(u64::from(bytes)));
            assert!((0..19).all(|length| xz_dictionary(&file[..length]).is_none()), "no header");
        }
        assert_eq!(decoder_bytes(Compression::Xz, b"text"), XZ_DICTIONARY_BYTES);
    }
}
