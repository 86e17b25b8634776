//! One-bit levels in Parquet's hybrid of runs and packed bits.
//!
//! A run is a varint whose lowest bit is 0 and whose other bits are the length, then the value in one byte. Packed bits
//! are a varint whose lowest bit is 1 and whose other bits are the number of bytes, then the bytes, lowest bit first.
//! Packed bits are only read here, not written.

/// Exclusive maximum of a run length that Parquet's own reader accepts.
const RUN_MAX: usize = 1 << 31;

/// Levels under construction, in runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    bytes: Vec<u8>,
    run: (bool, usize),
    levels: usize,
}

impl Runs {
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        (self.run, self.levels) = ((false, 0), 0);
    }

    /// Appends `count` levels of one value.
    pub(super) fn push(&mut self, value: bool, count: usize) {
        if count > 0 && self.run.0 != value {
            self.end_run();
            self.run = (value, 0);
        }
        self.run.1 += count;
        self.levels += count;
    }

    fn end_run(&mut self) {
        let (value, count) = self.run;
        if count == 0 {
            return;
        }
        let mut number = count << 1;
        while number >= 0x80 {
            self.bytes.push(low_bits(number) | 0x80);
            number >>= 7;
        }
        self.bytes.extend([low_bits(number), u8::from(value)]);
    }

    /// Appends their length in bytes and all levels to `to`. Returns the number of levels.
    pub(super) fn finish(&mut self, to: &mut Vec<u8>) -> usize {
        self.end_run();
        self.run.1 = 0;
        to.extend(u32::try_from(self.bytes.len()).expect("levels of a page").to_le_bytes());
        to.extend_from_slice(&self.bytes);
        self.levels
    }
}

/// The lowest seven bits.
fn low_bits(number: usize) -> u8 {
    number.to_le_bytes()[0] & 0x7f
}

/// Returns runs of levels: a value and its count. Yields `None` at invalid data, and then ends.
pub(super) fn runs(levels: &[u8]) -> impl Iterator<Item = Option<(bool, usize)>> {
    let mut rest = levels;
    let mut packed = &levels[..0];
    let mut bit = 0;
    std::iter::from_fn(move || {
        while packed.is_empty() {
            if rest.is_empty() {
                return None;
            }
            match piece(rest) {
                Some((Piece::Run(value, count), tail)) => {
                    rest = tail;
                    return Some(Some((value, count)));
                }
                Some((Piece::Packed(bytes), tail)) => (packed, rest) = (bytes, tail),
                None => {
                    rest = &[];
                    return Some(None);
                }
            }
        }
        // Consecutive equal bits in a byte form a run.
        let left = u32::from(packed[0]) >> bit;
        let (value, equal) = if left & 1 == 1 { (true, left.trailing_ones()) } else { (false, left.trailing_zeros()) };
        let count = equal.min(8 - bit);
        bit = (bit + count) % 8;
        if bit == 0 {
            packed = &packed[1..];
        }
        Some(Some((value, count as usize)))
    })
}

/// Encoded unit of levels.
enum Piece<'a> {
    Run(bool, usize),
    Packed(&'a [u8]),
}

/// Splits the first unit from some levels. Returns the unit and the rest.
fn piece(levels: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    let (header, tail) = number(levels)?;
    let count = header >> 1;
    if !(1..RUN_MAX).contains(&count) {
        return None;
    }
    if header & 1 == 1 {
        // The last padding bytes can be missing.
        let (bytes, tail) = tail.split_at(count.min(tail.len()));
        return Some((Piece::Packed(bytes), tail));
    }
    let (&value @ (0 | 1), tail) = tail.split_first()? else { return None };
    Some((Piece::Run(value == 1, count), tail))
}

/// Decodes a varint: seven bits per byte, lowest first. Returns the number and the rest.
fn number(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let mut number = 0_usize;
    for (place, &byte) in bytes.iter().enumerate().take(5) {
        number |= usize::from(byte & 0x7f) << (7 * place);
        if byte < 0x80 {
            return Some((number, &bytes[place + 1..]));
        }
    }
    None
}
