//! Delimiters and quotes of a table, told by its first line.

use csv_core::{Reader, ReaderBuilder, Terminator};

use super::lines::BYTE_ORDER_MARK;

/// Rules of a table as text.
#[derive(Clone, Copy, Debug)]
pub(super) struct Dialect {
    /// Delimiter of the format. The first row of a table with quotes may tell another one.
    pub(super) delimiter: u8,
    pub(super) has_quotes: bool,
}

impl Dialect {
    /// Returns a parser of these rules.
    pub(super) fn parser(self) -> Reader {
        let mut builder = ReaderBuilder::new();
        builder.delimiter(self.delimiter).quoting(self.has_quotes).terminator(Terminator::CRLF);
        builder.build()
    }
}

/// Delimiters that programs write instead of commas, each with its name.
const OTHERS: [(u8, &str); 3] = [(b';', "semicolons"), (b'\t', "tabs"), (b'|', "vertical bars")];

/// Returns the delimiter that a line `sep=;` tells, which spreadsheets write before the first row.
pub(super) fn told(line: &[u8]) -> Option<u8> {
    match line.strip_prefix(b"sep=")? {
        &[delimiter] => Some(delimiter),
        _ => None,
    }
}

/// Returns the delimiter with which the first row names the column `wanted`. If none does, the one that divides the row, so
/// that a message has the names.
pub(super) fn find(line: &[u8], usual: u8, wanted: &str) -> u8 {
    let others = || OTHERS.iter().map(|(delimiter, _)| *delimiter);
    let names = |delimiter: u8| names(line, delimiter);
    let found =
        std::iter::once(usual).chain(others()).find(|delimiter| names(*delimiter).iter().any(|name| name == wanted));
    let divides =
        || (names(usual).len() == 1).then(|| others().find(|delimiter| names(*delimiter).len() > 1)).flatten();
    found.or_else(divides).unwrap_or(usual)
}

/// Returns the fields of a line.
fn names(line: &[u8], delimiter: u8) -> Vec<String> {
    let line = [line, b"\n"].concat();
    let mut text = vec![0; line.len()];
    let mut ends = vec![0; line.len() + 1];
    let mut reader = ReaderBuilder::new().delimiter(delimiter).build();
    let (.., count) = reader.read_record(&line, &mut text, &mut ends);
    let starts = std::iter::once(0).chain(ends.iter().copied());
    let fields = starts.zip(&ends[..count]);
    fields.map(|(start, end)| String::from_utf8_lossy(&text[start..*end]).trim().to_owned()).collect()
}

/// Returns the reason why a table without quotes is of another format, if its first row has the column only between other
/// delimiters.
pub(super) fn problem(dialect: Dialect, head: &[u8], wanted: &str) -> Option<String> {
    let head = head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head);
    let line = head.split(|byte| matches!(byte, b'\n' | b'\r')).next().unwrap_or_default();
    let has = |delimiter: u8| names(line, delimiter).iter().any(|name| name == wanted);
    let mut others = [(b',', "commas")].into_iter().chain(OTHERS);
    let (_, between) = others.find(|(delimiter, _)| has(*delimiter)).filter(|_| !dialect.has_quotes && !has(b'\t'))?;
    let way = "rename it to `.csv`, and set `prepare.format = \"csv\"`";
    Some(format!("its first row has the column `{wanted}` between {between}, not tabs; {way}"))
}

/// Returns the reason why a table with `\"` for a quote within a field cannot be read, if its beginning has one.
pub(super) fn escaped_quotes(head: &[u8], delimiter: u8) -> Option<String> {
    let mut quotes = QuoteCheck::new(delimiter);
    quotes.push(head.strip_prefix(BYTE_ORDER_MARK).unwrap_or(head));
    quotes.has_escape.then(|| {
        "a quote within a field is written `\\\"`, as Spark does by default, and not twice as in RFC 4180; write the table with \
         `.option(\"escape\", \"\\\"\")`, or as Parquet"
            .to_owned()
    })
}

/// Position in a field.
#[derive(Clone, Copy, Debug)]
enum Place {
    Start,
    Bare,
    Quoted,
    /// After a quote that ends the field, unless a second one follows.
    Closed,
}

/// Check of the quotes of a row. The parser takes text after the quote that ends a field as part of the field.
pub(super) struct QuoteCheck {
    delimiter: u8,
    place: Place,
    /// Byte before the last quote within a field.
    before: u8,
    has_stray: bool,
    has_escape: bool,
}

impl QuoteCheck {
    pub(super) fn new(delimiter: u8) -> Self {
        Self { delimiter, place: Place::Start, before: 0, has_stray: false, has_escape: false }
    }

    /// Adds bytes of rows.
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let mut rest = bytes;
        while let Some(&byte) = rest.first() {
            let is_end = |byte: u8| byte == self.delimiter || matches!(byte, b'\n' | b'\r');
            let taken = match self.place {
                Place::Quoted => {
                    let quote = memchr::memchr(b'"', rest);
                    let inside = &rest[..quote.unwrap_or(rest.len())];
                    self.before = inside.last().copied().unwrap_or(self.before);
                    if quote.is_some() {
                        self.place = Place::Closed;
                    }
                    inside.len() + usize::from(quote.is_some())
                }
                Place::Bare => {
                    let end = memchr::memchr3(self.delimiter, b'\n', b'\r', rest);
                    if end.is_some() {
                        self.place = Place::Start;
                    }
                    end.map_or(rest.len(), |end| end + 1)
                }
                Place::Start | Place::Closed => {
                    let is_stray = matches!(self.place, Place::Closed) && byte != b'"' && !is_end(byte);
                    self.has_stray |= is_stray;
                    self.has_escape |= is_stray && self.before == b'\\';
                    self.place = match byte {
                        b'"' => Place::Quoted,
                        byte if is_end(byte) => Place::Start,
                        _ => Place::Bare,
                    };
                    self.before = 0;
                    1
                }
            };
            rest = &rest[taken..];
        }
    }

    /// Whether text follows a quote that ends a field.
    pub(super) fn has_stray(&self) -> bool {
        self.has_stray
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_column_tells_the_delimiter() {
        for (line, wanted, delimiter) in [
            ("id,text", "text", b','),
            ("id;text", "text", b';'),
            ("\"id\";\"text\"", "text", b';'),
            ("id\ttext", "text", b'\t'),
            ("id|text", "text", b'|'),
            ("text", "text", b','),
            ("a;b,text", "text", b','),
            ("id;body", "text", b';'),
            ("text;of,commas", "text", b';'),
        ] {
            assert_eq!(find(line.as_bytes(), b',', wanted) as char, delimiter as char, "{line}");
        }
        assert_eq!((told(b"sep=;"), told(b"sep=;x"), told(b"text")), (Some(b';'), None, None));
    }

    #[test]
    fn quotes_are_checked_alike_in_any_parts() {
        for (text, has_stray, has_escape) in [
            ("a,\"b\",c\n", false, false),
            ("\"a \"\"b\"\"\",\"\"\n", false, false),
            ("a \"b\", \"c\"\n", false, false),
            ("\"C:\\\",b\n", false, false),
            ("\"a\" b,c\n", true, false),
            ("\"a \\\"b\\\", c\",d\n", true, true),
        ] {
            for length in 1..=text.len() {
                let mut quotes = QuoteCheck::new(b',');
                text.as_bytes().chunks(length).for_each(|part| quotes.push(part));
                assert_eq!((quotes.has_stray, quotes.has_escape), (has_stray, has_escape), "{text} by {length}");
            }
        }
    }
}
