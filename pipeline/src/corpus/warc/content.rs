//! Text in the content of a WARC record.

use encoding_rs::{Encoding, UTF_8};

use super::headers::{Headers, end};

/// Content of a record, from its headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Content {
    /// No content of a page.
    None,
    /// Content of a type that is not read.
    Unsupported,
    /// Plain text.
    Text,
    /// HTTP response.
    Response,
}

/// Text of a record.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Body {
    None,
    Unsupported,
    Text(Vec<u8>),
}

impl Content {
    pub(super) fn new(headers: &Headers) -> Self {
        let media_type = headers.media_type().map(|(name, _)| name);
        match headers.get("WARC-Type").unwrap_or_default() {
            "conversion" | "resource" => match media_type.as_deref() {
                None | Some("text/plain") => Self::Text,
                Some(_) => Self::Unsupported,
            },
            "response" if media_type.as_deref() == Some("application/http") => Self::Response,
            "response" => Self::Unsupported,
            _ => Self::None,
        }
    }

    /// Whether the record may be a document.
    pub(super) fn is_read(self) -> bool {
        matches!(self, Self::Text | Self::Response)
    }

    /// Returns the text of a record with this content; stored in `room`.
    pub(super) fn body(self, content: &[u8], mut room: Vec<u8>) -> Body {
        match self {
            Self::None => Body::None,
            Self::Unsupported => Body::Unsupported,
            Self::Text => {
                room.extend_from_slice(content);
                Body::Text(room)
            }
            Self::Response => response(content, room),
        }
    }
}

/// Returns the text of an HTTP response.
fn response(content: &[u8], mut room: Vec<u8>) -> Body {
    let Some(headers) = end(content).and_then(|end| Headers::parse(&content[..end])) else { return Body::Unsupported };
    let status = content.split(|&byte| byte == b' ').nth(1).and_then(|status| status.first());
    if status != Some(&b'2') {
        return Body::None;
    }
    let is_plain = |name: &str| headers.get(name).is_none_or(|value| value.eq_ignore_ascii_case("identity"));
    let Some((name, charset)) = headers.media_type() else { return Body::Unsupported };
    if name != "text/plain" || !is_plain("Content-Encoding") || !is_plain("Transfer-Encoding") {
        return Body::Unsupported;
    }
    let encoding = charset.map_or(Some(UTF_8), |label| Encoding::for_label_no_replacement(label.as_bytes()));
    let Some(encoding) = encoding else { return Body::Unsupported };
    let text = &content[headers.bytes..];
    if encoding == UTF_8 {
        room.extend_from_slice(text);
    } else {
        let (text, _) = encoding.decode_without_bom_handling(text);
        room.extend_from_slice(text.as_bytes());
    }
    Body::Text(room)
}
