//! `cloze plan`: prints the planned run without starting it.

use telemetry::terminal::line;

use crate::cli::ConfigArgs;
use crate::plan::dry_run::DryRun;
use crate::plan::run_time::TargetMachine;

/// Options of the verb.
#[derive(Clone, Copy, Debug, Default)]
pub struct PlanOptions {
    /// Machine for which times are printed.
    pub target: TargetMachine,
    /// Whether to print one JSON object.
    pub json: bool,
}

/// Prints the plan, as lines or as one JSON object.
pub fn run(args: &ConfigArgs, options: PlanOptions) -> anyhow::Result<()> {
    let dry_run = DryRun::new(args, options.target)?;
    if options.json {
        line(dry_run.json().trim_end());
    } else {
        dry_run.lines().into_iter().for_each(line);
    }
    Ok(())
}
