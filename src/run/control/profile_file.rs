//! Requests to measure steps, made by a file `profile` in the run folder. The watchdog removes the file when it reads
//! it.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::str::FromStr;

use store::{Created, Store};

/// Folder of the answers: `FROM-TO.json` and, written after it, `FROM-TO.txt`; `FROM-TO-BY` if the request names its
/// sender.
pub const PROFILES: &str = "profiles";

/// Replaces `FROM-TO` in the name of an answer if nothing is measured.
pub(crate) const REFUSED: &str = "refused";

/// Name of the request file.
pub(crate) const PROFILE: &str = "profile";

/// Maximum length of a request and of the sender's name, in bytes.
const BYTES_MAX: u64 = 64;
const BY_MAX: usize = 16;

/// Bounds of one measurement: steps, and seconds.
const STEPS_MAX: u64 = 1 << 20;
const SECONDS_MAX: f64 = 7.0 * 86_400.0;
const SECONDS_MIN: f64 = 0.1;

/// Steps that are to be measured.
#[derive(Clone, Debug, PartialEq)]
pub enum RequestedProfile {
    /// Steps after the first number up to the last: `100..120`.
    Steps(Range<u64>),
    /// The next steps, by number: `20`.
    Next(u64),
    /// The steps of the next seconds: `1800s`.
    Seconds(f64),
}

impl FromStr for RequestedProfile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let text = text.trim();
        let wrong =
            || format!("`{text}`: expected steps like `100..120`, a number of them like `20`, or seconds like `60s`");
        if let Some((from, to)) = text.split_once("..") {
            let [from, to]: [Option<u64>; 2] = [from, to].map(|step| step.trim().parse().ok());
            let steps = from.zip(to).map(|(from, to)| from..to).ok_or_else(wrong)?;
            let count = steps.end.saturating_sub(steps.start);
            return (1..=STEPS_MAX).contains(&count).then_some(Self::Steps(steps)).ok_or_else(wrong);
        }
        if let Some(seconds) = text.strip_suffix('s') {
            let seconds: f64 = seconds.parse().map_err(|_| wrong())?;
            return (SECONDS_MIN..=SECONDS_MAX).contains(&seconds).then_some(Self::Seconds(seconds)).ok_or_else(wrong);
        }
        let steps: u64 = text.parse().map_err(|_| wrong())?;
        (1..=STEPS_MAX).contains(&steps).then_some(Self::Next(steps)).ok_or_else(wrong)
    }
}

impl std::fmt::Display for RequestedProfile {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Steps(steps) => write!(out, "{}..{}", steps.start, steps.end),
            Self::Next(steps) => write!(out, "{steps}"),
            Self::Seconds(seconds) => write!(out, "{seconds}s"),
        }
    }
}

/// Request to measure steps. The sender is part of the name of the answer, so that concurrent requests do not mix.
#[derive(Clone, Debug, PartialEq)]
pub struct ProfileRequest {
    /// Steps or seconds to measure.
    pub wanted: RequestedProfile,
    /// Name of the sender.
    pub by: Option<String>,
}

impl FromStr for ProfileRequest {
    type Err = String;

    /// Parses `20`, or `20 by 5f3a`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (wanted, by) = text.trim().split_once(" by ").map_or((text, None), |(wanted, by)| (wanted, Some(by)));
        let is_name =
            |by: &str| !by.is_empty() && by.len() <= BY_MAX && by.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if let Some(by) = by.filter(|by| !is_name(by)) {
            return Err(format!("`{by}`: the name of the sender has 1 to {BY_MAX} letters and digits"));
        }
        Ok(Self { wanted: wanted.parse()?, by: by.map(str::to_owned) })
    }
}

impl std::fmt::Display for ProfileRequest {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.by {
            Some(by) => write!(out, "{} by {by}", self.wanted),
            None => write!(out, "{}", self.wanted),
        }
    }
}

/// Sends a request to the process that trains in a folder. Returns `false` if another request is still pending.
pub(crate) fn request(folder: &Store, request: &ProfileRequest) -> io::Result<bool> {
    Ok(matches!(folder.put_if_absent(PROFILE, request.to_string().as_bytes())?, Created::Made(_)))
}

/// Withdraws a pending request.
pub(crate) fn take_back(folder: &Store) -> io::Result<()> {
    folder.delete(PROFILE)
}

/// Informs the sender that the request is refused.
pub(super) fn decline(folder: &Store, by: &str, why: &str) -> io::Result<()> {
    folder.put(&format!("{PROFILES}/{REFUSED}-{by}.txt"), why.as_bytes()).map(drop)
}

/// Reads and removes the request file. `None` if there is no file.
pub(super) fn take_request(folder: &Store) -> Option<Result<ProfileRequest, String>> {
    let stat = match folder.head(PROFILE) {
        Ok(Some(stat)) => stat,
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Some(Err(error.to_string())),
        // A store with transient errors is asked again at the next poll. A folder of that name is no request.
        Ok(None) | Err(_) => return None,
    };
    let read = || folder.get_range(PROFILE, 0..stat.bytes.min(BYTES_MAX)).ok();
    let bytes = if stat.bytes > BYTES_MAX { None } else { Some(read()?) };
    folder.delete(PROFILE).ok()?;
    let text = bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let request =
        text.ok_or_else(|| format!("the request has more than {BYTES_MAX} bytes")).and_then(|text| text.parse());
    Some(request.map_err(|problem| format!("{}: {problem}", folder.place(PROFILE))))
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn a_request_is_parsed_as_it_was_formatted() {
        for wanted in [
            RequestedProfile::Steps(100..120),
            RequestedProfile::Next(20),
            RequestedProfile::Seconds(1800.0),
            RequestedProfile::Seconds(0.5),
        ] {
            assert_eq!(wanted.to_string().parse(), Ok(wanted));
        }
        for wrong in ["", "0", "-3", "5..5", "7..3", "0s", "-1s", "NaNs", "infs", "x", "1..x", "99999999999", "..", "s"]
        {
            assert!(
                wrong.parse::<RequestedProfile>().is_err_and(|problem| problem.contains("expected steps")),
                "{wrong}"
            );
        }
    }

    #[test]
    fn a_file_is_read_once() {
        let folder = Store::in_memory(FaultConfig::none());
        assert_eq!(take_request(&folder), None);
        let wanted = |steps, by: Option<&str>| ProfileRequest {
            wanted: RequestedProfile::Next(steps),
            by: by.map(str::to_owned),
        };
        assert!(request(&folder, &wanted(3, Some("5f3a"))).is_ok_and(|asked| asked));
        assert!(request(&folder, &wanted(4, None)).is_ok_and(|asked| !asked), "one at a time");
        assert_eq!((take_request(&folder), take_request(&folder)), (Some(Ok(wanted(3, Some("5f3a")))), None));
        for by in ["", "../x", "a b", "abcdefghijklmnopq"] {
            assert!(format!("3 by {by}").parse::<ProfileRequest>().is_err(), "{by}");
        }
        for strange in [&b"\xff\xfe"[..], &[b'9'; 1000]] {
            folder.put(PROFILE, strange).expect("it is memory");
            assert!(take_request(&folder).is_some_and(|heard| heard.is_err()));
            assert_eq!(take_request(&folder), None, "it is gone");
        }
    }
}
