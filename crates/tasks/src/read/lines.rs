//! Lines of a text file in bounded memory.

use std::io::{self, BufRead, Read as _};

use crate::RowError;

/// Reader of lines. A line ends at a line feed, a carriage return before it is dropped, and a byte order mark at the
/// start of the file is skipped. The final line feed may be missing.
pub(super) struct LineReader {
    input: Box<dyn BufRead>,
    buffer: Vec<u8>,
    max_bytes: usize,
    /// Number of the last line, from 1.
    line: u64,
}

impl LineReader {
    pub(super) fn new(input: Box<dyn BufRead>, max_bytes: usize) -> Self {
        Self { input, buffer: Vec::new(), max_bytes, line: 0 }
    }

    /// Returns the number of the last line, from 1.
    pub(super) fn line(&self) -> u64 {
        self.line
    }

    /// Returns the next line with its line feed, also if it is invalid: for formats whose records may span lines.
    pub(super) fn next_raw(&mut self) -> Option<Result<&[u8], RowError>> {
        self.buffer.clear();
        let limit = u64::try_from(self.max_bytes).unwrap_or(u64::MAX).saturating_add(1);
        match self.input.by_ref().take(limit).read_until(b'\n', &mut self.buffer) {
            Err(error) => return Some(Err(RowError::io(self.line + 1, &error))),
            Ok(0) => return None,
            Ok(_) => self.line += 1,
        }
        if self.line == 1 && self.buffer.starts_with(b"\xEF\xBB\xBF") {
            self.buffer.drain(..3);
        }
        if self.buffer.len() > self.max_bytes && self.buffer.last() != Some(&b'\n') {
            return Some(Err(match self.skip_line() {
                Ok(()) => too_long(self.line, self.max_bytes),
                Err(error) => RowError::io(self.line, &error),
            }));
        }
        Some(Ok(&self.buffer))
    }

    /// Returns the next line as text, without its end.
    pub(super) fn next_line(&mut self) -> Option<Result<&str, RowError>> {
        if let Err(error) = self.next_raw()? {
            return Some(Err(error));
        }
        let line = self.buffer.strip_suffix(b"\n").unwrap_or(&self.buffer);
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        Some(text(line, self.line))
    }

    /// Skips the rest of a line that is too long.
    fn skip_line(&mut self) -> io::Result<()> {
        loop {
            let block = self.input.fill_buf()?;
            let end = block.iter().position(|&byte| byte == b'\n');
            let used = end.map_or(block.len(), |end| end + 1);
            self.input.consume(used);
            if end.is_some() || used == 0 {
                return Ok(());
            }
        }
    }
}

/// Returns the error of a row above the limit.
pub(super) fn too_long(line: u64, max_bytes: usize) -> RowError {
    let hint = "check that the file has line breaks and closed quotes, or split the text";
    RowError::new(line, format!("longer than {max_bytes} bytes"), hint)
}

/// Returns bytes as text, if they are UTF-8 without NUL.
pub(super) fn text(bytes: &[u8], line: u64) -> Result<&str, RowError> {
    let text = std::str::from_utf8(bytes).map_err(|error| {
        let byte = error.valid_up_to() + 1;
        RowError::new(line, "invalid UTF-8", "convert the file to UTF-8").column(format!("byte {byte}"))
    })?;
    match text.bytes().position(|byte| byte == 0) {
        None => Ok(text),
        Some(at) => {
            let hint = "remove the character, or convert the file to UTF-8 if it is UTF-16";
            Err(RowError::new(line, "NUL character", hint).column(format!("byte {}", at + 1)))
        }
    }
}
