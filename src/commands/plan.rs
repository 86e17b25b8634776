//! `cloze plan`: prints the planned run without starting it.

use telemetry::terminal::line;

use crate::cli::ConfigArgs;
use crate::plan::dry_run::DryRun;

/// Prints the plan, as lines or as one JSON object.
pub(crate) fn run(args: &ConfigArgs, json: bool) -> anyhow::Result<()> {
    let dry_run = DryRun::new(args)?;
    if json {
        line(dry_run.json().trim_end());
    } else {
        dry_run.lines().into_iter().for_each(line);
    }
    Ok(())
}
