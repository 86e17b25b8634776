//! `cloze plan`: the run before it costs anything.

use crate::cli::ConfigArgs;
use crate::plan::Plan;
use crate::terminal::line;

/// Prints the plan, as lines or as one JSON object.
pub(crate) fn run(args: &ConfigArgs, json: bool) -> anyhow::Result<()> {
    let plan = Plan::of(args)?;
    if json {
        line(plan.to_json().trim_end());
    } else {
        plan.lines().into_iter().for_each(line);
    }
    Ok(())
}
