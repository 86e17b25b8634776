//! How many steps a run has, where that was changed since it began.
//!
//! # What
//! `RUN/step_budget.json`, [sealed](schemas::sealed): from which step on the run had how many steps.
//!
//! # Why
//! The rate of a step depends on how many steps there were when it was done. So the number that a run began with stays
//! what its identity and its configuration say, and each later one is kept with the step that it counts from.

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::error::Error;
use crate::schedule::Span;

/// Its name in the run's store.
pub(super) const NAME: &str = "step_budget.json";

/// What is written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extended {
    /// The first is what the run began with, from its first step on.
    spans: Vec<Span>,
}

impl Sealed for Extended {
    const FORMAT: &'static str = "cloze step budget";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// From which step on the run in that store has had how many steps, the oldest first; nothing where that never changed.
///
/// # Errors
/// [`Error::Checkpoint`] if it is not as it was written.
pub fn spans(run: &Store) -> Result<Vec<Span>, Error> {
    let Some((bytes, _)) = run.read_with_stat(NAME)? else { return Ok(Vec::new()) };
    let refuse = |problem: String| Error::Checkpoint { path: run.place(NAME).into(), problem };
    let Extended { spans } = Extended::unseal(&bytes).map_err(|error| refuse(error.to_string()))?;
    let is_course = spans.first().is_some_and(|first| first.from == Step(0))
        && spans.is_sorted_by(|a, b| a.from <= b.from)
        && spans.iter().all(|span| span.steps > 0);
    if is_course { Ok(spans) } else { Err(refuse("it does not begin with the run, or goes back".to_owned())) }
}

/// Gives the run that many steps from `from` on; it began with `begun_with`.
///
/// # Errors
/// [`Error::Io`] if it cannot be kept.
pub fn extend(run: &Store, begun_with: u64, span: Span) -> Result<(), Error> {
    let mut spans = spans(run)?;
    if spans.is_empty() {
        spans.push(Span { from: Step(0), steps: begun_with });
    }
    spans.push(span);
    run.put(NAME, &Extended { spans }.seal())?;
    Ok(())
}

/// Keeps of it what was decided up to a step, here or for another run.
///
/// # Errors
/// As [`spans`] and [`extend`].
pub fn cut(from: &Store, to: &Store, step: Step) -> Result<(), Error> {
    let mut spans = spans(from)?;
    let all = spans.len();
    spans.retain(|span| span.from <= step);
    let is_new = all > 0 && to.stat(NAME)?.is_none();
    if spans.len() < all || is_new {
        to.put(NAME, &Extended { spans }.seal())?;
    }
    Ok(())
}
