//! Splitting of tokens into runs.

use crate::Result;

/// Tokens of a text: the start and id of each.
pub(super) type Tokens = Vec<(usize, u32)>;

/// Ends a run for every start that is not after `at`.
pub(super) fn end_runs(
    starts: &mut &[usize],
    at: usize,
    ids: &mut Vec<u32>,
    runs: &mut dyn FnMut(&[u32]) -> Result<()>,
) -> Result<()> {
    while let Some((_, later)) = starts.split_first().filter(|(start, _)| **start <= at) {
        *starts = later;
        runs(ids)?;
        ids.clear();
    }
    Ok(())
}
