//! `cloze profile live`: measures steps of a running training.
//!
//! The request is a file in the run folder, like `stop`. The run answers with two files in `profiles/`. Any user who
//! may write to the folder can ask, with or without a status server.

use std::io;
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::Context as _;
use store::{Lock, Store};
use telemetry::terminal::{line, note};

use crate::exit::Usage;
use crate::run::control::profile_file::{self, PROFILES, ProfileRequest, REFUSED, RequestedProfile};

/// Interval between two checks for the answer and for a running trainer.
const POLL_INTERVAL: Duration = Duration::from_millis(200);

/// Time without an answer before a note is printed.
const NOTE_AFTER: Duration = Duration::from_secs(30);

/// Steps to measure, and format of the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Options {
    pub(crate) steps: u64,
    pub(crate) seconds: Option<f64>,
    pub(crate) json: bool,
}

/// Sends the request, waits, and prints the answer.
pub(crate) fn run(run: &Path, options: Options) -> anyhow::Result<()> {
    let wanted = options.seconds.map_or(RequestedProfile::Next(options.steps), RequestedProfile::Seconds);
    // Parsed as the run will parse it.
    let wanted: RequestedProfile = wanted.to_string().parse().map_err(Usage)?;
    let folder = remote_store::existing_path(run).with_context(|| run.display().to_string())?;
    let is_held = || Lock::seen(&folder, store::LOCK).map(|holder| holder.is_some());
    if !is_held()? {
        return Err(Usage(format!(
            "{}: the run is not in progress; `cloze train --profile 100..120` measures steps of a new start",
            run.display()
        ))
        .into());
    }
    let by = format!("{:x}{:x}", std::process::id(), now_ns() & 0xff_ffff);
    if !profile_file::request(&folder, &ProfileRequest { wanted: wanted.clone(), by: Some(by.clone()) })? {
        return Err(Usage(format!("{}: another request is pending; try again later", run.display())).into());
    }
    note(format_args!("requested {}; the run continues", describe(&wanted)));
    let name = wait(&folder, &by, &is_held)?;
    if name.contains(REFUSED) {
        let why = folder.get(&format!("{name}.txt")).unwrap_or_default();
        folder.delete(&format!("{name}.txt"))?;
        anyhow::bail!("{}: the run refused the request: {}", run.display(), String::from_utf8_lossy(&why));
    }
    let name = if options.json { format!("{name}.json") } else { format!("{name}.txt") };
    let text = folder.get(&name).with_context(|| folder.place(&name))?;
    line(String::from_utf8_lossy(&text).trim_end());
    Ok(())
}

fn describe(wanted: &RequestedProfile) -> String {
    match wanted {
        RequestedProfile::Steps(steps) => format!("steps {} to {}", steps.start, steps.end),
        RequestedProfile::Next(1) => "a step".to_owned(),
        RequestedProfile::Next(steps) => format!("{steps} steps"),
        RequestedProfile::Seconds(seconds) => format!("{seconds} s"),
    }
}

/// File stem of the answer to the request `by`.
fn find_answer(folder: &Store, by: &str) -> io::Result<Option<String>> {
    let entries = match folder.list(PROFILES) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
        Err(error) => return Err(error),
    };
    let ending = format!("-{by}.txt");
    let own = entries.into_iter().find(|entry| entry.name.ends_with(&ending));
    Ok(own.map(|entry| entry.name.trim_end_matches(".txt").to_owned()))
}

/// Waits for the answer while a trainer holds the run.
fn wait(folder: &Store, by: &str, is_held: &dyn Fn() -> io::Result<bool>) -> anyhow::Result<String> {
    let asked = Instant::now();
    let mut is_noted = false;
    let mut is_over = false;
    loop {
        if let Some(name) = find_answer(folder, by)? {
            return Ok(name);
        }
        if is_over {
            profile_file::take_back(folder)?;
            anyhow::bail!("{}: the run ended before it answered", folder.place(""));
        }
        // An answer may have been written shortly before the run ended.
        is_over = !is_held()?;
        if !is_noted && asked.elapsed() >= NOTE_AFTER && folder.head(profile_file::PROFILE)?.is_some() {
            is_noted = true;
            note("no answer yet: the run checks for requests twice a second, unless it is an older version");
        }
        sleep(POLL_INTERVAL);
    }
}

fn now_ns() -> u64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}
