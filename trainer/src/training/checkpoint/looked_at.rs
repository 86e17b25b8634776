//! Checkpoints for who only looks at them: nothing is changed, since the run may be under way.

use schemas::ordinal::Step;
use store::Store;

use super::kept::{FOLDER, steps, within};
use super::{Snapshot, Unread};
use crate::error::Error;

/// Where a checkpoint is, and all of it.
type Found = (String, Snapshot);

/// The checkpoint after `step`, or the newest that is whole, and where it is.
pub fn pick(run: &Store, step: Option<Step>) -> Result<(String, Snapshot), Error> {
    let steps = steps(run)?;
    if let Some(wanted) = step {
        if steps.contains(&wanted) {
            return Ok(read(run, wanted)?);
        }
        return Err(Error::Config(absent(run, wanted, &steps)));
    }
    let (found, damaged) = newest_of(run, steps)?;
    if let Some(found) = found {
        return Ok(found);
    }
    if damaged.is_empty() {
        return Err(Error::Config(format!("{}: there is no checkpoint here yet; train first", run.place(""))));
    }
    let problem = format!("the run has saved, and no checkpoint of it is whole; put one back ({})", damaged.join("; "));
    Err(Error::Checkpoint { path: run.within(FOLDER).place("").into(), problem })
}

/// The newest whole checkpoint of at most `done` steps, from which the next step can be done again, and where it is;
/// `None` if there is none.
pub fn before(run: &Store, done: Step) -> Result<Option<(String, Snapshot)>, Error> {
    Ok(newest_of(run, steps(run)?.into_iter().filter(|&step| step <= done))?.0)
}

/// The first whole one of the checkpoints after `steps`, and the damage to those before it, which is also named aloud.
fn newest_of(run: &Store, steps: impl IntoIterator<Item = Step>) -> Result<(Option<Found>, Vec<String>), Error> {
    let mut damaged = Vec::new();
    for step in steps {
        match read(run, step) {
            Ok(found) => return Ok((Some(found), damaged)),
            Err(Unread::Damaged { place, problem }) => {
                tracing::warn!(file = %place, %problem, "damaged checkpoint, looking at an older one");
                damaged.push(format!("{place}: {problem}"));
            }
            Err(Unread::Other(error)) => return Err(error),
        }
    }
    Ok((None, damaged))
}

fn read(run: &Store, step: Step) -> Result<Found, Unread> {
    let checkpoint = within(run, step);
    Snapshot::read(&checkpoint, step).map(|snapshot| (checkpoint.place(""), snapshot))
}

/// That there is no checkpoint after that step, and after which there are.
pub(super) fn absent(run: &Store, wanted: Step, steps: &[Step]) -> String {
    let there: Vec<String> = steps.iter().rev().map(Step::to_string).collect();
    let there =
        if there.is_empty() { "there is none yet".to_owned() } else { format!("there are {}", there.join(", ")) };
    format!("{}: no checkpoint after step {wanted}; {there}", run.place(""))
}
