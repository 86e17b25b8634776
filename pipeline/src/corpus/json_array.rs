//! JSON arrays: each element is a document.
//!
//! # What
//! A file `[{…}, {…}]`, on one line or many, of objects or of texts.
//!
//! # Why
//! `json.dump` and `pandas.DataFrame.to_json(orient="records")` write such files.
//!
//! # Definition
//! An element ends at a comma or the closing bracket outside of strings and inner brackets. It is read as a line of JSONL
//! is; an element that is a string is a text without an id. A broken element is skipped and counted; so are an array that
//! does not end, and each line of other text after an array. Arrays of joined files are read one after another. The file is
//! one piece, and read element by element.
//!
//! # Reference
//! RFC 8259, section 5.

use std::ops::Range;

use super::input_split::{PieceEnd, PieceReader, ReadOptions};
use super::inputs::InputFile;
use super::json_object::{Fields, parse, parse_text};
use super::json_text::JsonTextCounter;
use super::lines::Line;
use super::record::{Record, RecordBuffers, RejectReason};
use super::scanner::ByteScanner;
use crate::Result;

/// Reader of the elements of an array.
pub(super) struct ArrayRecords {
    bytes: ByteScanner,
    fields: Fields,
}

/// Element that was found.
struct Element {
    /// Bytes of the element that are ahead, without the delimiter. If it does not fit, none are ahead, and these are the
    /// bytes that were passed.
    length: u64,
    fits: bool,
    /// Bytes of its text, if it does not fit.
    text_bytes: u64,
    /// False if the file ends within it.
    is_whole: bool,
}

impl ArrayRecords {
    pub(super) fn open(file: &InputFile, reading: &ReadOptions) -> Result<Self> {
        let bytes = ByteScanner::open(file, &(0..file.bytes), reading)?;
        Ok(Self { bytes, fields: Fields::new(reading) })
    }

    /// Passes the next element to `take`. Returns false after the last.
    pub(super) fn each(&mut self, take: impl FnOnce(&[u8])) -> Result<bool> {
        if self.bytes.offset() == 0 {
            self.begin()?;
        }
        let Some(element) = self.find()? else { return Ok(false) };
        let length = if element.fits { usize::try_from(element.length).expect("it is in memory") } else { 0 };
        take(&self.bytes.ahead()[..length]);
        self.bytes.take(length);
        self.end_element(element.is_whole)?;
        Ok(true)
    }

    /// Takes the opening bracket. Returns the lines that break the rules before its first element.
    fn begin(&mut self) -> Result<Option<Range<u64>>> {
        self.bytes.take_byte_order_mark()?;
        if self.take_blanks()? == Some(b'[') {
            self.bytes.take(1);
        }
        match self.take_blanks()? {
            Some(b']') => {
                self.bytes.take(1);
                self.end_array()
            }
            next => Ok(next.is_none().then(|| self.one_line())),
        }
    }

    fn take_blanks(&mut self) -> Result<Option<u8>> {
        self.bytes.take_while(|byte| byte.is_ascii_whitespace())
    }

    /// Finds the end of the element that begins here. Returns `None` at the end of the file.
    fn find(&mut self) -> Result<Option<Element>> {
        let mut scan = ElementScan::default();
        let mut counter = None::<JsonTextCounter>;
        let mut is_string = false;
        let mut passed = 0;
        let mut scanned = 0;
        loop {
            let end = scan.push(&self.bytes.ahead()[scanned..]).map(|at| scanned + at);
            scanned = end.unwrap_or(self.bytes.ahead().len());
            if counter.is_none() && !self.bytes.reserve(scanned) {
                is_string = self.bytes.ahead()[0] == b'"';
                let mut text = JsonTextCounter::new(&self.fields.text);
                if is_string {
                    let name = serde_json::to_string(&self.fields.text).unwrap_or_default();
                    text.push(format!("{{{name}:").as_bytes());
                }
                counter = Some(text);
            }
            if let Some(counter) = &mut counter {
                counter.push(&self.bytes.ahead()[..scanned]);
                self.bytes.take(scanned);
                passed += scanned as u64;
                scanned = 0;
                self.bytes.release();
            }
            let is_whole = end.is_some();
            if is_whole || !self.bytes.more()? {
                let length = passed + scanned as u64;
                if let (Some(counter), true) = (&mut counter, is_string) {
                    counter.push(b"}");
                }
                let text_bytes = counter.as_ref().and_then(JsonTextCounter::finish).unwrap_or(0);
                let fits = counter.is_none();
                return Ok((length > 0).then_some(Element { length, fits, text_bytes, is_whole }));
            }
        }
    }

    /// Takes the delimiter of an element, if it has one. Returns the lines that break the rules after it.
    fn end_element(&mut self, is_whole: bool) -> Result<Option<Range<u64>>> {
        if !is_whole {
            return Ok(None);
        }
        let is_last = self.bytes.ahead().first() == Some(&b']');
        self.bytes.take(1);
        if is_last {
            return self.end_array();
        }
        match self.take_blanks()? {
            // A comma after the last element.
            Some(b']') => {
                self.bytes.take(1);
                self.end_array()
            }
            next => Ok(next.is_none().then(|| self.one_line())),
        }
    }

    /// Takes what is between the end of an array and the first element of the next one, as in joined files. Returns the
    /// lines of anything else.
    fn end_array(&mut self) -> Result<Option<Range<u64>>> {
        loop {
            match self.take_blanks()? {
                None => return Ok(None),
                Some(b'[') => self.bytes.take(1),
                Some(_) => {
                    let first = self.bytes.line();
                    self.bytes.pass(u64::MAX)?;
                    return Ok(Some(first..self.bytes.line() + 1));
                }
            }
            match self.take_blanks()? {
                None => return Ok(Some(self.one_line())),
                Some(b']') => self.bytes.take(1),
                Some(_) => return Ok(None),
            }
        }
    }

    fn one_line(&self) -> Range<u64> {
        self.bytes.line()..self.bytes.line() + 1
    }

    fn record(&self, element: &Element, start: u64, line: u64, spare: &mut RecordBuffers) -> Record {
        let length = usize::try_from(element.length).expect("it is in memory");
        let bytes = self.bytes.ahead()[..length].trim_ascii_end();
        let range = start..start + bytes.len().max(1) as u64;
        if !element.is_whole {
            return Record::rejected(RejectReason::BrokenJson, range, line);
        }
        let is_text = bytes.first() == Some(&b'"');
        let line = Line { bytes, fits: true, range, number: line };
        if is_text { parse_text(&self.fields, &line, spare) } else { parse(&self.fields, &line, spare) }
    }
}

impl PieceReader for ArrayRecords {
    fn next(&mut self, spare: &mut RecordBuffers) -> Result<Option<Record>> {
        self.bytes.release();
        if self.bytes.offset() == 0
            && let Some(lines) = self.begin()?
        {
            let end = self.bytes.offset();
            return Ok((end > 0).then(|| Record::rejected_lines(RejectReason::BrokenJson, 0..end, lines)));
        }
        let start = self.bytes.offset();
        let line = self.bytes.line();
        let Some(element) = self.find()? else { return Ok(None) };
        let mut record = if element.fits {
            let record = self.record(&element, start, line, spare);
            self.bytes.take(usize::try_from(element.length).expect("it is in memory"));
            record
        } else {
            self.bytes.require_skippable(line, element.text_bytes)?;
            Record::rejected(RejectReason::TooLong, start..start + element.length, line)
        };
        if let Some(lines) = self.end_element(element.is_whole)? {
            record.complaints.extend(Record::rejected_lines(RejectReason::BrokenJson, 0..0, lines).complaints);
        }
        Ok(Some(record))
    }

    fn skip(&mut self, to: u64) -> Result<()> {
        self.bytes.skip(to)
    }

    fn reached(&self) -> PieceEnd {
        self.bytes.reached()
    }
}

/// Search for the end of an element.
#[derive(Default)]
struct ElementScan {
    depth: u64,
    in_string: bool,
    is_escaped: bool,
}

impl ElementScan {
    /// Scans the next part. Returns the position of the delimiter after the element, if it is in this part.
    fn push(&mut self, part: &[u8]) -> Option<usize> {
        let mut at = 0;
        while at < part.len() {
            if self.is_escaped {
                self.is_escaped = false;
                at += 1;
            } else if self.in_string {
                at += memchr::memchr2(b'"', b'\\', &part[at..])?;
                self.is_escaped = part[at] == b'\\';
                self.in_string = self.is_escaped;
                at += 1;
            } else {
                match part[at] {
                    b',' | b']' if self.depth == 0 => return Some(at),
                    b'"' => self.in_string = true,
                    b'{' | b'[' => self.depth += 1,
                    b'}' | b']' => self.depth = self.depth.saturating_sub(1),
                    _ => {}
                }
                at += 1;
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use crate::corpus::tests::{config, read};
    use crate::corpus::{AnyFormat, InvalidFilePolicy};
    use crate::testing::write_all;

    fn elements(text: impl AsRef<[u8]>) -> (Vec<String>, Vec<String>) {
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a.json", text)]);
        let mut cut = config(home.path(), AnyFormat::of_kind("jsonl").expect("known"), Some(1));
        cut.config.on_invalid_file = InvalidFilePolicy::Error;
        read(&cut).expect("readable")
    }

    #[test]
    fn elements_are_documents_in_any_layout() {
        let pretty =
            "[\n  {\n    \"id\": 1,\n    \"text\": \"a, ]\\\" }\"\n  },\n  {\n    \"text\": \"b\\\\\"\n  }\n]\n";
        let expected = vec!["a, ]\" }".to_owned(), "b\\".to_owned()];
        assert_eq!(elements(pretty), (expected.clone(), vec![]));
        assert_eq!(elements("[{\"text\":\"a, ]\\\" }\",\"x\":[[1],{}]},{\"text\":\"b\\\\\"}]"), (expected, vec![]));
        let texts = "\u{feff}[\"a\", \"b\\u00e9\", \"\",\n\"c\", ]";
        let found = elements(texts);
        assert_eq!(found.0, ["a", "bé", "c"]);
        assert_eq!(found.1, ["empty_document@a.json:1"]);
        for empty in ["[]", " [ ]\n", "[\n]"] {
            assert_eq!(elements(empty), (vec![], vec![]), "{empty}");
        }
    }

    #[test]
    fn texts_are_repaired_and_counted_as_those_of_lines_are() {
        let texts: [&[u8]; 7] =
            [b"a", b"b\xff", b"c\\ud800", b"\\ud83d\\ude42", b"d\xff\\ud800", b"e\\ud8", b"\\u0000f\\ufffd"];
        let lines: Vec<u8> = texts.iter().flat_map(|text| [&b"{\"text\": \""[..], text, b"\"}\n"].concat()).collect();
        let home = tempfile::tempdir().expect("a temporary folder");
        write_all(home.path(), &[("a.json", lines)]);
        let expected = read(&config(home.path(), AnyFormat::of_kind("jsonl").expect("known"), None)).expect("readable");
        assert_eq!(expected.0, ["a", "b\u{fffd}", "c\u{fffd}", "\u{1f642}", "d\u{fffd}\u{fffd}", "f\u{fffd}"]);
        let counted = ["invalid_utf8:2", "invalid_utf8:3", "invalid_utf8:5", "broken_json:6", "nul:7"];
        assert_eq!(expected.1, counted.map(|complaint| complaint.replace(':', "@a.json:")));
        let array: Vec<Vec<u8>> = texts.iter().map(|text| [&b"\""[..], text, b"\""].concat()).collect();
        assert_eq!(elements([&b"["[..], &array.join(&b",\n"[..]), b"]"].concat()), expected);
    }

    #[test]
    fn broken_arrays_are_counted_with_their_lines() {
        for (text, texts, complaint) in [
            ("[\n{\"text\": \"a\"},\n{\"text\": \"b", vec!["a"], "broken_json@a.json:3"),
            ("[\n{\"text\": \"a\"},\n", vec!["a"], "broken_json@a.json:3"),
            ("[\n{\"text\": \"a\"}\n", vec![], "broken_json@a.json:2"),
            ("[\n{\"text\": \"a\"} {\"text\": \"b\"},\n{\"text\": \"c\"}]", vec!["c"], "broken_json@a.json:2"),
            ("[\n", vec![], "broken_json@a.json:2"),
        ] {
            let found = elements(text);
            assert_eq!(
                (found.0, found.1),
                (texts.iter().map(ToString::to_string).collect(), vec![complaint.to_owned()]),
                "{text}"
            );
        }
    }

    #[test]
    fn joined_arrays_are_read_and_other_text_counts_by_line() {
        let joined = "[\n\"a\"]\n[] [\n\"b\", \"c\"\n]\n";
        assert_eq!(elements(joined), (["a", "b", "c"].map(str::to_owned).to_vec(), vec![]));
        let lost = "[\n{\"text\": \"a\"}] x\n{\"text\": \"b\"}\ny";
        let complaints = [2, 3, 4].map(|line| format!("broken_json@a.json:{line}"));
        assert_eq!(elements(lost), (vec!["a".to_owned()], complaints.to_vec()));
        assert_eq!(elements("[\n\"a\"]\n[").1, ["broken_json@a.json:3"]);
    }

    #[test]
    fn only_the_text_of_an_element_decides_whether_it_is_too_long() {
        let long = "x".repeat(300);
        let home = tempfile::tempdir().expect("a temporary folder");
        let file = format!("[\"a\", \"{long}\", {{\"y\": 1, \"text\": \"{long}\"}}, {{\"text\": \"b\"}}]");
        write_all(home.path(), &[("a.json", file)]);
        let mut cut = config(home.path(), AnyFormat::of_kind("jsonl").expect("known"), None);
        cut.config.reading.max_document_bytes = 200;
        let error = read(&cut).expect_err("too long").to_string();
        assert!(error.contains("a.json") && error.contains("`prepare.max_document_bytes`"), "{error}");
        cut.config.reading.skip_above_bytes = Some(200);
        let found = read(&cut).expect("skipped");
        assert_eq!(found, (vec!["a".into(), "b".into()], vec!["too_long@a.json:1".to_owned(); 2]));
        let other = format!("[{{\"text\": \"b\", \"other\": \"{long}\"}}]");
        write_all(home.path(), &[("a.json", other)]);
        read(&cut).expect_err("the text is short, so it must not be skipped");
    }
}
