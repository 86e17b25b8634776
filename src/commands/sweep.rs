//! `cloze sweep`: fine-tunes with lists of values and several seeds, and reports statistics.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use store::Store;
use telemetry::terminal::{line, note, outcome};

use crate::cli::{AverageConvention, Statistic, SweepArgs};
use crate::exit::Usage;
use crate::sweep::files::{REPORT, write_report};
use crate::sweep::plan::{self, SweepPlan};
use crate::sweep::request::Requested;
use crate::sweep::results::SweepResults;
use crate::sweep::runner::Runner;
use crate::sweep::summary::Measure;
use crate::sweep::{average, tables};

/// Runs a sweep, or continues it, and writes its report.
pub(super) fn run(args: &SweepArgs) -> anyhow::Result<ExitCode> {
    let SweepArgs { request, execution } = args;
    if let (Some(index), Some(count)) = (execution.index, execution.count)
        && index >= count
    {
        return Err(Usage(format!("--index {index}: expected a number below --count, which is {count}")).into());
    }
    let Requested { plan, out } = Requested::new(request)?;
    let folder = Store::folder(&out).map_err(|error| Usage(format!("--out {}: {error}", out.display())))?;
    let plan = plan.keep(&folder)?;
    let before = SweepResults::read(plan.clone(), &out)?;
    line(format_args!("{}: {}", out.display(), tables::state(&before)));
    let end = Runner::new(&before, &out, *execution)?.run()?;
    let statistic = plan.statistic;
    let results = write_report(plan, &out, statistic)?;
    print(&results, statistic);
    outcome(format_args!("{}", out.join(REPORT).display()));
    if let Some(signal) = end.signal {
        note("stopped; the same command continues");
        return Ok(ExitCode::from(signal.exit_code()));
    }
    if end.failed > 0 {
        let runs = if end.failed == 1 { "run" } else { "runs" };
        anyhow::bail!("{} {runs} failed; the same command tries them again", end.failed);
    }
    Ok(ExitCode::SUCCESS)
}

/// Reports about sweeps, with an average over GLUE.
pub(super) fn report(
    sweeps: &[PathBuf],
    statistic: Option<Statistic>,
    convention: Option<AverageConvention>,
) -> anyhow::Result<()> {
    let plans = sweeps.iter().map(|sweep| Ok((read_plan(sweep)?, sweep))).collect::<anyhow::Result<Vec<_>>>()?;
    let mut all = Vec::new();
    for (plan, sweep) in plans {
        let chosen = statistic.unwrap_or(plan.statistic);
        let results = write_report(plan, sweep, chosen)?;
        line(format_args!("{}: {}", sweep.display(), tables::state(&results)));
        print(&results, chosen);
        all.push(results);
    }
    if let Some(convention) = convention {
        print_table(&average::table(&all, convention.into(), statistic)?);
    }
    Ok(())
}

/// Reads the plan of the sweep in a folder.
pub(super) fn read_plan(folder: &Path) -> anyhow::Result<SweepPlan> {
    let plan = if folder.is_dir() { SweepPlan::read(&Store::existing(folder)?)? } else { None };
    plan.ok_or_else(|| {
        let message =
            format!("{}: no sweep is here (no `{}`); name the --out of `cloze sweep`", folder.display(), plan::NAME);
        Usage(message).into()
    })
}

/// Prints the table of the metric that chooses, and that of the statistic. `report.md` has the tables of all metrics.
fn print(results: &SweepResults, statistic: Statistic) {
    if results.finished().next().is_none() {
        return;
    }
    print_table(&tables::combinations_table(results, &Measure::of_choice(&results.plan)));
    print_table(&tables::chosen(results, statistic));
}

fn print_table(table: &tables::TextTable) {
    line("");
    table.text().lines().for_each(line);
}
