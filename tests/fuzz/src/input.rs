//! Fuzz input for a parser, and the command that stores it as a seed.

use std::fmt;

/// Fuzz input for a parser.
#[derive(Clone, PartialEq, Eq)]
pub struct Input {
    /// Target of the input.
    pub target: &'static str,
    /// Content of the file.
    pub bytes: Vec<u8>,
}

/// Formats the shell command that stores the input as a seed.
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
