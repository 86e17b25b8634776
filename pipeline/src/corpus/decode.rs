//! Conversion of other encodings to UTF-8.

use std::io::{self, BufRead, Read};
use std::ops::Range;

use encoding_rs::{Decoder, DecoderResult, Encoding};

/// Byte that is in no UTF-8 text. It marks undecodable input, so that the reader finds it, counts it with its position,
/// and replaces it.
const NO_CHARACTER: u8 = 0xff;

/// Bytes of UTF-8 decoded at a time.
const BUFFER_BYTES: usize = 1 << 17;

/// Stream as UTF-8. A byte-order mark of UTF-8 or UTF-16 at its beginning overrides the encoding.
pub(super) struct Decoding<R> {
    raw: R,
    decoder: Decoder,
    text: Vec<u8>,
    /// Decoded bytes that are still to be read.
    left: Range<usize>,
    is_done: bool,
}

impl<R: BufRead> Decoding<R> {
    pub(super) fn new(raw: R, encoding: &'static Encoding) -> Self {
        Self { raw, decoder: encoding.new_decoder(), text: vec![0; BUFFER_BYTES], left: 0..0, is_done: false }
    }
}

impl<R: BufRead> BufRead for Decoding<R> {
    fn fill_buf(&mut self) -> io::Result<&[u8]> {
        while self.left.is_empty() && !self.is_done {
            let raw = self.raw.fill_buf()?;
            let is_last = raw.is_empty();
            let room = BUFFER_BYTES - 1;
            let (result, read, mut written) =
                self.decoder.decode_to_utf8_without_replacement(raw, &mut self.text[..room], is_last);
            self.raw.consume(read);
            match result {
                DecoderResult::Malformed(..) => {
                    self.text[written] = NO_CHARACTER;
                    written += 1;
                }
                DecoderResult::InputEmpty => self.is_done = is_last,
                DecoderResult::OutputFull => {}
            }
            self.left = 0..written;
        }
        Ok(&self.text[self.left.clone()])
    }

    fn consume(&mut self, count: usize) {
        self.left.start = (self.left.start + count).min(self.left.end);
    }
}

impl<R: BufRead> Read for Decoding<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.fill_buf()?.read(buffer)?;
        self.consume(count);
        Ok(count)
    }
}

/// Returns the encoding with that WHATWG label.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Encoding> {
    Encoding::for_label_no_replacement(name.as_bytes())
}

#[cfg(test)]
mod tests {
    use std::io::BufReader;

    use super::*;

    fn decoded(name: &str, bytes: &[u8]) -> Vec<u8> {
        let encoding = by_name(name).expect("a known name");
        // Three bytes at a time, so that characters are cut.
        let raw = BufReader::with_capacity(3, bytes);
        let mut text = Vec::new();
        Decoding::new(raw, encoding).read_to_end(&mut text).expect("in memory");
        text
    }

    #[test]
    fn text_of_an_encoding_is_that_text() {
        let utf16: Vec<u8> = "Gr\u{fc}\u{df}e \u{1f642}".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(decoded("utf-16le", &utf16), "Grüße 🙂".as_bytes());
        assert_eq!(decoded("latin1", b"caf\xe9 \x80"), "café €".as_bytes());
        assert_eq!(decoded("gbk", b"\xd6\xd0\xce\xc4\n"), "中文\n".as_bytes());
        assert_eq!(decoded("shift_jis", b"a\x82\xa0"), "aあ".as_bytes());
        let long = b"caf\xe9 ".repeat(1000);
        assert_eq!(decoded("windows-1252", &long), "café ".repeat(1000).as_bytes());
        assert_eq!(decoded("latin1", b"\xef\xbb\xbf\xc3\xa9"), "é".as_bytes(), "a mark says what it is");
        assert_eq!(decoded("utf-8", b""), b"");
        assert!(by_name("no such thing").is_none());
    }

    #[test]
    fn invalid_utf8_is_reported_with_its_offset() {
        assert_eq!(decoded("gbk", b"a\xffb"), b"a\xffb");
        assert_eq!(decoded("utf-8", b"a\xc3(\n"), b"a\xff(\n");
        assert_eq!(decoded("utf-16le", b"a\0\n"), b"a\xff", "half a character at the end");
    }
}
