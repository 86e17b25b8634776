//! Parsers of command-line numbers with a range.

/// Ten days. Larger values overflow clocks.
const SECONDS_MAX: f64 = 864_000.0;

/// Seconds from 0 to ten days.
pub(super) fn seconds(text: &str) -> Result<f64, String> {
    in_range(text, SECONDS_MAX, "seconds")
}

/// Expiry of a lease: from 1 second to an hour.
pub(super) fn lease_seconds(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (1.0..=3600.0).contains(number));
    number.ok_or_else(|| "expected 1 to 3600 seconds".to_owned())
}

/// Milliseconds from 0 to ten days.
pub(super) fn milliseconds(text: &str) -> Result<f64, String> {
    in_range(text, 1e3 * SECONDS_MAX, "milliseconds")
}

/// Fraction from 0 to 1.
pub(super) fn share(text: &str) -> Result<f64, String> {
    in_range(text, 1.0, "a share")
}

/// Parses a finite number above 0.
pub(super) fn positive(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| number.is_finite() && *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

/// Parses a fraction above 0, at most 1.
pub(super) fn positive_share(text: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| *number > 0.0 && *number <= 1.0);
    number.ok_or_else(|| "expected a share above 0, at most 1".to_owned())
}

/// Parses the power of a machine in watts: above 0, and at most 1 GW.
pub(super) fn watts(text: &str) -> Result<f64, String> {
    positive(text).ok().filter(|watts| *watts <= 1e9).ok_or_else(|| "expected a power from 0 to 1e9 watts".to_owned())
}

/// Parses gigabytes per second to bytes per second: above 0, and at most 1,000,000 GB/s.
pub(super) fn gigabytes(text: &str) -> Result<f64, String> {
    let number = positive(text).ok().filter(|number| *number <= 1e6);
    number.map(|number| 1e9 * number).ok_or_else(|| "expected a bandwidth from 0 to 1e6 GB/s".to_owned())
}

/// Parses a whole number of at least 1.
pub(super) fn at_least_one(text: &str) -> Result<usize, String> {
    let number = text.parse::<usize>().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number of at least 1".to_owned())
}

fn in_range(text: &str, most: f64, what: &str) -> Result<f64, String> {
    let number = text.parse::<f64>().ok().filter(|number| (0.0..=most).contains(number));
    number.ok_or_else(|| format!("expected {what} from 0 to {most}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_out_of_range_are_refused() {
        assert_eq!((seconds("2.5"), milliseconds("0"), share("0.05")), (Ok(2.5), Ok(0.0), Ok(0.05)));
        for wrong in ["nan", "inf", "-1", "1e300", "", "x"] {
            assert!(seconds(wrong).is_err() && milliseconds(wrong).is_err() && share(wrong).is_err(), "{wrong}");
        }
        assert_eq!((at_least_one("1"), at_least_one("99999999")), (Ok(1), Ok(99_999_999)));
        assert!(["0", "-1", "1.5", ""].iter().all(|wrong| at_least_one(wrong).is_err()));
        assert!(positive_share("0.01").is_ok() && ["0", "1.1", "nan"].iter().all(|it| positive_share(it).is_err()));
        assert_eq!(gigabytes("12.5"), Ok(12.5e9));
        assert!(["0", "-1", "1e7", "inf", "nan"].iter().all(|it| gigabytes(it).is_err()));
        assert!(share("5").is_err_and(|problem| problem.contains("from 0 to 1")));
    }
}
