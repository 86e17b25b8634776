//! `cloze branch`: its own run that continues where another stood.

use std::path::Path;

use pipeline::exposure;
use schemas::Step;
use serde_json::json;
use store::Store;
use telemetry::Clock;
use telemetry::terminal::told;
use toml::Value;
use trainer_plan::run::{branch, skipped_steps};

use super::checkpoints::existing;
use crate::cli::ConfigArgs;
use crate::exit::Usage;
use crate::plan::{Plan, describe};
use crate::run::folder::RunFolder;
use crate::run::{bad_rows, dataset_versions};

/// What a run has decided once for all: which data it reads (of each source of a mixture), which steps it skips, and
/// which rows it leaves out. A branch has it from its run.
fn inherited(plan: &Plan) -> Vec<String> {
    let lists = plan.data().all().map(|data| dataset_versions::list_name(data.name()));
    lists.chain([skipped_steps::NAME, bad_rows::NAME].map(str::to_owned)).collect()
}

/// Makes a run in `out` of what `run` was after `step`, with some keys of its configuration set again. Reads `run` only.
pub(crate) fn run(run: &Path, step: u64, out: &Path, set: &[String], is_json: bool) -> anyhow::Result<()> {
    let from = existing(run)?;
    let folder = |folder: &Path| format!("run.folder={}", Value::String(folder.display().to_string()));
    if let Some(mine) = set.iter().find(|set| set.trim_start().starts_with("run.folder")) {
        return Err(Usage(format!("--set {mine}: a branch lies in `--out`")).into());
    }
    // Where its data and its steps are is known from the run's own folder.
    let set = set.iter().cloned().chain([folder(run)]).collect();
    let plan = Plan::of(&ConfigArgs { config: run.join("config.toml"), set })?;
    let mut config = plan.config().resolved();
    if let Some(Value::Table(section)) = config.get_mut("run") {
        section.insert("folder".to_owned(), Value::String(out.display().to_string()));
    }
    let mut papers = vec![
        ("config.toml".to_owned(), toml::to_string(&config)?.into_bytes()),
        ("plan.json".to_owned(), describe::json(&plan).into_bytes()),
    ];
    for name in inherited(&plan) {
        if let Some((content, _)) = from.read_with_stat(&name)? {
            papers.push((name, content));
        }
    }
    // What was counted up to there.
    let rows = step.saturating_mul(plan.train().train.global_batch_size);
    for (page, ..) in exposure::pages(&from)?.into_iter().filter(|(_, _, to)| *to <= rows) {
        let name = format!("{}/{page}", exposure::FOLDER);
        papers.push((name.clone(), from.read(&name)?));
    }
    let held = RunFolder::hold(&Store::folder(out)?)?;
    let branch = branch::make(&from, Step(step), held.store(), plan.train(), &papers, &Clock::system())?;
    if is_json {
        told(json!({ "branch": branch, "run": out.display().to_string() }));
        return Ok(());
    }
    let keys: Vec<String> = branch.keys.iter().map(ToString::to_string).collect();
    let keys = if keys.is_empty() { "as the run itself".to_owned() } else { keys.join(", ") };
    told(format_args!(
        "{} continues where {} stood after step {step}: {keys}; `cloze train -c {}`",
        out.display(),
        run.display(),
        out.join("config.toml").display()
    ));
    Ok(())
}
