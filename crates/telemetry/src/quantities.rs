//! Formatting and parsing of quantities for users.

use bytesize::ByteSize;
use indicatif::HumanCount;

/// Formats a count as `12,345,678`.
#[must_use]
pub fn count(number: u64) -> String {
    HumanCount(number).to_string()
}

/// Formats a count with its noun: `1 file`, `1,234 files`.
#[must_use]
pub fn counted(number: u64, noun: &str) -> String {
    format!("{} {noun}{}", count(number), if number == 1 { "" } else { "s" })
}

/// Formats bytes as `1.5 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

/// Exclusive upper bound of the bytes that [`parse_bytes`] accepts.
const BYTES_MAX: u64 = 1_000_000_000_000_000_000;

/// Parses a number of bytes, at least one: `8GiB`, `500 MB`, `123456`. `8G` is 8 GiB.
///
/// # Errors
/// If the text is no number of bytes. The message has examples.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    // `ByteSize` reads `8G` as 8 GB, and no fraction without a unit.
    let unit = match text.chars().last().map(|letter| letter.to_ascii_lowercase()) {
        Some('k' | 'm' | 'g' | 't' | 'p' | 'e') => "iB",
        Some('0'..='9' | '.') => "B",
        _ => "",
    };
    let parsed = format!("{text}{unit}").parse::<ByteSize>().ok().map(|size| size.0);
    let accepted = parsed.filter(|bytes| (1..BYTES_MAX).contains(bytes));
    accepted.ok_or_else(|| "write bytes as `8GiB`, `500MB` or `8589934592`".to_owned())
}

/// Formats an estimated number of bytes, which must not be negative.
#[must_use]
pub fn estimate(size: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate in bytes, positive")]
    bytes(size as u64)
}

/// Formats a token rate as `745 k tok/s`.
pub(super) fn tokens_per_s(rate: f64) -> String {
    if rate >= 1e6 {
        format!("{:.2} M tok/s", rate / 1e6)
    } else if rate >= 1e4 {
        format!("{:.0} k tok/s", rate / 1e3)
    } else {
        format!("{rate:.0} tok/s")
    }
}

/// Formats the remaining time as `  ETA 12 min`; empty if it is not known.
#[must_use]
pub fn eta(seconds: Option<f64>) -> String {
    seconds.map_or(String::new(), |seconds| format!("  ETA {}", time(seconds)))
}

/// Formats a duration as `12 min`, with two or three digits, because it is an estimate.
#[must_use]
pub fn time(seconds: f64) -> String {
    let minutes = seconds / 60.0;
    let hours = seconds / 3600.0;
    if seconds < 100.0 {
        format!("{seconds:.0} s")
    } else if minutes < 100.0 {
        format!("{minutes:.0} min")
    } else if hours < 100.0 {
        format!("{hours:.1} h")
    } else {
        format!("{:.1} days", hours / 24.0)
    }
}

/// Formats a rate with a unit prefix, such as `745 k` or `1.23 M`.
pub fn short(value: f64) -> String {
    match value {
        v if v >= 1e9 => format!("{:.2} G", v / 1e9),
        v if v >= 1e6 => format!("{:.2} M", v / 1e6),
        v if v >= 1e4 => format!("{:.0} k", v / 1e3),
        v if v >= 1e3 => format!("{:.1} k", v / 1e3),
        v => format!("{v:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_formatted_for_users() {
        assert_eq!([999.0, 1500.0, 745_000.0, 1.23e6].map(short), ["999", "1.5 k", "745 k", "1.23 M"]);
        let counts = [0, 12, 123, 1234, 1_234_567].map(count);
        assert_eq!(counts, ["0", "12", "123", "1,234", "1,234,567"]);
        assert_eq!([0, 1023, 1024, 3 << 30].map(bytes), ["0 B", "1023 B", "1.0 KiB", "3.0 GiB"]);
        let rates = [999.4, 9_999.0, 10_000.0, 745_000.0, 1.234e6].map(tokens_per_s);
        assert_eq!(rates, ["999 tok/s", "9999 tok/s", "10 k tok/s", "745 k tok/s", "1.23 M tok/s"]);
        let times = [0.2, 99.0, 100.0, 5_940.0, 6_000.0, 350_000.0, 864_000.0].map(time);
        assert_eq!(times, ["0 s", "99 s", "2 min", "99 min", "1.7 h", "97.2 h", "10.0 days"]);
        assert_eq!((eta(Some(30.0)), eta(None)), ("  ETA 30 s".to_owned(), String::new()));
    }

    #[test]
    fn bytes_are_parsed_in_every_accepted_spelling() {
        let spellings = [
            ("8GiB", 8 << 30),
            ("1.5 k", 1536),
            (" 500 MB ", 500_000_000),
            ("123", 123),
            ("2g", 2 << 30),
            ("1B", 1),
            ("1 tb", 1_000_000_000_000),
            ("7.9", 7),
        ];
        for (text, bytes) in spellings {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for wrong in ["", "GiB", "0", "-1", "8XB", "1e3", "1.2.3", "inf", "nan", "99999999TiB"] {
            assert!(parse_bytes(wrong).is_err(), "{wrong}");
        }
    }
}
