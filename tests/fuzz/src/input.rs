//! A file for a parser, and how it is kept.

use std::fmt;

/// A file for a parser.
#[derive(Clone, PartialEq, Eq)]
pub struct Input {
    /// The target that it is for.
    pub target: &'static str,
    /// The file's bytes.
    pub bytes: Vec<u8>,
}

/// As the line of shell that keeps it.
impl fmt::Debug for Input {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("\nprintf '")?;
        for &byte in &self.bytes {
            match byte {
                b'\n' => formatter.write_str("\\n")?,
                b'%' => formatter.write_str("%%")?,
                b'\'' | b'\\' => write!(formatter, "\\{byte:03o}")?,
                b' '..=b'~' => write!(formatter, "{}", char::from(byte))?,
                _ => write!(formatter, "\\{byte:03o}")?,
            }
        }
        writeln!(formatter, "' >tests/fuzz/seeds/{}/NAME", self.target)
    }
}
