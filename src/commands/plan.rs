//! `cloze plan`: prints the planned run without starting it.

use telemetry::terminal::line;
use trainer_plan::launch::Launch;

use crate::cli::ConfigArgs;
use crate::exit::Usage;
use crate::plan::dry_run::DryRun;
use crate::plan::step_estimate::TargetMachine;

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
    let launch = if options.target.ranks.is_none() { Launch::from_env()? } else { None };
    let launch = launch.filter(|launch| launch.world_size > 1);
    let ranks = options.target.ranks.or(launch.as_ref().map(|launch| launch.world_size));
    let dry_run = DryRun::new(args, TargetMachine { ranks, ..options.target })
        .map_err(|error| with_origin(error, launch.as_ref()))?;
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

/// Adds to an error about the ranks where their number comes from, if the user has not named it.
fn with_origin(error: anyhow::Error, launch: Option<&Launch>) -> anyhow::Error {
    match (launch, error.downcast_ref::<Usage>()) {
        (Some(launch), Some(Usage(problem))) if problem.contains(" ranks ") => {
            Usage(format!("{problem}; {}", launch.origin())).into()
        }
        _ => error,
    }
}
