//! Gzip files of several members, with padding.

use std::io::{self, BufRead, Read};

use flate2::bufread::GzDecoder;

/// First bytes of every gzip member (RFC 1952, section 2.3.1).
pub(super) const MAGIC: &[u8] = &[0x1f, 0x8b];

/// Message of the error for other bytes after a member.
pub(super) const TRAILING_BYTES: &str = "bytes that are not gzip follow the compressed text";

/// Decompressed bytes of all members of a gzip file as one stream (`cat a.gz b.gz > c.gz`).
///
/// NUL bytes after a member are skipped, as `gzip` and Python's `gzip` do: tapes and object stores pad files to a block.
/// Other bytes after a member are an error.
pub(super) struct GzipMembers<R: BufRead> {
    /// `None` after the last member.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipMembers<R> {
    pub(super) fn new(raw: R) -> Self {
        Self { member: Some(GzDecoder::new(raw)) }
    }
}

impl<R: BufRead> Read for GzipMembers<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let count = member.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            // The member has ended, and its reader is at the byte after its trailer.
            let Some(member) = self.member.take() else { break };
            let mut raw = member.into_inner();
            match next_byte_after_padding(&mut raw)? {
                None => break,
                Some(byte) if byte == MAGIC[0] => self.member = Some(GzDecoder::new(raw)),
                Some(_) => return Err(io::Error::new(io::ErrorKind::InvalidData, TRAILING_BYTES)),
            }
        }
        Ok(0)
    }
}

/// Skips NUL bytes. Returns the next byte without consuming it; `None` at the end.
fn next_byte_after_padding(raw: &mut impl BufRead) -> io::Result<Option<u8>> {
    loop {
        let buffer = raw.fill_buf()?;
        if buffer.is_empty() {
            return Ok(None);
        }
        if let Some(at) = buffer.iter().position(|&byte| byte != 0) {
            let byte = buffer[at];
            raw.consume(at);
            return Ok(Some(byte));
        }
        let length = buffer.len();
        raw.consume(length);
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufReader, Read as _, Write as _};

    use super::GzipMembers;

    fn member(text: &str) -> Vec<u8> {
        let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
        encoder.write_all(text.as_bytes()).expect("in memory");
        encoder.finish().expect("in memory")
    }

    /// Reads the members with a small buffer, so that padding crosses its boundaries.
    fn read(bytes: &[u8]) -> std::io::Result<String> {
        let mut text = String::new();
        GzipMembers::new(BufReader::with_capacity(7, bytes)).read_to_string(&mut text).map(|_| text)
    }

    #[test]
    fn members_are_one_text_with_any_padding() {
        for padding in [0, 1, 6, 7, 8, 1536] {
            let zeros = vec![0; padding];
            let bytes = [member("one\n"), zeros.clone(), member(""), member("two\n"), zeros].concat();
            assert_eq!(read(&bytes).expect("a text"), "one\ntwo\n", "{padding}");
        }
    }

    #[test]
    fn other_bytes_after_a_member_are_an_error() {
        for rest in [b"garbage".as_slice(), b"\0\0\x01", b"\x1f", b"\x1f\x8c\0\0", &member("two")[..12]] {
            let error = read(&[member("one\n").as_slice(), rest].concat()).expect_err("no gzip");
            assert!(!error.to_string().is_empty(), "{error}");
        }
    }
}
