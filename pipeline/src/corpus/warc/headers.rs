//! Headers of WARC records and of HTTP responses: `Name: value` lines up to a blank one.

/// First bytes of every record, without the minor version.
pub(super) const MARK: &[u8] = b"WARC/1.";

/// Headers of a record.
pub(super) struct Headers {
    /// Length with the blank line.
    pub(super) bytes: usize,
    fields: Vec<(String, String)>,
}

/// Returns the end of the blank line after headers.
pub(super) fn end(bytes: &[u8]) -> Option<usize> {
    let mut from = 0;
    loop {
        let line_end = from + memchr::memchr(b'\n', &bytes[from..])?;
        match bytes[line_end + 1..] {
            [b'\n', ..] => return Some(line_end + 2),
            [b'\r', b'\n', ..] => return Some(line_end + 3),
            _ => from = line_end + 1,
        }
    }
}

/// End of the headers of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeaderEnd {
    /// Offset after the blank line.
    Blank(usize),
    /// Offset of a line that begins as another record does.
    Record(usize),
}

impl HeaderEnd {
    /// Returns the first end.
    pub(super) fn find(bytes: &[u8]) -> Option<Self> {
        memchr::memchr_iter(b'\n', bytes).find_map(|at| match &bytes[at + 1..] {
            [b'\n', ..] => Some(Self::Blank(at + 2)),
            [b'\r', b'\n', ..] => Some(Self::Blank(at + 3)),
            rest => rest.starts_with(MARK).then_some(Self::Record(at + 1)),
        })
    }

    pub(super) fn offset(self) -> usize {
        match self {
            Self::Blank(at) | Self::Record(at) => at,
        }
    }
}

/// Returns the value of a header; without angle brackets, if it is an address. The grammar of WARC 1.0 has brackets
/// around addresses by mistake, and some programs write them.
fn without_brackets<'a>(name: &str, value: &'a str) -> &'a str {
    let bare = value.strip_prefix('<').and_then(|value| value.strip_suffix('>'));
    bare.filter(|_| name.to_ascii_lowercase().ends_with("-uri")).unwrap_or(value)
}

impl Headers {
    /// Parses headers with their first line, which is no header, and their blank line. Returns `None` if a line is none.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let text = String::from_utf8_lossy(bytes);
        let mut fields: Vec<(String, String)> = Vec::new();
        for line in text.lines().skip(1).take_while(|line| !line.is_empty()) {
            if let (true, Some((_, value))) = (line.starts_with([' ', '\t']), fields.last_mut()) {
                value.push(' ');
                value.push_str(line.trim());
            } else {
                let (name, value) = line.split_once(':')?;
                let (name, value) = (name.trim(), value.trim());
                fields.push((name.to_owned(), without_brackets(name, value).to_owned()));
            }
        }
        Some(Self { bytes: bytes.len(), fields })
    }

    /// Returns the value of a header, in any case of letters.
    pub(super) fn get(&self, name: &str) -> Option<&str> {
        let found = self.fields.iter().find(|(found, _)| found.eq_ignore_ascii_case(name));
        found.map(|(_, value)| value.as_str())
    }

    /// Returns the length of the content.
    pub(super) fn length(&self) -> Option<u64> {
        self.get("Content-Length")?.parse().ok()
    }

    /// Returns the media type in lower case, and its `charset`.
    pub(super) fn media_type(&self) -> Option<(String, Option<String>)> {
        let mut parts = self.get("Content-Type")?.split(';');
        let name = parts.next()?.trim().to_ascii_lowercase();
        let charset = parts.find_map(|part| {
            let (key, value) = part.split_once('=')?;
            key.trim().eq_ignore_ascii_case("charset").then(|| value.trim().trim_matches('"').to_owned())
        });
        Some((name, charset))
    }
}
