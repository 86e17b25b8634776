//! Compressed files of several members (gzip), streams (bzip2, xz) or frames (LZ4), with padding.

use std::io::{self, BufRead, Read};

use bzip2::bufread::BzDecoder;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;
use lz4_flex::frame::FrameDecoder;

/// End of the message of the error for other bytes after a member.
pub(super) const TRAILING_BYTES: &str = "follow the compressed text";

/// Decoder of one member. At its end, it has consumed no byte of the next one.
pub(super) trait MemberDecoder: Read + Sized {
    type Raw: BufRead;

    /// Name of the compression.
    const NAME: &'static str;

    /// Returns true if a member may begin with this byte.
    fn begins_with(byte: u8) -> bool;

    /// Begins a member. `memory_bytes` limits the memory of decoders that take their need from the file.
    fn begin(raw: Self::Raw, memory_bytes: u64) -> io::Result<Self>;

    fn end(self) -> Self::Raw;

    /// Whether the member ended by its own mark, and not with the file.
    fn is_whole(&self) -> bool {
        true
    }

    /// Returns the bytes of a frame to be skipped if an error says that one begins here.
    fn skipped(_error: &io::Error) -> Option<u64> {
        None
    }
}

impl<R: BufRead> MemberDecoder for GzDecoder<R> {
    type Raw = R;

    const NAME: &'static str = "gzip";

    fn begins_with(byte: u8) -> bool {
        byte == 0x1f
    }

    fn begin(raw: R, _memory_bytes: u64) -> io::Result<Self> {
        Ok(Self::new(raw))
    }

    fn end(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> MemberDecoder for BzDecoder<R> {
    type Raw = R;

    const NAME: &'static str = "bzip2";

    fn begins_with(byte: u8) -> bool {
        byte == b'B'
    }

    fn begin(raw: R, _memory_bytes: u64) -> io::Result<Self> {
        Ok(Self::new(raw))
    }

    fn end(self) -> R {
        self.into_inner()
    }
}

impl<R: BufRead> MemberDecoder for XzDecoder<R> {
    type Raw = R;

    const NAME: &'static str = "xz";

    fn begins_with(byte: u8) -> bool {
        byte == 0xfd
    }

    fn begin(raw: R, memory_bytes: u64) -> io::Result<Self> {
        Ok(Self::new_stream(raw, Stream::new_stream_decoder(memory_bytes, 0)?))
    }

    fn end(self) -> R {
        self.into_inner()
    }
}

/// First byte of a frame of the old format of LZ4, which ends with the file.
const LZ4_LEGACY: u8 = 0x02;

/// Decoder of one LZ4 frame. [`FrameDecoder`] takes the end of the file for the end of a frame.
pub(super) struct Lz4Frame<R: Read> {
    frame: FrameDecoder<EndSeen<R>>,
    is_legacy: bool,
}

/// Reader that remembers a read at the end of the file.
struct EndSeen<R> {
    raw: R,
    is_at_end: bool,
}

impl<R: Read> Read for EndSeen<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.raw.read(buffer)?;
        self.is_at_end |= count == 0 && !buffer.is_empty();
        Ok(count)
    }
}

impl<R: BufRead> Read for Lz4Frame<R> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.frame.read(buffer)
    }
}

impl<R: BufRead> MemberDecoder for Lz4Frame<R> {
    type Raw = R;

    const NAME: &'static str = "LZ4";

    fn begins_with(byte: u8) -> bool {
        // A frame, a frame of the old format, a frame to be skipped.
        matches!(byte, 0x04 | LZ4_LEGACY | 0x50..=0x5f)
    }

    fn begin(mut raw: R, _memory_bytes: u64) -> io::Result<Self> {
        let is_legacy = raw.fill_buf()?.first() == Some(&LZ4_LEGACY);
        Ok(Self { frame: FrameDecoder::new(EndSeen { raw, is_at_end: false }), is_legacy })
    }

    fn end(self) -> R {
        self.frame.into_inner().raw
    }

    fn is_whole(&self) -> bool {
        self.is_legacy || !self.frame.get_ref().is_at_end
    }

    fn skipped(error: &io::Error) -> Option<u64> {
        match error.get_ref()?.downcast_ref::<lz4_flex::frame::Error>()? {
            lz4_flex::frame::Error::SkippableFrame(bytes) => Some(u64::from(*bytes)),
            _ => None,
        }
    }
}

/// Decompressed bytes of all members of a file as one stream (`cat a.gz b.gz > c.gz`).
///
/// NUL bytes after a member are skipped, as `gzip` and Python's `gzip` do: tapes and object stores pad files to a block.
/// Other bytes after a member are an error.
pub(super) struct Members<D: MemberDecoder> {
    /// `None` after the last member.
    member: Option<D>,
    memory_bytes: u64,
}

impl<D: MemberDecoder> Members<D> {
    /// Begins the first member.
    pub(super) fn new(raw: D::Raw, memory_bytes: u64) -> io::Result<Self> {
        Ok(Self { member: Some(D::begin(raw, memory_bytes)?), memory_bytes })
    }

    /// Begins the member after `raw`'s padding, if there is one.
    fn begin_next(&mut self, mut raw: D::Raw) -> io::Result<()> {
        match next_byte_after_padding(&mut raw)? {
            None => Ok(()),
            Some(byte) if D::begins_with(byte) => {
                self.member = Some(D::begin(raw, self.memory_bytes)?);
                Ok(())
            }
            Some(_) => {
                let message = format!("bytes that are not {} {TRAILING_BYTES}", D::NAME);
                Err(io::Error::new(io::ErrorKind::InvalidData, message))
            }
        }
    }
}

impl<D: MemberDecoder> Read for Members<D> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let skipped = match member.read(buffer) {
                Ok(count) if count > 0 || buffer.is_empty() => return Ok(count),
                Ok(_) if !member.is_whole() => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) => 0,
                Err(error) => D::skipped(&error).ok_or(error)?,
            };
            // The member has ended, and its reader is at the byte after it.
            let Some(member) = self.member.take() else { break };
            let mut raw = member.end();
            if skipped > 0 && io::copy(&mut raw.by_ref().take(skipped), &mut io::sink())? < skipped {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            self.begin_next(raw)?;
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
    use std::io::{BufReader, Read as _};

    use super::*;
    use crate::testing::compressed;

    type Raw<'a> = BufReader<&'a [u8]>;

    /// Reads the members with a small buffer, so that padding crosses its boundaries.
    fn read(extension: &str, bytes: &[u8]) -> io::Result<String> {
        fn all<'a, D: MemberDecoder<Raw = Raw<'a>>>(bytes: &'a [u8]) -> io::Result<String> {
            let mut text = String::new();
            let raw = BufReader::with_capacity(7, bytes);
            Members::<D>::new(raw, 64 << 20)?.read_to_string(&mut text).map(|_| text)
        }
        match extension {
            "gz" => all::<GzDecoder<Raw<'_>>>(bytes),
            "bz2" => all::<BzDecoder<Raw<'_>>>(bytes),
            "xz" => all::<XzDecoder<Raw<'_>>>(bytes),
            _ => all::<Lz4Frame<Raw<'_>>>(bytes),
        }
    }

    const EXTENSIONS: [&str; 4] = ["gz", "bz2", "xz", "lz4"];

    fn member(extension: &str, text: &str) -> Vec<u8> {
        compressed(&format!("a.{extension}"), text.as_bytes())
    }

    #[test]
    fn members_are_one_text_with_any_padding() {
        for extension in EXTENSIONS {
            let member = |text| member(extension, text);
            for padding in [0, 1, 6, 7, 8, 1536] {
                let zeros = vec![0; padding];
                let bytes = [member("one\n"), zeros.clone(), member(""), member("two\n"), zeros].concat();
                assert_eq!(read(extension, &bytes).expect("a text"), "one\ntwo\n", "{padding} of {extension}");
            }
        }
    }

    #[test]
    fn other_bytes_after_a_member_are_an_error() {
        for extension in EXTENSIONS {
            let two = member(extension, "two");
            for rest in [b"garbage".as_slice(), b"\0\0\x01", b"\x1f", b"\x1f\x8c\0\0", &two[..two.len() - 2]] {
                let bytes = [member(extension, "one\n").as_slice(), rest].concat();
                let error = read(extension, &bytes).expect_err("not of that compression");
                assert!(!error.to_string().is_empty(), "{error}");
            }
        }
    }

    #[test]
    fn frames_to_be_skipped_are_skipped() {
        let skipped = [0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
        let bytes = [&skipped[..], &member("lz4", "one\n"), &skipped, &member("lz4", "two\n"), &skipped].concat();
        assert_eq!(read("lz4", &bytes).expect("a text"), "one\ntwo\n");
        read("lz4", &bytes[..bytes.len() - 1]).expect_err("a skipped frame is cut");
    }
}
