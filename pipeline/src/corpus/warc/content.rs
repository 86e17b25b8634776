//! Text in the content of a WARC record.

use std::io::Read as _;

use encoding_rs::{Encoding, UTF_8};

use super::headers::{Headers, end};
use crate::corpus::decode::{Decoding, by_name};

/// Content of a record, from its headers and those of an HTTP response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// No content of a page.
    None,
    /// Content of a type that is not read.
    Unsupported,
    /// Plain text.
    Text(TextContent),
}

/// Plain text in the content of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TextContent {
    /// Bytes of the content before the text: the headers of a response.
    pub(super) start: usize,
    encoding: &'static Encoding,
}

impl Content {
    /// Returns the content of a record that is no HTTP response.
    pub(super) fn new(headers: &Headers) -> Self {
        let media_type = headers.media_type().map(|(name, _)| name);
        match headers.get("WARC-Type").unwrap_or_default() {
            "conversion" | "resource" => match media_type.as_deref() {
                None | Some("text/plain") => Self::Text(TextContent { start: 0, encoding: UTF_8 }),
                Some(_) => Self::Unsupported,
            },
            "response" => Self::Unsupported,
            _ => Self::None,
        }
    }

    /// Returns the content of an HTTP response that begins with these bytes.
    pub(super) fn of_response(head: &[u8]) -> Self {
        let Some(headers) = end(head).and_then(|end| Headers::parse(&head[..end])) else { return Self::Unsupported };
        let status = head.split(|&byte| byte == b' ').nth(1).and_then(|status| status.first());
        if status != Some(&b'2') {
            return Self::None;
        }
        let is_plain = |name: &str| headers.get(name).is_none_or(|value| value.eq_ignore_ascii_case("identity"));
        let Some((name, charset)) = headers.media_type() else { return Self::Unsupported };
        if name != "text/plain" || !is_plain("Content-Encoding") || !is_plain("Transfer-Encoding") {
            return Self::Unsupported;
        }
        match charset.map_or(Some(UTF_8), |label| by_name(&label)) {
            Some(encoding) => Self::Text(TextContent { start: headers.bytes, encoding }),
            None => Self::Unsupported,
        }
    }
}

/// Whether a record is an HTTP response, whose own headers tell the content.
pub(super) fn is_response(headers: &Headers) -> bool {
    headers.get("WARC-Type") == Some("response")
        && headers.media_type().is_some_and(|(name, _)| name == "application/http")
}

impl TextContent {
    /// Returns the text of a record with this content; stored in `room`. Bytes that are not of its encoding become
    /// invalid UTF-8, which is repaired and counted as in the other formats.
    pub(super) fn text(self, content: &[u8], mut room: Vec<u8>) -> Vec<u8> {
        let text = &content[self.start..];
        if self.encoding == UTF_8 {
            room.extend_from_slice(text);
        } else {
            Decoding::new(text, self.encoding).read_to_end(&mut room).expect("in memory");
        }
        room
    }
}
