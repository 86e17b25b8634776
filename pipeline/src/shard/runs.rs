//! Levels of one bit each, as Parquet's hybrid of runs and packed bits.
//!
//! A run is a number with its length above its lowest bit, which is 0, then its value in a byte. Packed bits are a number
//! with their count in bytes above its lowest bit, which is 1, then the bytes, lowest bit first; only read here.

/// Runs are shorter: what Parquet's own reader takes for a length.
const RUN_MAX: usize = 1 << 31;

/// Levels in the making, in runs.
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

    /// Appends their length in bytes and all levels to `to`. Returns how many there are.
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

/// Runs of levels: a value and how many there are. `None` where what stands there is none; nothing follows it.
pub(super) fn runs(levels: &[u8]) -> impl Iterator<Item = Option<(bool, usize)>> {
    let (mut rest, mut packed, mut bit) = (levels, &levels[..0], 0);
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
        // Equal bits that follow one another in a byte are a run.
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

/// What levels are made of.
enum Piece<'a> {
    Run(bool, usize),
    Packed(&'a [u8]),
}

/// The piece that some levels begin with, and what follows it.
fn piece(levels: &[u8]) -> Option<(Piece<'_>, &[u8])> {
    let (header, tail) = number(levels)?;
    let count = header >> 1;
    if !(1..RUN_MAX).contains(&count) {
        return None;
    }
    if header & 1 == 1 {
        // The last bytes of padding may be left out.
        let (bytes, tail) = tail.split_at(count.min(tail.len()));
        return Some((Piece::Packed(bytes), tail));
    }
    let (&value @ (0 | 1), tail) = tail.split_first()? else { return None };
    Some((Piece::Run(value == 1, count), tail))
}

/// The number that some bytes begin with, seven bits in each, the lowest first; and what follows it.
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
