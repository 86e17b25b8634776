//! `cloze plan`: the run before it costs anything.

use telemetry::terminal::line;

use crate::cli::ConfigArgs;
use crate::plan::dry_run::DryRun;

/// Prints the plan, as lines or as one JSON object.
pub(crate) fn run(args: &ConfigArgs, json: bool) -> anyhow::Result<()> {
    let outlook = DryRun::of(args)?;
    if json {
        line(outlook.json().trim_end());
    } else {
        outlook.lines().into_iter().for_each(line);
    }
    Ok(())
}
