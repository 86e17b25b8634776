//! Length of the text in a JSON object that is read without holding it.

/// Counter of the bytes of the text in an object, of which it gets one part after the other.
///
/// The count is a lower bound, so that no text is taken for too long that is not: an unpaired surrogate counts 2 bytes,
/// an invalid byte 1, and each is replaced by 3. Keys with escapes are not recognized.
pub(super) struct JsonTextCounter {
    /// Name of the text field.
    field: Vec<u8>,
    /// Open objects and arrays.
    depth: u32,
    /// Open string.
    string: Option<JsonString>,
    /// Key of the outer object so far, with one byte more than the field at most.
    key: Vec<u8>,
    /// Whether the next string of the outer object is a value.
    is_value: bool,
    /// Escape sequence that is not complete.
    escape: Option<Escape>,
    /// Bytes of the newest text.
    found: Option<u64>,
}

/// Purpose of a string.
#[derive(Clone, Copy, PartialEq, Eq)]
enum JsonString {
    /// Key of the outer object.
    Key,
    /// The text.
    Text,
    /// Any other string.
    Other,
}

/// Escape sequence that is not complete.
#[derive(Clone, Copy)]
struct Escape {
    /// Missing hexadecimal digits; `None` directly after the backslash.
    digits: Option<u8>,
    unit: u32,
}

impl JsonTextCounter {
    /// Creates a counter for the text in this field.
    pub(super) fn new(field: &str) -> Self {
        let field = field.as_bytes().to_vec();
        Self { field, depth: 0, string: None, key: Vec::new(), is_value: false, escape: None, found: None }
    }

    /// Counts the next part of the object.
    pub(super) fn push(&mut self, part: &[u8]) {
        for &byte in part {
            match self.string {
                Some(string) => self.in_string(string, byte),
                None => self.between_strings(byte),
            }
        }
    }

    /// Returns the bytes of the text. `None` if the object is not complete or has no such text.
    pub(super) fn finish(&self) -> Option<u64> {
        self.found.filter(|_| self.depth == 0 && self.string.is_none())
    }

    fn between_strings(&mut self, byte: u8) {
        match byte {
            b'{' | b'[' => self.depth = self.depth.saturating_add(1),
            b'}' | b']' => self.depth = self.depth.saturating_sub(1),
            b':' if self.depth == 1 => self.is_value = true,
            b',' if self.depth == 1 => self.is_value = false,
            b'"' => self.open_string(),
            _ => {}
        }
    }

    fn open_string(&mut self) {
        let is_outer = self.depth == 1;
        self.string = Some(if is_outer && !self.is_value {
            self.key.clear();
            JsonString::Key
        } else if is_outer && self.key == self.field {
            // The last of several fields of one name counts.
            self.found = Some(0);
            JsonString::Text
        } else {
            JsonString::Other
        });
    }

    fn in_string(&mut self, string: JsonString, byte: u8) {
        if let Some(escape) = self.escape.take() {
            return self.in_escape(escape, string, byte);
        }
        match byte {
            b'"' => self.string = None,
            b'\\' => self.escape = Some(Escape { digits: None, unit: 0 }),
            _ => self.count(string, byte, 1),
        }
    }

    fn in_escape(&mut self, escape: Escape, string: JsonString, byte: u8) {
        let Escape { digits, unit } = escape;
        match digits {
            None if byte == b'u' => self.escape = Some(Escape { digits: Some(4), unit: 0 }),
            None => self.count(string, b'\\', 1),
            Some(left) => {
                let unit = 16 * unit + char::from(byte).to_digit(16).unwrap_or(0);
                if left > 1 {
                    self.escape = Some(Escape { digits: Some(left - 1), unit });
                    return;
                }
                let bytes = match unit {
                    0..0x80 => 1,
                    // Two surrogates are one character of 4 bytes.
                    0x80..0x800 | 0xd800..0xe000 => 2,
                    _ => 3,
                };
                self.count(string, b'\\', bytes);
            }
        }
    }

    /// Counts a character of a string. `byte` is its byte in a key.
    fn count(&mut self, string: JsonString, byte: u8, bytes: u64) {
        match string {
            JsonString::Text => self.found = self.found.map(|found| found + bytes),
            JsonString::Key if self.key.len() <= self.field.len() => self.key.push(byte),
            JsonString::Key | JsonString::Other => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn count(line: &str, size: usize) -> Option<u64> {
        let mut counter = JsonTextCounter::new("text");
        line.as_bytes().chunks(size).for_each(|part| counter.push(part));
        counter.finish()
    }

    #[test]
    fn text_is_counted_as_it_is_read() {
        let cases = [
            (r#"{"text": "abc"}"#, Some(3)),
            (r#"{"a": {"text": "no"}, "b": ["text", "x"], "text" : "a\n\"\\\u00e9"}"#, Some(6)),
            (r#"{"text": "\ud83d\ude00 \u20ac"}"#, Some(8)),
            (r#"{"text": "long", "text": "s"}"#, Some(1)),
            (r#"{"texts": "abc", "tex": "abc"}"#, None),
            (r#"{"b": "text"}"#, None),
            (r#"{"text": 5}"#, None),
            (r#"["text", "abc"]"#, None),
            (r#"{"text": "abc"#, None),
            (r#"{"text": "abc""#, None),
            ("", None),
        ];
        for (line, expected) in cases {
            for size in [1, 2, 7, 1000] {
                assert_eq!(count(line, size), expected, "{line}");
            }
        }
        assert_eq!(count("{\"text\": \"größe\"}\r\n", 3), Some(7));
    }

    proptest! {
        #[test]
        fn any_text_has_the_count_of_its_bytes(text: String, other: String, size in 1_usize..20) {
            let line = json!({ "other": other, "nested": { "text": "x", other.clone(): [other] }, "text": text });
            prop_assert_eq!(count(&line.to_string(), size), Some(text.len() as u64));
        }
    }
}
