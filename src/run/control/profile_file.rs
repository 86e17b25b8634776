//! A file `profile` in the run's folder: it asks that steps are measured, and goes when it is heard.

use std::io::{self, ErrorKind};
use std::ops::Range;
use std::str::FromStr;

use store::{Created, Store};

/// Where the answers are: `FROM-TO.json` and, written behind it, `FROM-TO.txt`; `FROM-TO-BY` where somebody has said who asks.
pub const PROFILES: &str = "profiles";

/// What stands in the place of `FROM-TO` where nothing is measured.
pub(crate) const REFUSED: &str = "refused";

/// Its name.
pub(crate) const PROFILE: &str = "profile";

/// Bytes of a wish: what is longer is none; and of whoever has it.
const BYTES_MAX: u64 = 64;
const BY_MAX: usize = 16;

/// The most steps and seconds that are measured at once, and the least seconds.
const STEPS_MAX: u64 = 1 << 20;
const SECONDS_MAX: f64 = 7.0 * 86_400.0;
const SECONDS_MIN: f64 = 0.1;

/// Which steps somebody wants to be measured.
#[derive(Clone, Debug, PartialEq)]
pub enum Wanted {
    /// Those behind the first, up to the last: `100..120`.
    Steps(Range<u64>),
    /// So many from now on: `20`.
    Next(u64),
    /// From now on, for so long: `1800s`.
    Seconds(f64),
}

impl FromStr for Wanted {
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

impl std::fmt::Display for Wanted {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Steps(steps) => write!(out, "{}..{}", steps.start, steps.end),
            Self::Next(steps) => write!(out, "{steps}"),
            Self::Seconds(seconds) => write!(out, "{seconds}s"),
        }
    }
}

/// Steps that somebody wants to be measured, and who: the answer has that in its name, so that nobody takes another's.
#[derive(Clone, Debug, PartialEq)]
pub struct Wish {
    /// The steps or seconds to measure.
    pub wanted: Wanted,
    /// The requester, for the answer.
    pub by: Option<String>,
}

impl FromStr for Wish {
    type Err = String;

    /// `20`, or `20 by 5f3a`.
    fn from_str(text: &str) -> Result<Self, String> {
        let (wanted, by) = text.trim().split_once(" by ").map_or((text, None), |(wanted, by)| (wanted, Some(by)));
        let is_name =
            |by: &str| !by.is_empty() && by.len() <= BY_MAX && by.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if let Some(by) = by.filter(|by| !is_name(by)) {
            return Err(format!("`{by}`: who asks is named by at most {BY_MAX} letters and digits"));
        }
        Ok(Self { wanted: wanted.parse()?, by: by.map(str::to_owned) })
    }
}

impl std::fmt::Display for Wish {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match &self.by {
            Some(by) => write!(out, "{} by {by}", self.wanted),
            None => write!(out, "{}", self.wanted),
        }
    }
}

/// Asks whoever trains in a folder. False where somebody else has asked and was not heard yet.
pub(crate) fn ask(folder: &Store, wish: &Wish) -> io::Result<bool> {
    Ok(matches!(folder.create(PROFILE, wish.to_string().as_bytes())?, Created::Made(_)))
}

/// Takes back what was asked and not heard.
pub(crate) fn take_back(folder: &Store) -> io::Result<()> {
    folder.remove(PROFILE)
}

/// Tells whoever asked that nothing will come of it.
pub(super) fn refuse(folder: &Store, by: &str, why: &str) -> io::Result<()> {
    folder.put(&format!("{PROFILES}/{REFUSED}-{by}.txt"), why.as_bytes()).map(drop)
}

/// What a file asks for, or what stands in its place; nothing where there is none. It is gone then.
pub(super) fn heard(folder: &Store) -> Option<Result<Wish, String>> {
    let stat = match folder.stat(PROFILE) {
        Ok(Some(stat)) => stat,
        Err(error) if error.kind() == ErrorKind::InvalidInput => return Some(Err(error.to_string())),
        // A store that fails now and then is asked again; a folder of that name is nobody's wish.
        Ok(None) | Err(_) => return None,
    };
    let read = || folder.read_range(PROFILE, 0..stat.bytes.min(BYTES_MAX)).ok();
    let said = if stat.bytes > BYTES_MAX { None } else { Some(read()?) };
    folder.remove(PROFILE).ok()?;
    let text = said.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    let wish = text.ok_or_else(|| format!("it has more than {BYTES_MAX} bytes")).and_then(|text| text.parse());
    Some(wish.map_err(|problem| format!("{}: {problem}", folder.place(PROFILE))))
}

#[cfg(test)]
mod tests {
    use store::FaultConfig;

    use super::*;

    #[test]
    fn a_wish_is_read_as_it_was_written() {
        for wanted in [Wanted::Steps(100..120), Wanted::Next(20), Wanted::Seconds(1800.0), Wanted::Seconds(0.5)] {
            assert_eq!(wanted.to_string().parse(), Ok(wanted));
        }
        for wrong in ["", "0", "-3", "5..5", "7..3", "0s", "-1s", "NaNs", "infs", "x", "1..x", "99999999999", "..", "s"]
        {
            assert!(wrong.parse::<Wanted>().is_err_and(|problem| problem.contains("expected steps")), "{wrong}");
        }
    }

    #[test]
    fn a_file_is_heard_once() {
        let folder = Store::memory(FaultConfig::calm());
        assert_eq!(heard(&folder), None);
        let wish = |steps, by: Option<&str>| Wish { wanted: Wanted::Next(steps), by: by.map(str::to_owned) };
        assert!(ask(&folder, &wish(3, Some("5f3a"))).is_ok_and(|asked| asked));
        assert!(ask(&folder, &wish(4, None)).is_ok_and(|asked| !asked), "one at a time");
        assert_eq!((heard(&folder), heard(&folder)), (Some(Ok(wish(3, Some("5f3a")))), None));
        for by in ["", "../x", "a b", "abcdefghijklmnopq"] {
            assert!(format!("3 by {by}").parse::<Wish>().is_err(), "{by}");
        }
        for strange in [&b"\xff\xfe"[..], &[b'9'; 1000]] {
            folder.put(PROFILE, strange).expect("it is memory");
            assert!(heard(&folder).is_some_and(|heard| heard.is_err()));
            assert_eq!(heard(&folder), None, "it is gone");
        }
    }
}
