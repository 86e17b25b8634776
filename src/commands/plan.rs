//! `cloze plan`: the run before it costs anything.

use telemetry::terminal::line;

use crate::cli::ConfigArgs;
use crate::plan::outlook::Outlook;

/// Prints the plan, as lines or as one JSON object.
pub(crate) fn run(args: &ConfigArgs, json: bool) -> anyhow::Result<()> {
    let outlook = Outlook::of(args)?;
    if json {
        line(outlook.json().trim_end());
    } else {
        outlook.lines().into_iter().for_each(line);
    }
    Ok(())
}
