//! Step budget of a run, if it changed after the run started.
//!
//! # What
//! `RUN/step_budget.json`, [sealed](schemas::sealed), has each number of steps with the step from which it applies.
//!
//! # Why
//! The learning rate of a step depends on the number of steps that the run had at that time. So the identity and the
//! configuration keep the first number. Each later number is recorded with the step from which it applies.

use schemas::Sealed;
use schemas::ordinal::Step;
use serde::{Deserialize, Serialize};
use store::Store;

use crate::error::Error;
use crate::schedule::Span;

/// Name of the file in the run's store.
pub(super) const NAME: &str = "step_budget.json";

/// Content of the file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Extended {
    /// Spans, oldest first. The first one starts at step 0.
    spans: Vec<Span>,
}

impl Sealed for Extended {
    const FORMAT: &'static str = "cloze step budget";
    const VERSION: u32 = 1;
    const PRETTY: bool = true;
}

/// Reads the spans of a run, oldest first. They are empty if the number of steps never changed.
///
/// # Errors
/// [`Error::Checkpoint`] if the file is damaged.
pub fn spans(run: &Store) -> Result<Vec<Span>, Error> {
    let Some((bytes, _)) = run.get_with_stat(NAME)? else { return Ok(Vec::new()) };
    let refuse = |problem: String| Error::Checkpoint { path: run.place(NAME).into(), problem };
    let Extended { spans } = Extended::unseal(&bytes).map_err(|error| refuse(error.to_string()))?;
    let is_valid = spans.first().is_some_and(|first| first.from == Step(0))
        && spans.is_sorted_by(|a, b| a.from <= b.from)
        && spans.iter().all(|span| span.steps > 0);
    if is_valid { Ok(spans) } else { Err(refuse("the spans do not start at step 0, or are not in order".to_owned())) }
}

/// Appends `span` to the spans of a run that started with `begun_with` steps.
///
/// # Errors
/// As [`spans`]; [`Error::Io`] if the file cannot be written.
pub fn extend(run: &Store, begun_with: u64, span: Span) -> Result<(), Error> {
    let mut spans = spans(run)?;
    if spans.is_empty() {
        spans.push(Span { from: Step(0), steps: begun_with });
    }
    spans.push(span);
    run.put(NAME, &Extended { spans }.seal())?;
    Ok(())
}

/// Writes the spans of `from` that start at most at `step` to `to`, which may be the same run.
///
/// # Errors
/// As [`spans`] and [`extend`].
pub fn cut(from: &Store, to: &Store, step: Step) -> Result<(), Error> {
    let mut spans = spans(from)?;
    let all = spans.len();
    spans.retain(|span| span.from <= step);
    let is_new = all > 0 && to.head(NAME)?.is_none();
    if spans.len() < all || is_new {
        to.put(NAME, &Extended { spans }.seal())?;
    }
    Ok(())
}
