//! `cloze plan`: the run before it costs anything.

use crate::cli::ConfigArgs;
use crate::plan::{Plan, describe};
use crate::terminal::line;

/// Prints the plan, as lines or as one JSON object.
pub(crate) fn run(args: &ConfigArgs, json: bool) -> anyhow::Result<()> {
    let plan = Plan::of(args)?;
    if json {
        line(describe::json(&plan).trim_end());
    } else {
        describe::lines(&plan).into_iter().for_each(line);
    }
    Ok(())
}
