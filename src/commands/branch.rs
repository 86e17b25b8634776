//! `cloze branch`: starts a new run from a checkpoint of another run.

use std::path::Path;

use pipeline::exposure::{self, ListedPage};
use schemas::{Step, shell_quoted};
use serde_json::json;
use telemetry::Clock;
use telemetry::terminal::outcome;
use toml::Value;
use trainer_plan::run::{branch, skipped_steps};

use super::checkpoints::existing;
use crate::cli::ConfigArgs;
use crate::exit::Usage;
use crate::plan::{Plan, describe};
use crate::run::data::copy;
use crate::run::folder::RunFolder;
use crate::run::{bad_rows, dataset_versions};

/// Files with the decisions of a run that a branch inherits: the data it reads (for each source of a mixture), the
/// steps it skips, and its bad rows.
fn inherited(plan: &Plan) -> Vec<String> {
    let lists = plan.data().all().map(|data| dataset_versions::list_name(data.name()));
    lists.chain([skipped_steps::NAME, bad_rows::NAME].map(str::to_owned)).collect()
}

/// Creates a run in `out` from the state of `run` after `step`, with the keys of `set` changed. Only reads `run`.
pub(crate) fn run(run: &Path, step: u64, out: &Path, set: &[String], is_json: bool) -> anyhow::Result<()> {
    let from = existing(run)?;
    let folder = |folder: &Path| format!("run.folder={}", Value::String(folder.display().to_string()));
    if let Some(mine) = set.iter().find(|set| set.trim_start().starts_with("run.folder")) {
        return Err(Usage(format!("--set {mine}: `--out` sets the folder of a branch; remove this `--set`")).into());
    }
    // The run's own folder locates its data and its steps.
    let set = set.iter().cloned().chain([folder(run)]).collect();
    let plan = Plan::of_branch(&ConfigArgs { config: run.join("config.toml"), set })?;
    let mut config = plan.config().resolved();
    if let Some(Value::Table(section)) = config.get_mut("run") {
        section.insert("folder".to_owned(), Value::String(out.display().to_string()));
    }
    let mut papers = vec![
        ("config.toml".to_owned(), toml::to_string(&config)?.into_bytes()),
        ("plan.json".to_owned(), describe::json(&plan).into_bytes()),
    ];
    papers.extend(copy::files(plan.data())?);
    for name in inherited(&plan) {
        if let Some((content, _)) = from.get_with_stat(&name)? {
            papers.push((name, content));
        }
    }
    // Rows consumed up to the step.
    let rows = step.saturating_mul(plan.train().train.global_batch_size);
    for ListedPage { name: page, .. } in exposure::pages(&from)?.into_iter().filter(|page| page.to <= rows) {
        let name = format!("{}/{page}", exposure::FOLDER);
        papers.push((name.clone(), from.get(&name)?));
    }
    let held = RunFolder::acquire(&remote_store::open_path(out)?)?;
    let branch = branch::make(&from, Step(step), held.store(), plan.train(), &papers, &Clock::system())?;
    if is_json {
        outcome(json!({ "branch": branch, "run": out.display().to_string() }));
        return Ok(());
    }
    let keys: Vec<String> = branch.keys.iter().map(ToString::to_string).collect();
    let keys = if keys.is_empty() { "same configuration".to_owned() } else { keys.join(", ") };
    outcome(format_args!(
        "{} continues {} from step {step}: {keys}; `cloze train -c {}`",
        out.display(),
        run.display(),
        shell_quoted(out.join("config.toml"))
    ));
    Ok(())
}
