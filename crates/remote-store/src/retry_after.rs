//! Pause that a server asks for.
//!
//! # Reference
//! RFC 9110, section 10.2.3: `Retry-After` is a number of seconds or a date.

use std::time::{Duration, SystemTime};

use chrono::DateTime;
use reqwest::header::{DATE, HeaderMap, HeaderName, RETRY_AFTER};

/// Returns the pause of an answer. A date counts from the time of the server, whose clock may differ from ours.
pub(crate) fn pause_of(headers: &HeaderMap) -> Option<Duration> {
    let text = |name: HeaderName| headers.get(name)?.to_str().ok().map(str::trim);
    let asked = text(RETRY_AFTER)?;
    if let Ok(seconds) = asked.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let now = text(DATE).and_then(time_of).or_else(|| {
        let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).ok()?;
        i64::try_from(now.as_secs()).ok()
    })?;
    let seconds = u64::try_from(time_of(asked)?.saturating_sub(now)).ok()?;
    Some(Duration::from_secs(seconds))
}

/// Returns the seconds since 1970 of a date such as `Sun, 29 Nov 2026 06:00:00 GMT`.
fn time_of(date: &str) -> Option<i64> {
    DateTime::parse_from_rfc2822(date).ok().map(|time| time.timestamp())
}

#[cfg(test)]
mod tests {
    use reqwest::header::HeaderValue;

    use super::*;

    #[test]
    fn seconds_and_dates_are_read() {
        let date = "Sun, 29 Nov 2026 06:00:00 GMT";
        let cases = [
            ("7", None, Some(7)),
            (" 0 ", None, Some(0)),
            ("Sun, 29 Nov 2026 06:00:30 GMT", Some(date), Some(30)),
            ("Sun, 29 Nov 2026 05:59:00 GMT", Some(date), None),
            ("Sun, 29 Nov 1970 05:59:00 GMT", None, None),
            ("soon", Some(date), None),
            ("-1", None, None),
            ("99999999999999999999", None, None),
        ];
        for (asked, now, seconds) in cases {
            let mut headers = HeaderMap::new();
            headers.insert(RETRY_AFTER, HeaderValue::from_static(asked));
            headers.extend(now.map(|now| (DATE, HeaderValue::from_static(now))));
            assert_eq!(pause_of(&headers), seconds.map(Duration::from_secs), "{asked} at {now:?}");
        }
        assert_eq!(pause_of(&HeaderMap::new()), None);
    }
}
