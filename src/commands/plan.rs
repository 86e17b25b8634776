//! `cloze plan`: prints the planned run without starting it.

use telemetry::terminal::line;
use trainer_plan::launch::Launch;

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
    let ranks = match options.target.ranks {
        Some(ranks) => Some(ranks),
        None => Launch::from_env()?.map(|launch| launch.world_size).filter(|ranks| *ranks > 1),
    };
    let dry_run = DryRun::new(args, TargetMachine { ranks, ..options.target })?;
    if options.json {
        line(dry_run.json().trim_end());
    } else {
        let mut unusable = None;
        dry_run.lines_of(&mut unusable).into_iter().for_each(line);
        if let Some(error) = unusable {
            return Err(error.into());
        }
    }
    Ok(())
}
