//! The checkpoints of a run: the newest are kept, the newest whole one is gone on from.

use std::cmp::Reverse;
use std::collections::BTreeMap;

use schemas::ordinal::Step;
use store::Store;

use super::{STATE_FILE, Snapshot, Unread};
use crate::error::Error;

/// Where a run keeps its checkpoints.
pub(super) const FOLDER: &str = "checkpoints";
/// The name of the newest one, for people and scripts.
pub(super) const LATEST: &str = "latest";
/// The state of a checkpoint that was found damaged. It is none any more.
const DAMAGED_FILE: &str = "damaged.json";

impl Snapshot {
    /// Puts the checkpoint into the store of a run, points `latest` at it, and removes all but the `keep` newest. Returns
    /// where it is.
    ///
    /// # Errors
    /// [`Error::Io`]; the checkpoint is then absent, or whole where only `latest` or a removal failed, and the older ones
    /// are as they were.
    pub fn write(&self, run: &Store, keep: usize) -> Result<String, Error> {
        let (checkpoints, name) = (run.within(FOLDER), folder_name(self.state.step));
        let checkpoint = checkpoints.within(&name);
        // A damaged one of that name. Its state goes first.
        checkpoint.remove_all("")?;
        if let Err(error) = self.put(&checkpoint) {
            // Room for the next attempt; the failure itself is on its way up.
            let _ = checkpoint.remove_all("");
            return Err(error.into());
        }
        checkpoints.put(LATEST, format!("{name}\n").as_bytes())?;
        retain(&checkpoints, keep)?;
        Ok(checkpoint.place(""))
    }
}

/// The newest checkpoint of a run that is whole, and where it is; `None` for a run that has never saved.
///
/// What a kill left unfinished is removed, but not what `latest` says was finished, unless another is whole. A damaged checkpoint is named aloud, set aside and passed over. One of another
/// version is no damage, and refused; so is a run whose checkpoints are all damaged, since it did not begin just now.
/// What cannot be read at the moment is an error: nobody knows what it is.
pub fn newest(run: &Store) -> Result<Option<(String, Snapshot)>, Error> {
    let checkpoints = run.within(FOLDER);
    let (mut damaged, mut aside, mut unfinished) = (Vec::new(), false, Vec::new());
    let found = list(&checkpoints)?;
    let mut whole = None;
    for (&Reverse(step), form) in &found {
        let checkpoint = checkpoints.within(&folder_name(step));
        match form {
            Form::Unfinished => unfinished.push(checkpoint),
            Form::SetAside => aside = true,
            // The newest is enough.
            Form::Whole if whole.is_some() => {}
            Form::Whole => match Snapshot::read(&checkpoint, step) {
                Ok(snapshot) => whole = Some((checkpoint.place(""), snapshot)),
                Err(Unread::Damaged { place, problem }) => damaged.push((checkpoint, place, problem)),
                Err(Unread::Other(error)) => return Err(error),
            },
        }
    }
    let finished = if whole.is_none() { latest(&checkpoints)? } else { None };
    for checkpoint in unfinished {
        if finished.as_ref().is_some_and(|name| checkpoint.place("") == checkpoints.place(name)) {
            damaged.push((checkpoint.clone(), checkpoint.place(STATE_FILE), "it is missing".to_owned()));
        } else {
            tracing::info!(place = %checkpoint.place(""), "removing an unfinished checkpoint");
            checkpoint.remove_all("")?;
        }
    }
    if whole.is_some() {
        damaged.iter().try_for_each(set_aside)?;
        return Ok(whole);
    }
    let problems: Vec<_> = damaged.iter().map(|(_, place, problem)| format!("{place}: {problem}")).collect();
    let what = match (problems.is_empty(), aside, finished) {
        (false, ..) => problems.join("; "),
        (true, true, _) => format!("`{DAMAGED_FILE}` is what was found damaged"),
        (true, false, Some(name)) => format!("`{LATEST}` names {name}, which is not there"),
        (true, false, None) => return Ok(None),
    };
    let problem = format!(
        "the run has saved, and no checkpoint of it is whole; put one back, or begin anew in another `run.folder` ({what})"
    );
    Err(Error::Checkpoint { path: checkpoints.place("").into(), problem })
}

/// The checkpoint that was the newest when one was saved last.
fn latest(checkpoints: &Store) -> std::io::Result<Option<String>> {
    let found = checkpoints.read_with_stat(LATEST)?;
    Ok(found.map(|(name, _)| String::from_utf8_lossy(&name).trim().to_owned()))
}

/// The checkpoint after `step`, or the newest that is whole, for looking at: changes nothing, since the run may be under
/// way.
pub fn pick(run: &Store, step: Option<Step>) -> Result<(String, Snapshot), Error> {
    let checkpoints = run.within(FOLDER);
    let found = list(&checkpoints)?;
    let steps: Vec<Step> =
        found.iter().filter(|(_, form)| **form == Form::Whole).map(|(&Reverse(step), _)| step).collect();
    let read = |step: Step| {
        let checkpoint = checkpoints.within(&folder_name(step));
        Snapshot::read(&checkpoint, step).map(|snapshot| (checkpoint.place(""), snapshot))
    };
    if let Some(wanted) = step {
        if steps.contains(&wanted) {
            return Ok(read(wanted)?);
        }
        let there: Vec<String> = steps.iter().rev().map(Step::to_string).collect();
        let there =
            if there.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", there.join(", ")) };
        return Err(Error::Config(format!("{}: no checkpoint after step {wanted}; {there}", run.place(""))));
    }
    let mut damaged = Vec::new();
    for step in steps {
        match read(step) {
            Err(Unread::Damaged { place, problem }) => {
                tracing::warn!(file = %place, %problem, "damaged checkpoint, looking at an older one");
                damaged.push(format!("{place}: {problem}"));
            }
            read => return Ok(read?),
        }
    }
    if damaged.is_empty() {
        return Err(Error::Config(format!("{}: there is no checkpoint here yet; train first", run.place(""))));
    }
    let problem = format!("the run has saved, and no checkpoint of it is whole; put one back ({})", damaged.join("; "));
    Err(Error::Checkpoint { path: checkpoints.place("").into(), problem })
}

/// What lies under the name of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    /// A checkpoint, or what was one and is damaged.
    Whole,
    /// What was found damaged.
    SetAside,
    /// What a kill left.
    Unfinished,
}

/// What is there, newest first.
pub(super) fn list(checkpoints: &Store) -> std::io::Result<BTreeMap<Reverse<Step>, Form>> {
    let mut found = BTreeMap::new();
    for entry in checkpoints.list("")? {
        let Some((folder, file)) = entry.name.split_once('/') else { continue };
        let step = folder.strip_prefix("step-").and_then(|digits| digits.parse().ok()).map(Step);
        // What is called otherwise is not ours.
        let Some(step) = step.filter(|&step| folder_name(step) == folder) else { continue };
        let form = found.entry(Reverse(step)).or_insert(Form::Unfinished);
        match file {
            STATE_FILE => *form = Form::Whole,
            DAMAGED_FILE if *form == Form::Unfinished => *form = Form::SetAside,
            _ => {}
        }
    }
    for (&Reverse(step), form) in found.iter_mut().filter(|(_, form)| **form != Form::Whole) {
        // What is no file is not listed, and is no sign that nothing was finished: asking for it is an error.
        if checkpoints.stat(&format!("{}/{STATE_FILE}", folder_name(step)))?.is_some() {
            *form = Form::Whole;
        }
    }
    Ok(found)
}

pub(super) fn folder_name(step: Step) -> String {
    format!("step-{:08}", step.0)
}

/// Keeps the state of a damaged checkpoint under a name by which it is none.
fn set_aside((checkpoint, place, problem): &(Store, String, String)) -> Result<(), Error> {
    let kept = checkpoint.place(DAMAGED_FILE);
    tracing::error!(file = %place, %problem, %kept, "damaged checkpoint, taking an older one");
    if let Some((state, _)) = checkpoint.read_with_stat(STATE_FILE)? {
        checkpoint.put(DAMAGED_FILE, &state)?;
    }
    Ok(checkpoint.remove(STATE_FILE)?)
}

/// Removes what is older than the `keep` newest checkpoints. What was set aside and is newer stays until the run comes to
/// its step.
fn retain(checkpoints: &Store, keep: usize) -> std::io::Result<()> {
    let found = list(checkpoints)?;
    let whole = found.iter().filter(|&(_, &form)| form == Form::Whole);
    let Some((&oldest, _)) = whole.take(keep).last() else { return Ok(()) };
    // Newest first: what is greater than the oldest that stays is older than that.
    let old = found.keys().filter(|&&step| step > oldest);
    old.rev().try_for_each(|&Reverse(step)| checkpoints.remove_all(&folder_name(step)))
}
