//! Mutation of seeds: nearly valid inputs.
//!
//! # Definition
//! A random seed gets 0 to 8 random changes at random places. A change flips a bit, overwrites, inserts, removes or
//! doubles bytes, cuts the tail, replaces it by that of another seed, or moves a line. It can also insert a word of
//! [`WORDS`], once or some thousand times, or replace a decimal or binary number by an extreme one. All randomness
//! comes from `bolero`'s driver, which can also be a coverage-guided fuzzer.

use bolero::Driver;
use bolero::generator::bolero_generator::ValueGenerator;

use crate::input::Input;

/// Longest input.
const BYTES_MAX: usize = 1 << 16;

/// Number of changes: mostly one or two, since heavily damaged inputs are refused early.
const CHANGES: [usize; 8] = [0, 1, 1, 2, 2, 3, 4, 8];

/// Words that are hard to parse.
pub const WORDS: &[&[u8]] = &[
    b"\0",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\r",
    b" ",
    b"\t",
    b"\"",
    b"\\",
    b"\\u0000",
    b"\\ud800",
    b"'",
    b",",
    b":",
    b"=",
    b".",
    b"#",
    b"[",
    b"]",
    b"{",
    b"}",
    b"[[",
    b"]]",
    b"null",
    b"true",
    b"{}",
    b"[]",
    b"\"\"",
    b"-",
    b"..",
    b"/",
    b"../../x",
    b"\x1b[2J",
    b"\x7f",
    b"\xff",
    b"\xc0\x80",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\xff\xfe",
    b"PAR1",
    "\u{e9}\u{301}".as_bytes(),
    "\u{2028}".as_bytes(),
    "\u{85}".as_bytes(),
    "中。".as_bytes(),
    "\u{10ffff}".as_bytes(),
    "İ".as_bytes(),
    "ß".as_bytes(),
    "\u{200d}".as_bytes(),
    b"a. B",
    b"e.g. ",
    b"##",
    b"[MASK]",
    b"version",
    b"kind",
];

/// Boundary values of integer types.
const NUMBERS: &[&str] = &[
    "0",
    "-1",
    "1",
    "2",
    "127",
    "255",
    "256",
    "65535",
    "65536",
    "2147483648",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "18446744073709551615",
    "18446744073709551616",
    "0.1",
    "-0.0",
    "1e-400",
    "1e999",
    "nan",
];

/// Generator of inputs from seeds.
#[derive(Clone, Debug)]
pub struct Mutated {
    target: &'static str,
    seeds: Vec<Vec<u8>>,
}

impl Mutated {
    /// Creates a generator. `seeds` must not be empty.
    pub(crate) fn new(target: &'static str, seeds: Vec<Vec<u8>>) -> Self {
        Self { target, seeds }
    }

    fn change<D: Driver>(&self, bytes: &mut Vec<u8>, driver: &mut D) -> Option<()> {
        let at = below(driver, bytes.len() + 1)?;
        let longest = 1 + below(driver, 64)?;
        let length = below(driver, longest)?.min(bytes.len() - at);
        match below(driver, 14)? {
            0 if at < bytes.len() => bytes[at] ^= 1 << below(driver, 8)?,
            1 if at < bytes.len() => bytes[at] = driver.produce()?,
            2 => insert(bytes, at, &driver.produce::<[u8; 4]>()?),
            3 => drop(bytes.drain(at..at + length)),
            4 => bytes.truncate(at),
            5 => {
                let piece = bytes[at..at + length].to_vec();
                let to = below(driver, bytes.len() + 1)?;
                insert(bytes, to, &piece);
            }
            6 => {
                let other = &self.seeds[below(driver, self.seeds.len())?];
                let from = below(driver, other.len() + 1)?;
                bytes.splice(at.., other[from..].iter().copied());
            }
            7 => {
                let line = line_around(bytes, at);
                let moved: Vec<u8> = bytes.drain(line).collect();
                let to = below(driver, bytes.len() + 1)?;
                let to = line_around(bytes, to).start;
                insert(bytes, to, &moved);
            }
            8 => insert(bytes, at, word(driver)?),
            9 => {
                let word = word(driver)?;
                let end = (at + word.len()).min(bytes.len());
                bytes.splice(at..end, word.iter().copied());
            }
            10 => {
                let many = word(driver)?.repeat(1 << below(driver, 13)?);
                insert(bytes, at, &many);
            }
            11 | 12 => replace_number(bytes, at, NUMBERS[below(driver, NUMBERS.len())?]),
            _ => {
                let extreme = [0, u64::MAX, 1 << 31, 1 << 32, 1 << 40, u64::MAX >> 1][below(driver, 6)?];
                let width = [2, 4, 8][below(driver, 3)?].min(bytes.len() - at);
                bytes[at..at + width].copy_from_slice(&extreme.to_le_bytes()[..width]);
            }
        }
        Some(())
    }
}

impl ValueGenerator for Mutated {
    type Output = Input;

    fn generate<D: Driver>(&self, driver: &mut D) -> Option<Input> {
        let mut bytes = self.seeds[below(driver, self.seeds.len())?].clone();
        for _ in 0..CHANGES[below(driver, CHANGES.len())?] {
            self.change(&mut bytes, driver)?;
            bytes.truncate(BYTES_MAX);
        }
        Some(Input { target: self.target, bytes })
    }
}

fn below<D: Driver>(driver: &mut D, limit: usize) -> Option<usize> {
    Some(driver.produce::<u32>()? as usize % limit)
}

fn word<D: Driver>(driver: &mut D) -> Option<&'static [u8]> {
    Some(WORDS[below(driver, WORDS.len())?])
}

fn insert(bytes: &mut Vec<u8>, at: usize, new: &[u8]) {
    bytes.splice(at..at, new.iter().copied());
}

/// Returns the line that contains `at`, with its end.
fn line_around(bytes: &[u8], at: usize) -> std::ops::Range<usize> {
    let start = bytes[..at].iter().rposition(|&byte| byte == b'\n').map_or(0, |newline| newline + 1);
    let end = bytes[at..].iter().position(|&byte| byte == b'\n').map_or(bytes.len(), |newline| at + newline + 1);
    start..end
}

/// Returns the first run of digits at or after `at`.
fn replace_number(bytes: &mut Vec<u8>, at: usize, number: &str) {
    let Some(start) = bytes[at..].iter().position(u8::is_ascii_digit).map(|offset| at + offset) else { return };
    let length = bytes[start..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    bytes.splice(start..start + length, number.bytes());
}
