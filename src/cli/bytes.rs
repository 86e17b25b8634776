//! Bytes, as people write them.

use std::str::FromStr;

/// A number of bytes that was written: `8GiB`, `500 MB`, `123456`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 14] = [
    ("", 1),
    ("b", 1),
    ("kb", 1_000),
    ("mb", 1_000_000),
    ("gb", 1_000_000_000),
    ("tb", 1_000_000_000_000),
    ("k", 1 << 10),
    ("m", 1 << 20),
    ("g", 1 << 30),
    ("t", 1 << 40),
    ("kib", 1 << 10),
    ("mib", 1 << 20),
    ("gib", 1 << 30),
    ("tib", 1 << 40),
];

impl FromStr for Bytes {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let end = text.find(|letter: char| !(letter.is_ascii_digit() || letter == '.')).unwrap_or(text.len());
        let (number, unit) = text.split_at(end);
        let unit = unit.trim().to_ascii_lowercase();
        let unit = UNITS.iter().find(|(name, _)| *name == unit).map(|(_, size)| *size as f64);
        let bytes = number.parse::<f64>().ok().zip(unit).map(|(number, unit)| number * unit);
        match bytes {
            Some(bytes) if (1.0..1e18).contains(&bytes) =>
            {
                #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is between 1 and 1e18")]
                Ok(Self(bytes as u64))
            }
            _ => Err("write bytes as `8GiB`, `500MB` or `8589934592`".to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_read_as_people_write_them() {
        for (text, bytes) in
            [("8GiB", 8 << 30), ("1.5 k", 1536), (" 500 MB ", 500_000_000), ("123", 123), ("2g", 2 << 30), ("1B", 1)]
        {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for wrong in ["", "GiB", "0", "-1", "8XB", "1e3", "1.2.3", "inf", "nan", "99999999TiB"] {
            assert!(wrong.parse::<Bytes>().is_err(), "{wrong}");
        }
    }
}
