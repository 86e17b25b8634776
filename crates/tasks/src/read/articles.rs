//! Articles of a SQuAD file, one at a time.
//!
//! SQuAD files are one JSON object, often on one line. The scanner finds the objects of the array `data` without reading
//! the whole file into memory, and leaves their content to the JSON parser.

use std::io::BufRead;

use super::lines::too_long;
use crate::RowError;

const NO_SQUAD: &str = "write an object with the key `data`, an array of articles, as SQuAD does";

/// Bytes of one article, with the line on which it begins.
pub(super) struct ArticleBytes {
    pub(super) line: u64,
    pub(super) json: Vec<u8>,
}

/// Scanner of the articles of a SQuAD file.
pub(super) struct ArticleScanner {
    input: Box<dyn BufRead>,
    max_bytes: usize,
    line: u64,
    depth: usize,
    string: StringState,
    /// Newest string at depth 1: the key, where a value begins.
    key: Vec<u8>,
    /// Whether the scanner is within the array `data`.
    in_data: bool,
    has_data: bool,
    has_begun: bool,
    article: Option<ArticleBytes>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum StringState {
    Outside,
    Inside,
    Escaped,
}

impl ArticleScanner {
    pub(super) fn new(input: Box<dyn BufRead>, max_bytes: usize) -> Self {
        Self {
            input,
            max_bytes,
            line: 1,
            depth: 0,
            string: StringState::Outside,
            key: Vec::new(),
            in_data: false,
            has_data: false,
            has_begun: false,
            article: None,
        }
    }

    /// Returns the next article.
    pub(super) fn next(&mut self) -> Option<Result<ArticleBytes, RowError>> {
        loop {
            let block = match self.input.fill_buf() {
                Ok(block) => block.to_vec(),
                Err(error) => return Some(Err(RowError::io(self.line, &error))),
            };
            if block.is_empty() {
                return self.end().map(Err);
            }
            for (at, &byte) in block.iter().enumerate() {
                match self.push(byte) {
                    Ok(None) => {}
                    Ok(Some(article)) => {
                        self.input.consume(at + 1);
                        return Some(Ok(article));
                    }
                    Err(error) => return Some(Err(error)),
                }
            }
            self.input.consume(block.len());
        }
    }

    /// Returns the error of a file that ends too early, or that has no articles.
    fn end(&self) -> Option<RowError> {
        if self.depth > 0 || !self.has_begun {
            return Some(RowError::new(self.line, "the file ends within the JSON", "copy the file again").last());
        }
        (!self.has_data).then(|| RowError::new(0, "no array `data`", NO_SQUAD))
    }

    /// Reads one byte. Returns an article at its last byte.
    fn push(&mut self, byte: u8) -> Result<Option<ArticleBytes>, RowError> {
        if byte == b'\n' {
            self.line += 1;
        }
        if let Some(article) = &mut self.article {
            if article.json.len() >= self.max_bytes {
                return Err(too_long(article.line, self.max_bytes).last());
            }
            article.json.push(byte);
        }
        match self.string {
            StringState::Escaped => self.string = StringState::Inside,
            StringState::Inside => self.push_in_string(byte),
            StringState::Outside => return self.push_outside(byte),
        }
        Ok(None)
    }

    fn push_in_string(&mut self, byte: u8) {
        match byte {
            b'\\' => self.string = StringState::Escaped,
            b'"' => self.string = StringState::Outside,
            // A longer key is not `data`.
            _ if self.depth == 1 && self.key.len() < 8 => self.key.push(byte),
            _ => {}
        }
    }

    fn push_outside(&mut self, byte: u8) -> Result<Option<ArticleBytes>, RowError> {
        if !self.has_begun && !byte.is_ascii_whitespace() {
            // A byte order mark is skipped.
            if matches!(byte, 0xEF | 0xBB | 0xBF) {
                return Ok(None);
            }
            if byte != b'{' {
                return Err(RowError::new(self.line, "no JSON object", NO_SQUAD).last());
            }
            self.has_begun = true;
        }
        if self.in_data && self.depth == 2 && !(byte.is_ascii_whitespace() || matches!(byte, b',' | b'{' | b']')) {
            return Err(RowError::new(self.line, "`data` holds a value that is no article", NO_SQUAD).last());
        }
        match byte {
            b'"' => {
                self.string = StringState::Inside;
                if self.depth == 1 {
                    self.key.clear();
                }
            }
            b'{' | b'[' => self.open(byte),
            b'}' | b']' => return self.close(),
            _ => {}
        }
        Ok(None)
    }

    fn open(&mut self, byte: u8) {
        self.depth += 1;
        if self.depth == 2 && byte == b'[' && self.key == b"data" {
            self.in_data = true;
            self.has_data = true;
        } else if self.depth == 3 && self.in_data {
            self.article = Some(ArticleBytes { line: self.line, json: vec![byte] });
        }
    }

    fn close(&mut self) -> Result<Option<ArticleBytes>, RowError> {
        let unopened = || RowError::new(self.line, "a bracket that was not opened", "copy the file again").last();
        self.depth = self.depth.checked_sub(1).ok_or_else(unopened)?;
        if self.depth == 1 {
            self.in_data = false;
        }
        Ok(if self.depth == 2 { self.article.take() } else { None })
    }
}
