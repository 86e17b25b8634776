//! Numbers that read at a glance.

/// `12,345,678`.
#[must_use]
pub fn count(number: u64) -> String {
    let digits = number.to_string();
    let mut grouped = String::with_capacity(digits.len() * 4 / 3);
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// `1.5 GiB`.
#[must_use]
pub fn bytes(bytes: u64) -> String {
    let mut value = bytes as f64;
    let mut units = ["B", "KiB", "MiB", "GiB", "TiB"].into_iter();
    let mut unit = units.next().unwrap_or_default();
    for next in units {
        if value < 1024.0 {
            break;
        }
        (value, unit) = (value / 1024.0, next);
    }
    if unit == "B" { format!("{bytes} B") } else { format!("{value:.1} {unit}") }
}

/// The same of an estimate, which is not negative.
#[must_use]
pub fn estimate(size: f64) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "an estimate in bytes, positive")]
    bytes(size as u64)
}

/// `745 k tok/s`.
pub(super) fn tokens_per_s(rate: f64) -> String {
    if rate >= 1e6 {
        format!("{:.2} M tok/s", rate / 1e6)
    } else if rate >= 1e4 {
        format!("{:.0} k tok/s", rate / 1e3)
    } else {
        format!("{rate:.0} tok/s")
    }
}

/// `  ETA 12 min`, where there is one.
#[must_use]
pub fn eta(seconds: Option<f64>) -> String {
    seconds.map_or(String::new(), |seconds| format!("  ETA {}", time(seconds)))
}

/// `12 min`: two or three digits are as many as a guess has.
#[must_use]
pub fn time(seconds: f64) -> String {
    let (minutes, hours) = (seconds / 60.0, seconds / 3600.0);
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

/// `745 k`, `1.2 M`: a rate at a glance.
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
    fn numbers_read_at_a_glance() {
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
}
